// What programs say about the sizes and the memory of arguments.
#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include "unit/capture/short.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

using testing::HasSubstr;

class Marks : public testing::TestWithParam<const char*> {
 protected:
  Options with(Options options = {}) const {
    options.backend = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Marks, testing::Values("eager", "aot_eager", "inductor"),
                         [](const auto& test) { return std::string(test.param); });

template <class F>
void call_with_sizes(const F& f, std::initializer_list<int64_t> sizes) {
  for (int64_t n : sizes)
    EXPECT_EQ(f(ones({n})).sum().template item<float>(),
              f.original()(ones({n})).sum().template item<float>());
}

TEST_P(Marks, AWishForASymbolIsHeard) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, with());
  Tensor x = ones({4});
  maybe_mark_dynamic(x, 0);
  f(x);
  call_with_sizes(f, {5, 6, 4});
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(Marks, AWishForASymbolGivesWayWhereAMarkIsAnError) {
  auto body = [](const Tensor& x) { return x * 2.0 + ones({4}); };
  Tensor wished = ones({4}), marked = ones({4});
  maybe_mark_dynamic(wished, 0);
  mark_dynamic(marked, 0);
  auto f = compile(body, with()), g = compile(body, with());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(wished)[0].item<float>(), 3);
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(message_of([&] { g(marked); }), HasSubstr("marked dynamic"));
}

TEST_P(Marks, BoundsAreGuards) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, with());
  Tensor x = ones({4});
  mark_dynamic(x, 0, {.min = 2, .max = 16});
  f(x);
  call_with_sizes(f, {2, 16, 9});
  EXPECT_EQ(f.stats().compiles, 1);
  call_with_sizes(f, {17});
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_THAT(message_of([&] { mark_dynamic(x, 0, {.min = 5, .max = 4}); }), HasSubstr("above"));
  EXPECT_THAT(message_of([&] { mark_dynamic(x, 1); }), HasSubstr("out of range"));
}

TEST_P(Marks, MayBeOfSeveralDimensions) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, with());
  Tensor x = ones({4, 5}), y = ones({4, 5});
  mark_dynamic(x, {0, 1});
  mark_dynamic(x, std::vector<int64_t>());
  f(x);
  for (int64_t n : {6, 7, 8}) f(ones({n, n + 1}));
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(message_of([&] { mark_dynamic(x, {0, 2}); }), HasSubstr("out of range"));
  EXPECT_THAT(message_of([&] {
                mark_dynamic(x, {0, 1}, {.min = 5, .max = 4});
              }),
              HasSubstr("above"));

  auto g = compile([](const Tensor& t) { return t * 2.0; }, with({.dynamic = true}));
  mark_static(y, {0, -1});
  g(y);
  g(ones({4, 6}));
  EXPECT_EQ(g.stats().compiles, 2);
}

TEST_P(Marks, SpecialSizesHaveVersionsOfTheirOwn) {
  std::vector<std::string> courses;
  auto f = compile(
      [&](const Tensor& x) {
        bool special = statically_known_true(x.size(0) % 16 == 0);
        return special ? x * 2.0 : x + x;
      },
      with());
  auto call = [&](int64_t n) {
    Tensor x = ones({n});
    mark_dynamic(x, 0, {.specialize_on = {[](const SymInt& size) { return size % 16 == 0; }, 24}});
    EXPECT_EQ(f(x).sum().item<float>(), 2 * float(n));
    return f.stats().compiles;
  };
  EXPECT_EQ(call(7), 1);
  EXPECT_EQ(call(32), 2);
  EXPECT_EQ(call(24), 3);
  for (int64_t n : {9, 48, 24, 33, 64}) EXPECT_EQ(call(n), 3);
  call_with_sizes(f, {16, 5, 24});
  EXPECT_EQ(f.stats().compiles, 3);
  EXPECT_THAT(f.explain(), HasSubstr("arg0.size(0) % 16"));
}

TEST_P(Marks, CodeForASpecialSizeMayBeForThatOneOnly) {
  auto f =
      compile([](const Tensor& x) { return x.size(0) == 8 ? x + ones({8}) : x * 2.0; }, with());
  for (int64_t n : {8, 5, 8, 6}) {
    Tensor x = ones({n});
    mark_dynamic(x, 0, {.specialize_on = {8}});
    EXPECT_EQ(f(x).sum().item<float>(), 2 * float(n));
  }
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST_P(Marks, AHintDecidesNothingThatResultsDependOn) {
  auto f = compile([](const Tensor& x) { return x.size(0) > 100 ? x * 3.0 : x * 2.0; }, with());
  Tensor x = ones({4});
  mark_dynamic(x, 0, {.max = 4096, .hint = 1024});
  EXPECT_EQ(f(x)[0].item<float>(), 2);
  EXPECT_EQ(f(ones({200}))[0].item<float>(), 3);
  EXPECT_THAT(message_of([&] { mark_dynamic(x, 0, {.max = 8, .hint = 9}); }),
              HasSubstr("hint is 9"));
  EXPECT_THAT(message_of([&] { mark_dynamic(x, 0, {.hint = 1}); }), HasSubstr("2 or more"));
}

TEST_P(Marks, AMarkAfterTheFirstCallAsksForAVersionOfItsOwn) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, with());
  Tensor x = ones({4});
  f(x);
  mark_dynamic(x, 0);
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_THAT(f.explain(), HasSubstr("mark_dynamic"));
  call_with_sizes(f, {7, 8});
  EXPECT_EQ(f.stats().compiles, 2);  // tensors without marks are served
}

