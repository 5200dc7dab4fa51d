// Symbolic numbers that somebody holds beyond their trace.
#include "core/kept_numbers.h"

#include "core/sym/shape_env.h"
#include "core/sym/symbol_numbers.h"
#include "unit/core/sym_test_support.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tenon {
namespace {

using test::TestTrace;
using testing::HasSubstr;

SymInt size_in(ShapeEnv& env, int64_t value) {
  return env.create_symbol(value, {SymbolSource::Kind::input_size, 0, 0}, "x.size(0)");
}

SymInt size_of_a_trace_that_is_over(ShapeEnv& env, int64_t value) {
  SymInt size = size_in(env, value);
  keep_value(size.expr(), SymValue::of_int(value), /*is_over=*/true);
  return size;
}

TEST(KeptNumbers, AreWhatTheyWereInTheirCall) {
  auto env = ShapeEnv::make();
  SymInt s = size_of_a_trace_that_is_over(*env, 4);
  EXPECT_EQ((s * 2 + 1).guard_int(), 9);
  EXPECT_TRUE(bool(s > 3));
  EXPECT_EQ((SymFloat(0.5) * s).guard_float(), 2);
  EXPECT_EQ(to_text(s), "4");
  EXPECT_EQ(symbolic_text(s), "s0");
}

TEST(KeptNumbers, AreConstantsOfOtherTraces) {
  auto env = ShapeEnv::make();
  SymInt s = size_of_a_trace_that_is_over(*env, 4);
  TestTrace trace({5});
  EXPECT_EQ(symbolic_text(trace.size("s0") + s), "s0 + 4");
  EXPECT_TRUE(bool(trace.size("s0") > s));
  EXPECT_EQ(trace.guards(), "s0 > 4");
}

TEST(KeptNumbers, AreSymbolsWhereTheirTraceIsAskedAgain) {
  auto env = ShapeEnv::make();
  SymInt s = size_of_a_trace_that_is_over(*env, 4);
  ShapeEnvScope lowering(*env);
  EXPECT_EQ(symbolic_text(s * 2), "2*s0");
}

TEST(KeptNumbers, OutliveTheirEnvironment) {
  auto env = ShapeEnv::make();
  SymInt s = size_of_a_trace_that_is_over(*env, 4);
  env.reset();
  for (int64_t value = 5; value < 105; ++value) {
    auto other = ShapeEnv::make();
    EXPECT_NE(size_of_a_trace_that_is_over(*other, value).expr(), s.expr());
  }
  EXPECT_EQ(s.guard_int(), 4);
}

TEST(KeptNumbers, BelongToTheirThreadWhileTheTraceIsOn) {
  auto env = ShapeEnv::make();
  SymInt s = size_in(*env, 4);
  keep_value(s.expr(), SymValue::of_int(4), /*is_over=*/false);
  EXPECT_EQ(s.guard_int(), 4);
  std::thread([s] {
    EXPECT_THAT(message_of([&] { (void)s.guard_int(); }),
                HasSubstr("another thread records its call"));
  }).join();
}

TEST(KeptNumbers, SumsOverThemDoNotGrow) {
  auto env = ShapeEnv::make();
  SymInt s = size_of_a_trace_that_is_over(*env, 4), sum = 0;
  for (int64_t i = 0; i < 1000; ++i) sum = sum * 3 % 1000003 + s * s;
  EXPECT_LT(as_expr(sum)->tree_nodes, 200u);
}

}  // namespace
}  // namespace tenon
