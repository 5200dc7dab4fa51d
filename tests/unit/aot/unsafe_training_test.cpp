// What cannot be differentiated ahead: op by op on the tape, or an error where that is asked for.
#include "report/events.h"
#include "unit/message_of.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The arguments share memory, the second is written through the first.
Tensor written_beside_its_view(const config::Patch&) {
  auto f = compile(
      [](const Tensor& a, const Tensor& b) {
        Tensor(a).mul_(2);
        return a.sum() + b.sum();
      },
      {.backend = "aot_eager"});
  Tensor leaf = ones({4}, Dtype::f64).requires_grad_(), memory = leaf * 1;
  f(memory, memory.view({2, 2})).backward();
  return leaf.grad();
}

TEST(UnsafeTraining, RunsOpByOpByDefault) {
  int64_t before = report::counter("aot.joint_refused").value();
  Tensor grad =
      written_beside_its_view(config::patch({{"dynamo.raise_on_unsafe_aot_autograd", false}}));
  EXPECT_EQ(grad.sum().item<double>(), 16);
  EXPECT_EQ(report::counter("aot.joint_refused").value(), before + 1);
}

TEST(UnsafeTraining, RaiseOnUnsafeAotAutogradMakesItAnError) {
  EXPECT_THAT(
      message_of<UserError>([] {
        written_beside_its_view(config::patch({{"dynamo.raise_on_unsafe_aot_autograd", true}}));
      }),
      AllOf(HasSubstr("inputs that overlap in memory are written"),
            HasSubstr("dynamo.raise_on_unsafe_aot_autograd = false")));
}

// What cannot be made functional, with and without a backward.
TEST(UnsafeTraining, RaiseOnUnsafeAotAutogradIsAboutForwardsToo) {
  auto grow = [] {
    auto f = compile(
        [](Tensor x) {
          x.resize_({20});
          x.fill_(2);
          return x.sum();
        },
        {.backend = "aot_eager"});
    return f(ones({3})).item<float>();
  };
  int64_t before = report::counter("aot.lowering_refused").value();
  EXPECT_EQ(grow(), 40);
  EXPECT_EQ(report::counter("aot.lowering_refused").value(), before + 1);
  auto scope = config::patch({{"dynamo.raise_on_unsafe_aot_autograd", true}});
  EXPECT_THAT(message_of<UserError>(grow),
              AllOf(HasSubstr("grows beyond its memory"),
                    HasSubstr("dynamo.raise_on_unsafe_aot_autograd = false")));
}

}  // namespace
}  // namespace tenon