TEST_P(Marks, AStaticMarkIsServedByFixedVersionsOnly) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, with({.dynamic = true}));
  Tensor x = ones({4});
  f(x);
  mark_static(x);
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_EQ(f.stats().compiles, 2);
  Tensor y = ones({9});
  mark_static(y, 0);
  f(y);
  EXPECT_EQ(f.stats().compiles, 3);
}

TEST_P(Marks, ALaterMarkTakesThePlaceOfAnEarlierOne) {
  Tensor x = ones({4});
  mark_dynamic(x, 0, {.min = 2, .max = 4});
  mark_static(x, 0);
  mark_dynamic(x, -1);
  auto f = compile([](const Tensor& t) { return t * 2.0; }, with());
  f(x);
  call_with_sizes(f, {40});
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(Marks, OtherMarksInABodyDoNothingAndSaySo) {
  reset();  // what was said before may be said again
  auto f = compile(
      [](const Tensor& x) {
        mark_dynamic(x, 0);
        mark_unbacked(x, 0);
        return x * 2.0;
      },
      with());
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) f(ones({3}));
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("mark_dynamic: called in the body of a compiled callable"));
  EXPECT_THAT(log, HasSubstr("mark_unbacked: called in the body of a compiled callable"));
}

TEST_P(Marks, AStaticMarkInABodyFixesTheSize) {
  auto f = compile(
      [](const Tensor& x) {
        mark_static(x, 0);
        return x * 2.0;
      },
      with({.dynamic = true}));
  call_with_sizes(f, {4, 5, 4, 5});
  EXPECT_EQ(f.stats().compiles, 2);
}

struct Shifted : nn::Module {
  int64_t by = 1;
  double scale = 2;
  TENON_MODULE(Shifted)
  Tensor forward(const Tensor& x) const { return x.roll({by}, {0}) * scale; }
};
struct Rolled : Shifted {
  TENON_MODULE(Rolled)
};

template <class M>
int64_t compiles_of_values(const Options& options) {
  M net;
  auto f = compile([&](const Tensor& x) { return net(x); }, options);
  for (int64_t by = 1; by < 5; ++by) {
    net.by = by;
    net.scale = double(by);
    EXPECT_EQ(f(arange(8))[0].template item<double>(), double((8 - by) * by));
  }
  return f.stats().compiles;
}

TEST_P(Marks, IntegersOfAMarkedClassStayConstants) {
  mark_static<Rolled>();
  EXPECT_LE(compiles_of_values<Shifted>(with()), 2);
  EXPECT_EQ(compiles_of_values<Rolled>(with()), 4);
}

// ---- sizes without an example

