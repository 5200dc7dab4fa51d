// Threads that a body starts and that meet its tensors: each use is an error that names it, since the
// operations of a body have not run when the thread does.
#include <tenon/tenon.h>

#include "unit/capture/short.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <sstream>
#include <string>
#include <thread>

namespace tenon {
namespace {

using testing::HasSubstr;

std::string error_in_thread(const std::function<void()>& use) {
  try {
    std::async(std::launch::async, use).get();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// What a thread is told that does something with a tensor of a body, which is recorded and followed.
void expect_error(const char* name, const std::function<void(const Tensor&)>& use) {
  for (const char* backend : {"eager", "inductor"}) {
    Tensor w = ones({1}).requires_grad_();
    auto f = compile(
        [&](const Tensor& x) {
          Tensor y = (x * w).sum();
          std::string error = error_in_thread([&] { use(y); });
          EXPECT_THAT(error, HasSubstr(name));
          EXPECT_THAT(error, HasSubstr("runs on another thread"));
          EXPECT_THAT(error, HasSubstr("under disable()"));
          return y + 1.0;
        },
        {.backend = backend});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(f(ones({1})).item<float>(), 2) << name;
  }
}

TEST(OtherThreads, MayNotRunOperationsOnTensorsOfABody) {
  Tensor real = zeros({});
  expect_error("aten.mul_.Scalar", [](const Tensor& y) { y.mul_(3.0); });
  expect_error("aten.add.Scalar", [](const Tensor& y) { static_cast<void>(y + 1.0); });
  expect_error("aten.copy_.default", [&](const Tensor& y) { real.copy_(y); });
  expect_error("aten.add_.Tensor", [&](const Tensor& y) { real.add_(y); });
  EXPECT_EQ(real.item<float>(), 0);
}

TEST(OtherThreads, MayNotLookAtTensorsOfABody) {
  expect_error("item()", [](const Tensor& y) { static_cast<void>(float(y.item<float>())); });
  expect_error("data_ptr()", [](const Tensor& y) { y.data_ptr<float>(); });
  expect_error("to_vector()", [](const Tensor& y) { std::ostringstream() << y; });
  expect_error("version()", [](const Tensor& y) { y.version(); });
}

TEST(OtherThreads, MayNotAskForTheHistoryOfTensorsOfABody) {
  expect_error("backward()", [](const Tensor& y) { y.backward(); });
  expect_error("requires_grad_", [](const Tensor& y) { y.requires_grad_(); });
  expect_error("grad_fn", [](const Tensor& y) { autograd::grad_fn(y); });
  expect_error("is_leaf", [](const Tensor& y) { y.is_leaf(); });
  expect_error("grad:", [](const Tensor& y) { y.grad(); });
}

TEST(OtherThreads, MayNotGiveTensorsOfABodyToCompiledCallables) {
  for (const char* backend : {"eager", "inductor"}) {
    auto g = compile(twice, {.backend = backend});
    expect_error("calling a compiled callable", [&](const Tensor& y) { g(y); });
    g(ones({}));
    expect_error("calling a compiled callable", [&](const Tensor& y) { g(y); });
  }
}

TEST(OtherThreads, UseTensorsOfTheDeviceMetaAndRealOnes) {
  Tensor meta = zeros({2}, {}, {}, Device("meta")), real = zeros({1});
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * 2.0;
        std::thread([&] { meta.mul_(2.0), real.add_(1.0); }).join();
        return y;
      },
      eager);
  for (int i = 0; i < 3; ++i) f(ones({1}));
  EXPECT_EQ(real.item<float>(), 3);
}

TEST(OtherThreads, GetRealTensorsUnderDisable) {
  auto in_thread = disable([](const Tensor& y) { std::thread([&] { y.mul_(3.0); }).join(); });
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * 2.0;
        in_thread(y);
        return y;
      },
      eager);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(ones({1})).item<float>(), 6);
}

TEST(OtherThreads, UseWhatABodyHasKept) {
  Tensor kept;
  auto f = compile([&](const Tensor& x) { kept = x * 2.0; }, eager);
  for (int i = 0; i < 3; ++i) {
    f(ones({1}));
    EXPECT_EQ(error_in_thread([&] { kept.mul_(2.0); }), "");
    EXPECT_EQ(kept.item<float>(), 4);
  }
}

}  // namespace
}  // namespace tenon
