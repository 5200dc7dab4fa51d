// Bodies run on every call: whatever they read besides their arguments is what it is at that time.
// Each program is a callable over state of its own, run plain and compiled, with equal results.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

namespace tenon {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

/// A program: a body over state of its own, and what happens between its calls.
struct FollowedProgram {
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

const FollowedProgram programs[] = {
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

class Follow : public testing::TestWithParam<std::tuple<const char*, FollowedProgram>> {};

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

}  // namespace
}  // namespace tenon
