// Functions whose results never change: how often they are asked, and what each call gets. The
// functions here give another number each time, so that calls show which one they got.
#include <tenon/tenon.h>

#include "unit/capture/short.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tenon {
namespace {

class ConstantResults : public testing::TestWithParam<const char*> {
 protected:
  Options with(Options options = {}) const {
    options.backend = GetParam();
    return options;
  }
  /// Calls what the body makes of x and the constant, with ones; each call gets the first constant.
  template <class Body>
  void check_first_constant(const Body& body, int n_calls = 5) {
    asked = 0;
    auto f = compile([&](const Tensor& x) { return body(x); }, with());
    std::vector<float> first = values(f(ones({2})));
    for (int i = 1; i < n_calls; ++i) EXPECT_EQ(values(f(ones({2}))), first) << i;
    EXPECT_EQ(asked, 1);
  }

  int asked = 0;
  std::function<double()> count = [this] { return double(++asked); };
};

INSTANTIATE_TEST_SUITE_P(Backends, ConstantResults,
                         testing::Values("eager", "aot_eager", "inductor"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ConstantResults, AreTheSameAtAllPlacesOfABody) {
  auto rate = assume_constant_result(count);
  check_first_constant([&](const Tensor& x) { return x * (rate() * 10) + rate(); });
}

TEST_P(ConstantResults, StayBehindWhatEndsAGraph) {
  auto rate = assume_constant_result(count);
  auto uncompiled = disable([](const Tensor& x) { return x + 1.0; });
  check_first_constant([&](const Tensor& x) {
    Tensor w = x.detach().requires_grad_();
    (w * w).sum().backward();
    return w.grad() * rate();
  });
  auto data = assume_constant_result(count);
  check_first_constant([&](const Tensor& x) {
    Tensor y = x * 2.0;
    y.data_ptr<float>()[0] = 2;
    return y * data();
  });
  auto behind = assume_constant_result(count);
  check_first_constant([&](const Tensor& x) { return uncompiled(x) * behind(); });
  auto looked = assume_constant_result(count);
  check_first_constant(
      [&](const Tensor& x) { return x.sum().item<float>() > 0 ? x * looked() : x - looked(); });
}

TEST_P(ConstantResults, AreThoseOfTheCallWhereOperationsAreNotCompiled) {
  auto rate = assume_constant_result(count);
  check_first_constant([&](const Tensor& x) {
    Tensor y = x * rate();
    NoCompile scope;
    return y + rate();
  });
  auto other = assume_constant_result(count);
  auto uncompiled = disable([&](const Tensor& x) { return x * other(); });
  check_first_constant([&](const Tensor& x) { return uncompiled(x) + other(); });
}

TEST_P(ConstantResults, BelongToVersions) {
  auto rate = assume_constant_result(count);
  auto f = compile([&](const Tensor& x) { return x * rate(); }, with({.dynamic = false}));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(values(f(ones({1 + i % 3})))[0], 1 + i % 3) << i;
  EXPECT_EQ(f.stats().compiles, 3);
  EXPECT_EQ(asked, 3);
}

TEST_P(ConstantResults, BelongToCallables) {
  auto rate = assume_constant_result(count);
  auto f = compile([rate](const Tensor& x) { return x * rate(); }, with());
  auto g = compile([rate](const Tensor& x) { return x + rate(); }, with());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(values(f(ones({1})))[0], 1);
    EXPECT_EQ(values(g(ones({1})))[0], 3);
  }
  EXPECT_EQ(asked, 2);
}

TEST_P(ConstantResults, AreThoseOfAVersionThatTheBodyLeaves) {
  auto rate = assume_constant_result(count);
  double factor = 1;
  auto f = compile([&](const Tensor& x) { return factor < 3 ? x * rate() : (x + rate()) * rate(); },
                   with());
  for (double next : {1, 3, 1, 3, 1}) {
    factor = next;
    EXPECT_EQ(values(f(ones({1})))[0], next < 3 ? 1 : 2);
  }
  EXPECT_EQ(asked, 1);
}

TEST_P(ConstantResults, AreAskedForAgainAfterAReset) {
  auto rate = assume_constant_result(count);
  auto f = compile([&](const Tensor& x) { return x * rate(); }, with());
  f(ones({1}));
  f.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values(f(ones({1})))[0], 2);
}

TEST_P(ConstantResults, MayBeTensorsAndUseOthers) {
  auto inner = assume_constant_result(count);
  auto table = assume_constant_result([&] {
    double tens = inner() * 10;
    return full({2}, tens + inner());
  });
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * table();
        return y + inner();
      },
      with());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(values(f(ones({2})))[0], 12 + 3);
  EXPECT_EQ(asked, 3);
}

TEST_P(ConstantResults, AreOfPureBodiesToo) {
  auto rate = assume_constant_result(count);
  auto f = compile([&](const Tensor& x) { return x * rate(); }, with({.pure = true}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(values(f(ones({1})))[0], 1);
  EXPECT_EQ(asked, 1);
}

TEST_P(ConstantResults, AreAskedForOutsideOfCompiledCalls) {
  auto rate = assume_constant_result(count);
  EXPECT_EQ(rate() + rate(), 3);
  auto f = compile([&](const Tensor& x) { return x * rate(); }, with());
  StanceScope stance(Stance::force_eager);
  for (float expected : {3, 4}) EXPECT_EQ(values(f(ones({1})))[0], expected);
}

TEST_P(ConstantResults, AreNotKeptWhereTheFunctionThrows) {
  auto rate = assume_constant_result([&] {
    if (++asked == 1) throw std::runtime_error("not yet");
    return asked;
  });
  auto f = compile([&](const Tensor& x) { return x * rate(); }, with());
  EXPECT_THROW(f(ones({1})), std::runtime_error);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values(f(ones({1})))[0], 2);
}

TEST_P(ConstantResults, OfOneCallableAreTheSameOnAllThreads) {
  auto rate = assume_constant_result(count);
  auto f = compile([&](const Tensor& x) { return x * rate(); }, with());
  f(ones({1}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(values(f(ones({1})))[0], 1);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(asked, 1);
}

// Each is another function, and none of them is kept for long.
TEST_P(ConstantResults, MadeInABodyAreAskedForOnEachCall) {
  auto kept = std::make_shared<int>(0);
  auto f = compile(
      [&](const Tensor& x) {
        return x + assume_constant_result([kept] { return double(++*kept); })();
      },
      with());
  for (int i = 1; i < 6; ++i) EXPECT_EQ(values(f(ones({1})))[0], 1 + i);
  EXPECT_LE(kept.use_count(), 3);
}

}  // namespace
}  // namespace tenon
