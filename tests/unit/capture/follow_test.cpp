// What following a body promises, one promise a test: how often it runs, what it leaves where it
// throws or leaves its path, numbers, gradients, threads, limits.
#include "core/tensor/allocator.h"
#include "unit/capture/short.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tenon {
namespace {

TEST(FollowedBodies, RunOnceACall) {
  int runs = 0;
  auto f = compile([&](const Tensor& x) { return ++runs, x + 1.0; }, eager);
  for (int i = 1; i <= 100; ++i) {
    f(ones({2}));
    ASSERT_EQ(runs, i);
  }
  EXPECT_EQ(f.stats().hits, 99);
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST(FollowedBodies, RunOnceWhereTheyLeaveTheirPath) {
  int runs = 0;
  bool other = false;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x + 1.0;
        ++runs;
        return other ? y * 2.0 : y.relu();
      },
      eager);
  f(ones({2}));
  other = true;
  EXPECT_EQ(f(ones({2})).to_vector<float>(), (std::vector<float>{4, 4}));
  EXPECT_EQ(runs, 2);
  f(ones({2}));
  other = false;
  f(ones({2}));
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(FollowedBodies, PassExceptionsOnAndKeepWhatTheyWrote) {
  bool throws = false;
  Tensor state = zeros({2});
  auto f = compile(
      [&](const Tensor& x) {
        state.add_(x);
        if (throws) throw std::runtime_error("mine");
        return state + 1.0;
      },
      eager);
  f(ones({2}));
  throws = true;
  for (int i = 0; i < 3; ++i) EXPECT_THROW(f(ones({2})), std::runtime_error);
  EXPECT_EQ(state.to_vector<float>(), (std::vector<float>{4, 4}));
  throws = false;
  EXPECT_EQ(f(ones({2})).to_vector<float>(), (std::vector<float>{6, 6}));
  EXPECT_EQ(f.stats().compiles, 2) << "the body, and the part before the exception";
}

TEST(FollowedBodies, OfSymbolicSizesServeEachSize) {
  Tensor w = full({3}, 2.0);
  auto f = compile(
      [&](const Tensor& x) {
        SymInt n = x.size(0);
        return (x * w).reshape({n * 3}).sum() / n;
      },
      eager);
  for (int64_t n : {4, 5, 6, 7, 9, 4}) {
    EXPECT_EQ(f(ones({n, 3})).item<float>(), 6);
    w = w.clone();
  }
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(FollowedBodies, OfMiniBatchesBySliceCompileOnce) {
  Tensor data = randn({40, 3});
  auto f = compile([](const Tensor& x) { return x.sum(0); }, eager);
  for (int epoch = 0; epoch < 3; ++epoch)
    for (int64_t i = 0; i < 40; i += 4)
      EXPECT_EQ(f(data.slice(0, i, i + 4)).to_vector<float>(),
                data.slice(0, i, i + 4).sum(0).to_vector<float>());
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(f.stats().hits, 29);
}

TEST(FollowedBodies, OfTrainingAndEvaluationSizesInTurnAreHits) {
  auto net = std::make_shared<nn::Linear>(3, 2);
  auto f = compile([net](const Tensor& x) { return (*net)(x).relu(); }, eager);
  for (int epoch = 0; epoch < 300; ++epoch) {
    f(ones({64, 3}));
    f(ones({100, 3}));
  }
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().hits, 598);
}

TEST(FollowedBodies, TakePlainNumbersAsArguments) {
  auto f = compile([](const Tensor& x, double rate, int64_t n) { return x * rate + n; }, eager);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(f(ones({2}), 0.5 * i, i).to_vector<float>(),
              (std::vector<float>(2, 1.5f * float(i))));
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().eager_calls, 0);
}

TEST(FollowedBodies, SpecializeNumbersWhereFlagsSaySo) {
  auto f = compile([](const Tensor& x, double rate) { return x * rate; },
                   {.backend = "eager", .options = {{"dynamo.specialize_float", "true"}}});
  for (int i = 0; i < 4; ++i) f(ones({2}), double(i));
  EXPECT_EQ(f.stats().compiles, 4);
}

