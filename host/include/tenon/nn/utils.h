// SPDX-License-Identifier: Apache-2.0
// What is done with modules and their parameters as a whole: copies, and all numbers as one vector.
#pragma once

#include <tenon/nn/module.h>
#include <tenon/optim.h>

#include <concepts>
#include <vector>

namespace tenon::nn {

namespace detail {
/// Gives `copy`, a copy of `original`, tensors of its own. Throws UserError where both hold one module.
TENON_API void own_tensors(Module& copy, const Module& original);
}  // namespace detail

/// A copy with parameters and buffers of its own, as copy.deepcopy() makes: same values, modes and needs
/// of gradients, no gradients; what was shared within the module stays so. Tensors that TENON_MODULE does
/// not list stay shared. Throws UserError for a module that holds another by shared_ptr: make a second
/// one, and have it load_state_dict().
///
///     Net teacher = nn::clone(student);
template <std::derived_from<Module> M>
M clone(const M& module) {
  static_assert(std::copy_constructible<M>,
                "nn::clone needs a module that can be copied; make a second one, and have it "
                "load_state_dict(first.state_dict())");
  M copy(module);
  detail::own_tensors(copy, module);
  return copy;
}

namespace utils {

using optim::clip_grad_norm_;
using optim::clip_grad_value_;

/// All elements, one parameter after the other. Gradients go back through it.
TENON_API Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
/// Writes such a vector into the parameters. Throws UserError where it has another length.
TENON_API void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace utils
}  // namespace tenon::nn
