// A loss takes the three reductions that there are, and refuses other numbers.
#include "unit/message_of.h"

#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(Losses, OtherReductionsAreRefused) {
  Tensor x = tensor({{0.5f, -1.0f}, {2.0f, 0.25f}}), y = zeros_like(x), none;
  Tensor classes = tensor({int64_t{0}, int64_t{1}}), total = tensor(2.0f);
  const std::function<void(int64_t)> calls[] = {
      [&](int64_t r) { mse_loss(x, y, r); },
      [&](int64_t r) { huber_loss(x, y, r); },
      [&](int64_t r) { mse_loss_backward(tensor(1.0f), x, y, r); },
      [&](int64_t r) { nll_loss_forward(x, classes, none, r, -100); },
      [&](int64_t r) { nll_loss_backward(tensor(1.0f), x, classes, none, r, -100, total); },
      [&](int64_t r) { cross_entropy_loss(x, softmax(x, 1), none, r); },
      [&](int64_t r) { multi_margin_loss(x, classes, 1, 1, none, r); },
      [&](int64_t r) { multilabel_margin_loss(x, zeros_like(x, Dtype::i64), r); },
  };
  for (const auto& call : calls) {
    call(2);
    for (int64_t r : {-4, 3})
      EXPECT_THAT(message_of([&] { call(r); }), HasSubstr("reduction must be 0 (none), 1 (mean)"));
  }
}

}  // namespace
}  // namespace tenon