TEST_P(Marks, OneVersionServesEverySize) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, with());
  Tensor x = ones({4});
  mark_unbacked(x, 0);
  f(x);
  call_with_sizes(f, {9, 1, 0, 2});
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(Marks, UnbackedBoundsAreGuards) {
  auto f = compile([](const Tensor& x) { return x * 2.0; }, with());
  Tensor x = ones({4});
  mark_unbacked(x, 0, {.min = 1, .max = 8});
  f(x);
  call_with_sizes(f, {1, 8});
  EXPECT_EQ(f.stats().compiles, 1);
  call_with_sizes(f, {9});
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST_P(Marks, SizesWithOneIdAreOneSize) {
  auto f =
      compile([](const Tensor& x, const Tensor& y) { return x + y; }, with({.fullgraph = true}));
  Tensor x = ones({4}), y = ones({4});
  for (const Tensor& t : {x, y}) mark_unbacked(t, 0, {.shape_id = "batch"});
  f(x, y);
  for (int64_t n : {7, 1, 0}) EXPECT_EQ(f(ones({n}), ones({n})).numel(), n);
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(f(ones({3}), ones({1})).numel(), 3);  // not one size: a version of its own
  EXPECT_EQ(f.stats().compiles, 2);
}

// No guard is asked before the call that compiles: the call itself must keep what its marks say.
TEST_P(Marks, AnUnbackedSizeOutOfItsBoundsIsAnError) {
  auto f = compile([](const Tensor& x) { return x.slice(0, 0, 9) * 2.0; }, with());
  auto marked = [](int64_t n) {
    Tensor x = ones({n});
    mark_unbacked(x, 0, {.min = 2, .max = 8});
    return x;
  };
  EXPECT_THAT(message_of<UserError>([&] { f(marked(12)); }),
              HasSubstr("arg0.size(0) is 12, but mark_unbacked declared it to lie in [2, 8]"));
  EXPECT_EQ(f(marked(8)).numel(), 8);
  EXPECT_THAT(message_of<UserError>([&] { f(marked(9)); }), HasSubstr("arg0.size(0) is 9"));
  EXPECT_EQ(f(ones({12})).numel(), 9);
}

TEST_P(Marks, UnequalSizesWithOneIdAreAnError) {
  auto f = compile([](const Tensor& x, const Tensor& y) { return x.sum() + y.sum(); }, with());
  Tensor x = ones({4}), y = ones({5}), z = ones({2, 3});
  for (const Tensor& t : {x, y, z}) mark_unbacked(t, 0, {.shape_id = "n"});
  mark_unbacked(z, 1, {.shape_id = "n"});
  EXPECT_THAT(message_of<UserError>([&] { f(x, y); }),
              HasSubstr("arg0.size(0) is 4 and arg1.size(0) is 5, but mark_unbacked declared them "
                        "equal by shape_id \"n\""));
  auto g = compile(twice, with());
  EXPECT_THAT(message_of<UserError>([&] { g(z); }), HasSubstr("arg0.size(1) is 3"));
}

TEST_P(Marks, AskingForAStrictSizeIsAnError) {
  auto body = [](const Tensor& x) { return x.size(0) > 3 ? x + 1.0 : x - 1.0; };
  Tensor lax = ones({4}), strict = ones({4});
  mark_unbacked(lax, 0);
  mark_unbacked(strict, 0, {.strict = true});
  auto f = compile(body, with());
  EXPECT_EQ(f(lax)[0].item<float>(), 2);
  EXPECT_GE(f.stats().graph_breaks, 1);
  auto g = compile(body, with());
  EXPECT_THAT(message_of<UserError>([&] { g(strict); }), HasSubstr("arg0.size(0)"));
  auto h = compile(twice, with());
  EXPECT_EQ(h(strict)[0].item<float>(), 2);
}

// ---- memory that stays

TEST_P(Marks, AStaticAddressIsGuardedWhereAskedFor) {
  Tensor x = ones({4}), y = ones({4}), moved = ones({4});
  mark_static_address(x);
  auto f = compile(twice, with());
  f(x);
  x.add_(1.0);
  EXPECT_EQ(f(x)[0].item<float>(), 4);
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(f(moved)[0].item<float>(), 2);
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_THAT(f.explain(), HasSubstr("mark_static_address"));
  mark_static_address(y, /*guard=*/false);
  auto g = compile(twice, with());
  g(y);
  EXPECT_EQ(g(moved)[0].item<float>(), 2);
  EXPECT_EQ(g.stats().compiles, 1);
}

TEST_P(Marks, PureCodeMadeForAStaticAddressServesOthersAndTheOtherWayRound) {
  Tensor x = ones({4}), y = ones({4});
  mark_static_address(x, /*guard=*/false);
  for (bool begins_marked : {false, true}) {
    auto f = compile(twice, with({.options = {{"capture.on_stale", "\"error\""}}, .pure = true}));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(f((i % 2 == 0) == begins_marked ? x : y).numel(), 4);
    EXPECT_EQ(f.stats().compiles, 1);
  }
}

TEST_P(Marks, WrittenMemoryThatStaysIsReadAnew) {
  Tensor w = full({4, 4}, 2.0), x = ones({2, 4});
  mark_static_address(w, /*guard=*/false);
  auto f = compile([](const Tensor& a, const Tensor& b) { return a.mm(b); }, with());
  EXPECT_EQ(f(x, w)[0][0].item<float>(), 8);
  w.fill_(3.0);
  EXPECT_EQ(f(x, w)[0][0].item<float>(), 12);
  EXPECT_EQ(f(x, full({4, 4}, 1.0))[0][0].item<float>(), 4);
  EXPECT_EQ(f(x, w)[0][0].item<float>(), 12);
}

// ---- advice

TEST_P(Marks, ReasonsSayWhatWouldHaveAvoidedThem) {
  auto f = compile(twice, with());
  f(ones({4}));
  f(ones({5}));
  EXPECT_THAT(f.explain(), HasSubstr("mark_dynamic(tensor, 0)"));
  EXPECT_THAT(f.explain(), HasSubstr("compiler.dynamic_sources = [\"arg0.size(0)\"]"));
}

}  // namespace
}  // namespace tenon
