// What the optimisers share.
#pragma once

#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>
#include <tenon/optim.h>

#include <vector>

namespace tenon::optim {

/// Whether the update of a parameter depends on nothing but its tensors and the group's options.
bool is_of_the_library(const Optimizer& o);

inline void require_at_least_zero(std::string_view optimizer, std::string_view what, double value) {
  require(value >= 0, "{}: expected {} of 0 or more, found {}", optimizer, what, value);
}

inline void require_fraction(std::string_view optimizer, std::string_view what, double value) {
  require(value >= 0 && value < 1, "{}: expected {} in [0, 1), found {}", optimizer, what, value);
}

/// The real and imaginary parts of a complex tensor, in one dimension more; of others, all there is.
inline Tensor real_parts(const Tensor& t) { return is_complex(t.dtype()) ? view_as_real(t) : t; }

/// Calls `update` with the parameter, its gradient and its state, of complex ones with their real and
/// imaginary parts as numbers of their own, as PyTorch's optimisers take them.
template <class Update>
void in_real_numbers(const Tensor& parameter, const Tensor& grad, const std::vector<Tensor>& state,
                     const Update& update) {
  if (!is_complex(parameter.dtype())) return update(parameter, grad, state);
  std::vector<Tensor> parts;
  for (const Tensor& t : state) parts.push_back(real_parts(t));
  update(view_as_real(parameter), view_as_real(grad), parts);
}

/// g, or -g to climb, with the pull of weight decay.
inline Tensor descent(const Tensor& grad, const Tensor& parameter, bool maximize,
                      double weight_decay) {
  Tensor g = maximize ? grad.neg() : grad;
  return weight_decay != 0 ? g.add(parameter, weight_decay) : g;
}

/// Weight decay that does not go through the gradient.
inline void decay(const Tensor& parameter, const Tensor& lr, double weight_decay) {
  if (weight_decay != 0) parameter.mul_(lr.mul(-weight_decay).add_(1));
}

}  // namespace tenon::optim