TEST(FollowedBodies, AtTheLimitRunWithoutCodeOfTheirOwn) {
  int n = 0;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x + 1.0;
        for (int i = 0; i < n; ++i) y = y.neg();
        return y;
      },
      {.backend = "eager", .options = {{"dynamo.recompile_limit", "3"}}});
  for (n = 0; n < 200; ++n) EXPECT_EQ(f(ones({1})).item<float>(), n % 2 ? -2 : 2) << n;
  EXPECT_EQ(f.stats().compiles, 3);
  EXPECT_EQ(f.stats().eager_calls, 197);
  n = 1;
  for (int i = 0; i < 200; ++i) EXPECT_EQ(f(ones({1})).item<float>(), -2);
  EXPECT_GE(f.stats().hits, 100) << "versions serve again when the body is theirs";
}

TEST(FollowedBodies, WithLooksAtDataCompileNothingMore) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 5; ++i) y = y.sum().item<float>() > 0 ? y.neg() : y * 2.0;
        return y;
      },
      eager);
  for (int i = 0; i < 100; ++i) f(full({2}, i % 3 - 1.0));
  EXPECT_LE(f.stats().compiles, 6);
  EXPECT_EQ(f.stats().eager_calls, 0);
}

TEST(FollowedBodies, WithLooksAtDataHaveGradients) {
  Tensor w = full({2}, 3.0);
  w.requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * w;
        return y.sum().item<float>() > 0 ? y * 2.0 : y * 5.0;
      },
      {.backend = "aot_eager"});
  for (int i = 0; i < 6; ++i) {
    w.set_grad({});
    f(full({2}, i % 2 ? 1.0 : -1.0)).sum().backward();
    float expected = i % 2 ? 2 : -5;
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{expected, expected})) << i;
  }
}

TEST(FollowedBodies, WithLooksAtDataRunInThreadsAtOnce) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x * 2.0;
        if (y.sum().item<float>() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return y + 1.0;
      },
      eager);
  f(ones({2}));
  f(ones({2}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i)
        if (f(full({2}, double(t))).to_vector<float>()[1] != float(2 * t + 1)) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(FollowedBodies, PassExceptionsOnBehindALook) {
  Tensor state = zeros({2});
  auto f = compile(
      [&](const Tensor& x) {
        state.add_(x);
        if (state.sum().item<float>() > 9) throw std::runtime_error("mine");
        state.mul_(2.0);
        return state + 1.0;
      },
      eager);
  Tensor plain = zeros({2});
  for (int i = 0; i < 12; ++i) {
    plain.add_(ones({2}));
    bool throws = plain.sum().item<float>() > 9;
    if (throws)
      EXPECT_THROW(f(ones({2})), std::runtime_error);
    else
      f(ones({2}));
    if (!throws) plain.mul_(2.0);
    ASSERT_EQ(state.to_vector<float>(), plain.to_vector<float>()) << i;
    if (i == 7) {
      plain.zero_();
      state.zero_();
    }
  }
}

TEST(FollowedBodies, ChangeOverOnlyToVersionsForTheirTensors) {
  Tensor w = full({3}, 2.0);
  bool flag = false;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * w;
        return flag ? y.neg() : y.relu();
      },
      eager);
  Tensor x = ones({3});
  f(x);
  w = full({1}, 5.0);
  flag = true;
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{-5, -5, -5}));
  w = tensor({1.0f, 2.0f, 3.0f});
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{-1, -2, -3}));
}

TEST(FollowedBodies, KeepTheirGradModeWhereTheyLeaveThePath) {
  Tensor w = full({2}, 3.0);
  w.requires_grad_();
  bool other = false;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * w, s;
        {
          NoGradGuard off;
          s = other ? y.abs() : y.neg();
        }
        return (y * s).sum();
      },
      {.backend = "aot_eager"});
  f(ones({2}));
  other = true;
  for (int i = 0; i < 3; ++i) {
    w.set_grad({});
    f(ones({2})).backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{3, 3}));
  }
}

