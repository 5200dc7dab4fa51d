// Work that tests do on the CPU and on a device, to compare.
#pragma once

#include "double.h"

#include <tenon/tenon.h>

#include <string>
#include <utility>

namespace tenon {

double furthest(const Tensor& a, const Tensor& b);
/// What f() throws, as text.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// The gradients of x [m, k] and w [k, n] through a product, back on the CPU.
std::pair<Tensor, Tensor> gradients_of_a_product(Device device, const Tensor& x, const Tensor& w);
/// The last loss of five steps of AdamW.
double loss_of_training(Device device);

}  // namespace tenon
