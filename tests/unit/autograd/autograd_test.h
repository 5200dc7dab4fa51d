// What the tests of gradients share.
#pragma once

#include "unit/message_of.h"

#include <tenon/autograd.h>
#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenon {

inline Tensor leaf(std::vector<double> values, IntList sizes) {
  return tensor(values, sizes).requires_grad_();
}

inline std::vector<double> numbers(const Tensor& t) { return t.detach().to_vector<double>(); }

}  // namespace tenon