TEST(FollowedBodies, SeeOverlapsThatOnlySizesMake) {
  Tensor buffer = zeros({16});
  auto f = compile(
      [](const Tensor& x, const Tensor& y) {
        x.add_(1.0);
        return y * 2.0;
      },
      {.backend = "aot_eager", .dynamic = true});
  f(buffer.slice(0, 0, 4), buffer.slice(0, 4, 8));
  EXPECT_EQ(f(buffer.slice(0, 0, 6), buffer.slice(0, 4, 10)).to_vector<float>(),
            (std::vector<float>{2, 2, 0, 0, 0, 0}));
}

TEST(FollowedBodies, ThatChangeAShapeInPlaceSeeWhatTheyCapture) {
  double rate = 1;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x + 1.0;
        y.unsqueeze_(0);
        return y * rate;
      },
      eager);
  for (int i = 0; i < 40; ++i) {
    rate = i;
    EXPECT_EQ(f(ones({1})).item<float>(), float(2 * i));
  }
}

TEST(FollowedBodies, SeeMemoryThatCapturedTensorsShareBehindALook) {
  Tensor a = ones({4}), b = ones({4});
  bool write = false;
  auto f = compile(
      [&](const Tensor& x) {
        float s = (a * b).sum().item<float>();
        if (write) {
          a.add_(x);
          return b * s;
        }
        return x * s;
      },
      {.backend = "aot_eager"});
  Tensor x = ones({4});
  f(x);
  f(x);
  Tensor buffer = ones({8});
  a = buffer.narrow(0, 0, 4);
  b = buffer.narrow(0, 2, 4);
  write = true;
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{8, 8, 4, 4}));
}

TEST(FollowedBodies, RunAFailingSegmentOnce) {
  Tensor state = zeros({1});
  auto f = compile(
      [&](const Tensor& x) {
        if (x.sum().item<float>() > 0) state.mul_(1.0);
        state.add_(1.0);
        check((x < 5.0).all());
        return x + 1.0;
      },
      eager);
  for (int i = 0; i < 3; ++i) f(ones({1}));
  EXPECT_ANY_THROW(f(full({1}, 9.0)));
  EXPECT_EQ(state.item<float>(), 4);
}

TEST(FollowedBodies, KnowWhetherATensorNeedsAGradient) {
  Tensor w = full({2}, 3.0);
  w.requires_grad_();
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = zeros({2});
        y.add_(x * w);
        return y.requires_grad() ? y * 2.0 : y;
      },
      {.backend = "aot_eager"});
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(f(ones({2})).to_vector<float>(), (std::vector<float>{6, 6}));
}

TEST(FollowedBodies, WithListsOfNumbersMayLeaveTheirPath) {
  int64_t n = 2, k = 0;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = full({n, 3}, 2.0) * x;
        if (k == 1) return y.abs();
        y = y.neg();
        return k == 2 ? y.exp() : y;
      },
      eager);
  for (auto [size, course] : {std::pair{2, 0}, {5, 0}, {6, 1}, {7, 2}, {8, 1}, {9, 0}}) {
    n = size;
    k = course;
    Tensor found = f(ones({3}));
    EXPECT_EQ(found.size(0), SymInt(n));
    EXPECT_FLOAT_EQ(found.select(0, 0).select(0, 0).item<float>(), course == 1   ? 2.0f
                                                                   : course == 2 ? std::exp(-2.0f)
                                                                                 : -2.0f);
  }
}

