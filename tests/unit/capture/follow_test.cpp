// Bodies run on every call: whatever they read besides their arguments is what it is at that time.
// Each program is a callable over state of its own, run plain and compiled, with equal results.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace tenon {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

/// A program: a body over state of its own, and what happens between its calls.
struct Program {
  const char* name;
  int64_t most_compiles;
  std::function<std::pair<Body, std::function<void(int)>>()> make;
};

Tensor row(float a, float b, float c) { return tensor({a, b, c}); }

struct Buffers {
  Tensor front = zeros({3}), back = ones({3});
};

struct Layer {
  Tensor weight;
  explicit Layer(float w) : weight(full({3}, w)) {}
};

const Program programs[] = {
    {"AWeightReplacedWhileACopyKeepsTheOldOne", 1,
     [] {
       auto layer = std::make_shared<Layer>(1.0f);
       auto copies = std::make_shared<std::vector<Tensor>>();
       return std::pair<Body, std::function<void(int)>>{
           [layer](const Tensor& x) { return x * layer->weight + 1.0; },
           [layer, copies](int i) {
             copies->push_back(layer->weight);
             if (i % 3 == 0) layer->weight = full({3}, float(i));
           }};
     }},
    {"TwoNetworksSwapped", 1,
     [] {
       auto nets = std::make_shared<std::pair<Layer, Layer>>(Layer(2), Layer(5));
       return std::pair<Body, std::function<void(int)>>{
           [nets](const Tensor& x) { return x * nets->first.weight - nets->second.weight; },
           [nets](int) { std::swap(nets->first, nets->second); }};
     }},
    {"DoubleBuffersWrittenInPlace", 1,
     [] {
       auto b = std::make_shared<Buffers>();
       return std::pair<Body, std::function<void(int)>>{[b](const Tensor& x) {
                                                          b->back.copy_(b->front * 0.5 + x);
                                                          return b->back + b->front;
                                                        },
                                                        [b](int) { std::swap(b->front, b->back); }};
     }},
    {"ACopyOfAHandleInTheBody", 1,
     [] {
       auto layer = std::make_shared<Layer>(1.0f);
       auto old = std::make_shared<Tensor>(layer->weight);
       return std::pair<Body, std::function<void(int)>>{
           [layer](const Tensor& x) {
             Tensor h = layer->weight;
             return cat({h, x}, 0);
           },
           [layer, old](int i) { layer->weight = full({3}, float(i)); }};
     }},
    {"AWeightOfAnotherShape", 3,
     [] {
       auto layer = std::make_shared<Layer>(1.0f);
       return std::pair<Body, std::function<void(int)>>{
           [layer](const Tensor& x) { return (x.unsqueeze(1) * layer->weight).sum(0); },
           [layer](int i) { layer->weight = full({i % 2 ? 2 : 3}, float(i)); }};
     }},
    {"AWeightOfAnotherDtype", 2,
     [] {
       auto layer = std::make_shared<Layer>(1.0f);
       return std::pair<Body, std::function<void(int)>>{
           [layer](const Tensor& x) { return x * layer->weight; },
           [layer](int i) {
             layer->weight = full({3}, float(i)).to(i % 2 ? Dtype::f64 : Dtype::f32);
           }};
     }},
    {"AListThatGrowsToThree", 4,
     [] {
       auto list = std::make_shared<std::vector<Tensor>>();
       return std::pair<Body, std::function<void(int)>>{[list](const Tensor& x) {
                                                          Tensor sum = x * 1.0;
                                                          for (const Tensor& t : *list)
                                                            sum = sum + t;
                                                          return sum;
                                                        },
                                                        [list](int i) {
                                                          if (list->size() < 3)
                                                            list->push_back(full({3}, float(i)));
                                                        }};
     }},
    {"AFlagThatFlips", 2,
     [] {
       auto flag = std::make_shared<bool>(false);
       return std::pair<Body, std::function<void(int)>>{[flag](const Tensor& x) {
                                                          Tensor y = x.relu();
                                                          return *flag ? y * 2.0 : y + 1.0;
                                                        },
                                                        [flag](int i) { *flag = i % 3 == 0; }};
     }},
    {"AFlagThatFlipsBehindAWrite", 2,
     [] {
       auto flag = std::make_shared<bool>(false);
       auto state = std::make_shared<Tensor>(zeros({3}));
       return std::pair<Body, std::function<void(int)>>{[flag, state](const Tensor& x) {
                                                          state->add_(x);
                                                          if (*flag) state->mul_(0.5);
                                                          return *state + 1.0;
                                                        },
                                                        [flag](int i) { *flag = i % 3 == 0; }};
     }},
    {"EveryThirdCallReturnsItsArgument", 2,
     [] {
       auto n = std::make_shared<int>(0);
       return std::pair<Body, std::function<void(int)>>{
           [n](const Tensor& x) { return ++*n % 3 ? x * 2.0 : x; }, [](int) {}};
     }},
    {"ANumberThatChangesOnce", 2,
     [] {
       auto factor = std::make_shared<double>(2);
       return std::pair<Body, std::function<void(int)>>{
           [factor](const Tensor& x) { return x * *factor; },
           [factor](int i) {
             if (i == 7) *factor = 5;
           }};
     }},
    {"ANumberThatChangesOnEachCall", 2,
     [] {
       auto rate = std::make_shared<double>(1);
       return std::pair<Body, std::function<void(int)>>{
           [rate](const Tensor& x) { return x.relu() * *rate + 1.0; },
           [rate](int i) { *rate = 1.0 / (i + 2); }};
     }},
    {"TwoNumbersThatChangeAtDifferentTimes", 3,
     [] {
       auto n = std::make_shared<std::pair<double, int>>(1.5, 2);
       return std::pair<Body, std::function<void(int)>>{
           [n](const Tensor& x) { return (x * n->first).neg() + n->second; },
           [n](int i) {
             n->first += i > 5;
             n->second += i > 9;
           }};
     }},
    {"ACounterAsABound", 2,
     [] {
       auto n = std::make_shared<int>(0);
       return std::pair<Body, std::function<void(int)>>{
           [n](const Tensor& x) { return x.clamp_min(double((*n)++)) - 1.0; }, [](int) {}};
     }},
    {"ASizeThatGrows", 3,
     [] {
       auto n = std::make_shared<int64_t>(2);
       return std::pair<Body, std::function<void(int)>>{[n](const Tensor& x) {
                                                          return full({*n, 3}, 2.0) * x;
                                                        },
                                                        [n](int i) { *n += i > 2; }};
     }},
    {"ARowThatIsCounted", 2,
     [] {
       auto table = std::make_shared<Tensor>(arange(300).reshape({100, 3}).to(Dtype::f32));
       auto n = std::make_shared<int64_t>(5);
       return std::pair<Body, std::function<void(int)>>{
           [table, n](const Tensor& x) { return table->select(0, *n) + x; },
           [n](int) { *n = (*n * 7 + 3) % 90 + 2; }};
     }},
    {"ACacheThatGrows", 5,
     [] {
       auto cache = std::make_shared<Tensor>(zeros({20, 3}));
       auto n = std::make_shared<int64_t>(0);
       return std::pair<Body, std::function<void(int)>>{
           [cache, n](const Tensor& x) {
             cache->narrow(0, *n, 1).copy_(x.unsqueeze(0));
             *n = (*n + 1) % 18;
             return cache->narrow(0, 0, *n + 1).sum(0);
           },
           [](int) {}};
     }},
    {"ALiteralTensorInTheBody", 1,
     [] {
       return std::pair<Body, std::function<void(int)>>{
           [](const Tensor& x) {
             return x * tensor({1.0f, 2.0f, 3.0f}) + 0.5;
           },
           [](int) {}};
     }},
    {"ATensorStoredOutsideNowAndThen", 3,
     [] {
       auto kept = std::make_shared<Tensor>(zeros({3}));
       auto n = std::make_shared<int>(0);
       return std::pair<Body, std::function<void(int)>>{[kept, n](const Tensor& x) {
                                                          Tensor y = x + 1.0;
                                                          Tensor before = *kept;
                                                          if (++*n % 4 == 0) *kept = y * 2.0;
                                                          return y + before;
                                                        },
                                                        [](int) {}};
     }},
    {"ALookAtDataNowAndThen", 4,
     [] {
       auto n = std::make_shared<int>(0);
       return std::pair<Body, std::function<void(int)>>{
           [n](const Tensor& x) {
             Tensor y = x * 2.0;
             if (++*n % 4 == 0 && y.sum().item<float>() > 0) y = y + 10.0;
             return y.neg();
           },
           [](int) {}};
     }},
    {"ALookAtDataOnEachCall", 3,
     [] {
       return std::pair<Body, std::function<void(int)>>{
           [](const Tensor& x) {
             Tensor y = x * 2.0;
             return y.sum().item<float>() > 4 ? y + 10.0 : y - 10.0;
           },
           [](int) {}};
     }},
    {"ALoopUntilDataSaysSo", 12,
     [] {
       return std::pair<Body, std::function<void(int)>>{[](const Tensor& x) {
                                                          Tensor y = x.abs() + 1.0;
                                                          int turns = 0;
                                                          while (y.sum().item<float>() < 200) {
                                                            y = y * 1.5 + 1.0;
                                                            ++turns;
                                                          }
                                                          return y + turns;
                                                        },
                                                        [](int) {}};
     }},
    {"ANumberOfTheDataInArithmetic", 5,
     [] {
       return std::pair<Body, std::function<void(int)>>{[](const Tensor& x) {
                                                          Tensor g = x * 0.5;
                                                          float n = g.norm().item<float>();
                                                          if (n > 1) g = g / n;
                                                          return g + 1.0;
                                                        },
                                                        [](int) {}};
     }},
    {"AWriteBeforeAndBehindALook", 3,
     [] {
       auto state = std::make_shared<Tensor>(zeros({3}));
       return std::pair<Body, std::function<void(int)>>{[state](const Tensor& x) {
                                                          state->add_(x);
                                                          Tensor view = state->narrow(0, 0, 2);
                                                          float first = view.to_vector<float>()[0];
                                                          view.mul_(0.5);
                                                          return *state + (first > 3 ? 1.0 : 1.0);
                                                        },
                                                        [](int) {}};
     }},
    {"AWeightReplacedBetweenLooks", 4,
     [] {
       auto layer = std::make_shared<Layer>(1.0f);
       return std::pair<Body, std::function<void(int)>>{[layer](const Tensor& x) {
                                                          Tensor y = x * layer->weight;
                                                          if (y.sum().item<float>() > 10)
                                                            layer->weight = layer->weight * 0.5;
                                                          return y + layer->weight;
                                                        },
                                                        [layer](int i) {
                                                          if (i % 5 == 0)
                                                            layer->weight = full({3}, float(i));
                                                        }};
     }},
    {"AFunctionThatIsNotRecorded", 3,
     [] {
       auto n = std::make_shared<int>(0);
       return std::pair<Body, std::function<void(int)>>{
           [n](const Tensor& x) {
             auto outside = disable([n](const Tensor& t) { return t * float(++*n); });
             return outside(x + 1.0).relu() - x;
           },
           [](int) {}};
     }},
    {"AValueKeptOverALook", 3,
     [] {
       auto kept = std::make_shared<Tensor>(zeros({3}));
       return std::pair<Body, std::function<void(int)>>{[kept](const Tensor& x) {
                                                          Tensor a = x + 1.0, b = x * 2.0;
                                                          if (b.sum().item<float>() > 6) *kept = a;
                                                          return a + b + *kept;
                                                        },
                                                        [](int) {}};
     }},
    {"PointersAimedElsewhere", 1,
     [] {
       auto a = std::make_shared<Layer>(2), b = std::make_shared<Layer>(3);
       auto at = std::make_shared<std::shared_ptr<Layer>>(a);
       return std::pair<Body, std::function<void(int)>>{
           [at](const Tensor& x) { return x * (*at)->weight; },
           [at, a, b](int i) { *at = i % 2 ? b : a; }};
     }},
    {"CapturedTensorsBecomeOne", 2,
     [] {
       auto b = std::make_shared<Buffers>();
       return std::pair<Body, std::function<void(int)>>{[b](const Tensor& x) {
                                                          b->back.copy_(x);
                                                          return b->front + b->back;
                                                        },
                                                        [b](int i) {
                                                          if (i == 5) b->front = b->back;
                                                        }};
     }},
    {"TheArgumentIsCapturedToo", 2,
     [] {
       auto seen = std::make_shared<Tensor>(ones({3}));
       return std::pair<Body, std::function<void(int)>>{
           [seen](const Tensor& x) { return x * *seen; },
           [seen](int i) { *seen = full({3}, float(i)); }};
     }},
};

