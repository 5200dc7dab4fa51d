// What the tests of modules and optimisers share.
#pragma once

#include "folders.h"
#include "unit/message_of.h"

#include <tenon/autograd.h>
#include <tenon/nn.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include <tenon/tree.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace tenon {

/// What tests/nn/make_nn_cases.py has recorded.
inline StateDict nn_recording(const std::string& name) {
  return load_tensors(source_path("tests/data/nn/" + name + ".safetensors"));
}

/// The entries below "prefix/", without it.
inline StateDict below(const StateDict& all, const std::string& prefix) {
  StateDict out;
  for (auto at = all.lower_bound(prefix + "/"); at != all.end(); ++at) {
    if (!at->first.starts_with(prefix + "/")) break;
    out[at->first.substr(prefix.size() + 1)] = at->second;
  }
  return out;
}

/// Copies of what a recording begins with, as leaves.
inline std::vector<Tensor> start_parameters(const StateDict& recording) {
  std::vector<Tensor> out;
  for (const auto& [i, p] : below(recording, "start")) out.push_back(p.clone().requires_grad_());
  return out;
}

/// Empty when both agree, else what differs.
inline std::string difference(const Tensor& found, const Tensor& expected,
                              double tolerance = 1e-5) {
  if (!found.defined()) return "undefined";
  if (to_text(found.sizes()) != to_text(expected.sizes()) || found.dtype() != expected.dtype())
    return "expected " + to_text(expected) + ", found " + to_text(found);
  std::vector<double> a = found.detach().to(Dtype::f64).to_vector<double>(),
                      b = expected.to(Dtype::f64).to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i]))))
      return message("element {}: expected {}, found {}", i, b[i], a[i]);
  return "";
}

inline double number_of(const Tensor& t) { return t.detach().to(Dtype::f64).item<double>(); }

}  // namespace tenon