TEST(FollowedBodies, GiveTheirOwnPlainResults) {
  int64_t n = 0;
  auto f =
      compile([&](const Tensor& x) { return ++n, std::tuple(x + 1.0, n, SymInt(n * 2)); }, eager);
  for (int64_t i = 1; i < 20; ++i) {
    auto [t, count, twice] = f(ones({2}));
    EXPECT_EQ(count, i);
    EXPECT_EQ(twice.guard_int(), 2 * i);
  }
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST(FollowedBodies, GiveEachCallASharedResultOfItsOwn) {
  auto f = compile([](const Tensor& x) { return std::make_shared<Tensor>(x + 1.0); }, eager);
  auto first = f(full({1}, 1.0)), second = f(full({1}, 2.0));
  EXPECT_EQ(first->item<float>(), 2);
  EXPECT_EQ(second->item<float>(), 3);
}

TEST(FollowedBodies, HaveGradientsThroughWeightsThatAreReplaced) {
  Tensor w = full({2}, 3.0);
  w.requires_grad_();
  auto f = compile([&](const Tensor& x) { return (x * w).sum(); }, {.backend = "aot_eager"});
  for (int i = 1; i < 5; ++i) {
    f(full({2}, double(i))).backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{float(i), float(i)}));
    w = full({2}, double(i));
    w.requires_grad_();
  }
  EXPECT_EQ(f.stats().compiles, 1);
  w = full({2}, 1.0);  // frozen
  EXPECT_FALSE(f(ones({2})).requires_grad());
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(FollowedBodies, MayCallThemselvesAndOthersOutsideOfTheGraph) {
  std::function<Tensor(const Tensor&, int)> call;
  auto f = compile(
      [&](const Tensor& x) {
        auto deeper = disable([&](const Tensor& t) {
          return t.sum().item<float>() > 10 ? call(t * 0.25, 0) : t + 1.0;
        });
        return deeper(x * 2.0);
      },
      eager);
  call = [&](const Tensor& t, int) { return f(t); };
  // 4 -> 8, a quarter of it -> 4, + 1
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(f(full({2}, 4.0)).to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST(FollowedBodies, RunInManyThreads) {
  std::vector<Tensor> weights;
  for (int i = 0; i < 4; ++i) weights.push_back(full({8}, double(i)));
  std::atomic<int> at{0}, wrong{0};
  thread_local const Tensor* mine = nullptr;
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x * *mine;
        return y.sum() + 1.0;
      },
      eager);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      int me = at++;
      mine = &weights[static_cast<size_t>(me)];
      for (int i = 0; i < 200; ++i)
        if (f(ones({8})).item<float>() != float(8 * me + 1)) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(f.stats().compiles, 1);
}

// ---- what the body lets go of

// As a plain run does; each `y` takes a megabyte.
TEST(FollowedBodies, FreeWhatTheyLetGoOfBetweenBreaks) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 20 && y.sum().item<float>() > 0; ++i) y = y + 1.0;
        return y;
      },
      eager);
  Tensor x = ones({1 << 18});
  for (int i = 0; i < 3; ++i) f(x);
  reset_allocator_peak();
  int64_t before = allocator_stats().current_bytes, compiles = f.stats().compiles;
  f(x);
  EXPECT_LT(allocator_stats().peak_bytes - before, 6 << 20);
  EXPECT_EQ(f.stats().compiles, compiles);
}

TEST(FollowedBodies, MayLeaveTheirPathAfterLettingGo) {
  int turn = 0;
  auto body = [&](const Tensor& x) {
    Tensor first = x + 1.0, kept = x * 3.0;
    Tensor second = first * first.sum().item<float>();
    first = Tensor();
    Tensor third = second - second.sum().item<float>();
    second = Tensor();
    bool ends_early = third.sum().item<float>() > 0 || turn % 3 == 2;
    if (ends_early) return third.relu() + kept;
    return turn % 3 == 1 ? third.neg() : third * kept;
  };
  auto f = compile(body, eager);
  for (turn = 0; turn < 12; ++turn)
    ASSERT_EQ(f(ones({2})).to_vector<float>(), body(ones({2})).to_vector<float>()) << turn;
}

// ---- many arguments

TEST(ManyArguments, AreTheSameObjectsWhereTheyWere) {
  auto body = [](const std::vector<Tensor>& xs) {
    xs[3].add_(1.0);
    return xs[3] + xs[40];
  };
  auto f = compile(body, {.backend = "eager", .pure = true});
  std::vector<Tensor> xs, ys;
  for (int i = 0; i < 50; ++i) xs.push_back(ones({2})), ys.push_back(ones({2}));
  auto expect_equal = [&](int64_t compiles) {
    ASSERT_EQ(f(xs).to_vector<float>(), body(ys).to_vector<float>());
    ASSERT_EQ(f.stats().compiles, compiles);
  };
  for (int i = 0; i < 3; ++i) expect_equal(1);
  xs[40] = xs[3], ys[40] = ys[3];
  for (int i = 0; i < 3; ++i) expect_equal(2);
  xs[40] = ones({2}), ys[40] = ones({2});
  for (int i = 0; i < 3; ++i) expect_equal(2);
}

}  // namespace
}  // namespace tenon