class Follow : public testing::TestWithParam<std::tuple<const char*, Program>> {};

TEST_P(Follow, GivesWhatThePlainProgramGives) {
  auto [backend, program] = GetParam();
  auto [plain, step] = program.make();
  auto [body, step_compiled] = program.make();
  auto compiled = compile([body = body](const Tensor& x) { return body(x); }, {.backend = backend});
  for (int i = 0; i < 60; ++i) {
    Tensor x = row(float(i), 1.0f, -2.0f), copy = x.clone();
    std::vector<float> expected = plain(x).to(Dtype::f32).to_vector<float>();
    std::vector<float> found = compiled(copy).to(Dtype::f32).to_vector<float>();
    ASSERT_EQ(found.size(), expected.size()) << "call " << i;
    // Inductor contracts products and sums.
    for (size_t k = 0; k < found.size(); ++k)
      ASSERT_NEAR(found[k], expected[k], 3e-7 * std::max(1.0f, std::fabs(expected[k])))
          << "call " << i;
    step(i);
    step_compiled(i);
  }
  EXPECT_LE(compiled.stats().compiles, program.most_compiles);
  EXPECT_EQ(compiled.stats().eager_calls, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Follow,
                         testing::Combine(testing::Values("eager", "aot_eager", "inductor"),
                                          testing::ValuesIn(programs)),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param).name) + "_" +
                                  std::get<0>(info.param);
                         });

const Options eager{.backend = "eager"};

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
    EXPECT_FLOAT_EQ(found.select(0, 0).select(0, 0).item<float>(),
                    course == 1 ? 2.0f : course == 2 ? std::exp(-2.0f) : -2.0f);
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

}  // namespace
}  // namespace tenon
