// What a trace learns, records and answers about its symbolic sizes.
#include "core/sym/shape_env.h"

#include "core/sym/cost_hint.h"
#include "core/sym/sym_int.h"
#include "unit/core/sym_test_support.h"
#include "unit/message_of.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace tenon {
namespace {

using test::TestTrace;
using Kind = SymbolSource::Kind;

SymbolSource size_of(uint32_t input, uint32_t dim) { return {Kind::input_size, input, dim}; }

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(ShapeEnv, SizesZeroAndOneAreConstants) {
  auto env = ShapeEnv::make();
  EXPECT_EQ(env->create_symbol(0, size_of(0, 0), "x.size(0)").maybe_int(), 0);
  EXPECT_EQ(env->create_symbol(1, size_of(0, 1), "x.size(1)").maybe_int(), 1);
  EXPECT_TRUE(env->create_symbol(2, size_of(0, 2), "x.size(2)").is_symbolic());
  EXPECT_TRUE(
      env->create_symbol(1, size_of(0, 3), "x.size(3)", {.specialize_one = false}).is_symbolic());
}

TEST(ShapeEnv, CostsSeeTheHintOfAMarkAndGuardsTheExample) {
  auto env = ShapeEnv::make();
  SymInt s = env->create_symbol(4, size_of(0, 0), "x.size(0)", {.cost_hint = 64});
  SymInt t = env->create_symbol(6, size_of(0, 1), "x.size(1)");
  ShapeEnvScope scope(*env);
  EXPECT_EQ(cost_hint(*env, s * t), 64 * 6);
  EXPECT_EQ(env->int_hint(s * t), 4 * 6);
  EXPECT_TRUE(bool(s < t));
  EXPECT_EQ(cost_hint(*env, t - s), 1);  // what is known of it holds for the hint, too
  EXPECT_EQ(cost_hint(*env, t), 6);
}

TEST(ShapeEnv, SizesAreAtLeastTwoWithoutAGuard) {
  TestTrace trace({5});
  EXPECT_TRUE(bool(trace.size("s0") >= 2));
  EXPECT_TRUE(bool(trace.size("s0") != 1));
  EXPECT_EQ(trace.guards(), "");
  EXPECT_EQ(trace.conditions(), "s0 >= 2");
}

TEST(ShapeEnv, NumbersHaveNoSpecialValues) {
  auto env = ShapeEnv::make();
  SymInt n = env->create_symbol(1, {Kind::input_value, 0, 0}, "n", SymbolOptions::for_number());
  ASSERT_TRUE(n.is_symbolic());
  EXPECT_EQ(env->range(n.expr()), Range{});
  EXPECT_TRUE(env->guard_conditions().empty());
}

TEST(ShapeEnv, EqualDuckSizesShareASymbol) {
  auto env = ShapeEnv::make();
  SymInt a = env->create_symbol(4, size_of(0, 0), "x.size(0)");
  SymInt b = env->create_symbol(4, size_of(1, 0), "y.size(0)");
  SymInt own = env->create_symbol(4, size_of(2, 0), "z.size(0)", {.policy = SymbolPolicy::own});
  EXPECT_EQ(a.expr(), b.expr());
  EXPECT_NE(a.expr(), own.expr());
  ASSERT_EQ(env->source_equalities().size(), 1u);
  EXPECT_EQ(env->source_equalities()[0].source, size_of(1, 0));
  EXPECT_EQ(env->source_equalities()[0].expr, a.expr());
}

TEST(ShapeEnv, BranchRecordsTheConditionThatHeld) {
  TestTrace trace({5});
  EXPECT_FALSE(bool(trace.size("s0") > 5));
  EXPECT_EQ(trace.conditions(), "s0 >= 2; s0 <= 5");
  EXPECT_TRUE(bool(trace.size("s0") < 6));  // follows
  EXPECT_EQ(trace.env->guards().size(), 1u);
}

TEST(ShapeEnv, GuardsOnOneSymbolAreMergedIntoItsRange) {
  TestTrace trace({8});
  EXPECT_TRUE(bool(trace.size("s0") > 4));
  EXPECT_TRUE(bool(trace.size("s0") > 6));
  EXPECT_TRUE(bool(trace.size("s0") < 100));
  EXPECT_EQ(trace.conditions(), "s0 >= 7; s0 <= 99");
}

TEST(ShapeEnv, AQuestionIsGuardedOnce) {
  TestTrace trace({5, 7});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bool(trace.size("s0") < trace.size("s1")));
  EXPECT_TRUE(bool(trace.size("s1") >= trace.size("s0")));
  EXPECT_TRUE(bool(trace.size("s1") != trace.size("s0")));
  EXPECT_EQ(trace.guards(), "s0 < s1");
}

TEST(ShapeEnv, EqualityReplacesTheYoungerSymbol) {
  TestTrace trace({6, 3});
  EXPECT_TRUE(bool(trace.size("s0") == 2 * trace.size("s1")));
  EXPECT_EQ(trace.guards(), "s0 == 2*s1");
  EXPECT_EQ(trace.simplified("s0 // 2 - s1"), "0");
  EXPECT_EQ(trace.simplified("s0 % 2"), "0");
}

TEST(ShapeEnv, EqualityOfTwoSymbolsKeepsTheOlder) {
  TestTrace trace({6, 6});
  EXPECT_TRUE(bool(trace.size("s0") == trace.size("s1")));
  EXPECT_EQ(trace.simplified("s1 + 1"), "s0 + 1");
}

TEST(ShapeEnv, ReplacementsApplyToEachOther) {
  TestTrace trace({3, 6, 12});
  EXPECT_TRUE(bool(trace.size("s2") == 2 * trace.size("s1")));
  EXPECT_TRUE(bool(trace.size("s1") == 2 * trace.size("s0")));
  EXPECT_EQ(trace.simplified("s2"), "4*s0");
}

TEST(ShapeEnv, ProductOfSizesReplacesASize) {
  TestTrace trace({3, 4, 12});
  EXPECT_TRUE(bool(trace.size("s2") == trace.size("s0") * trace.size("s1")));
  EXPECT_EQ(trace.simplified("s2 // s0"), "s1");
}

TEST(ShapeEnv, AFactorOfAllTermsIsTakenOut) {
  TestTrace trace({5, 7, 3});
  EXPECT_EQ(trace.simplified("s1 < s0*s1"), "true");
  EXPECT_EQ(trace.simplified("s0*s1 <= s1"), "false");
  EXPECT_EQ(trace.simplified("s2 < s0*s2 + s1*s2"), "true");
  EXPECT_EQ(trace.simplified("s0*s2 < s0*s1*s2"), "true");
  EXPECT_EQ(trace.simplified("s0*s2 < s1*s2"), "s0*s2 < s1*s2");
}

TEST(ShapeEnv, ReplacedRangeIsKept) {
  TestTrace trace({9, 5});
  EXPECT_TRUE(bool(trace.size("s0") >= 7));
  EXPECT_TRUE(bool(trace.size("s0") == trace.size("s1") + 4));
  EXPECT_EQ(trace.env->range(trace.expr("s1")), Range::at_least(3));
}

TEST(ShapeEnv, UnbackedSymbolIsReplacedByBackedOnesOnly) {
  TestTrace trace({6});
  SymInt u = trace.env->create_unbacked(Range::at_least(0));
  trace.env->check((u == trace.size("s0")).expr());
  EXPECT_EQ(trace.simplified("u0 + 1"), "s0 + 1");
  EXPECT_EQ(trace.simplified("s0"), "s0");
  ASSERT_EQ(trace.env->runtime_asserts().size(), 1u);
  EXPECT_TRUE(trace.env->guards().empty());
}

TEST(ShapeEnv, BoundsPropagateThroughOtherForms) {
  TestTrace trace({80, 60});
  EXPECT_TRUE(bool(trace.size("s0") > trace.size("s1")));
  EXPECT_TRUE(bool(trace.size("s1") >= 50));
  EXPECT_EQ(trace.env->range(trace.expr("s0")), Range::at_least(51));
}

TEST(ShapeEnv, SingleValueLeftIsASpecialization) {
  TestTrace trace({4});
  EXPECT_FALSE(bool(trace.size("s0") > 4));
  EXPECT_TRUE(bool(trace.size("s0") > 3));
  EXPECT_EQ(trace.simplified("s0 + 1"), "5");
  ASSERT_EQ(trace.env->specializations().size(), 1u);
  EXPECT_EQ(trace.env->specializations()[0].value, 4);
}

TEST(ShapeEnv, DivisibilityMakesQuotientsExact) {
  TestTrace trace({8});
  SymInt s = trace.size("s0");
  EXPECT_TRUE(bool(s == 2 * (s / 2)));
  EXPECT_EQ(trace.guards(), "s0 % 2 == 0");
  EXPECT_EQ(trace.simplified("2*(s0 // 2)"), "s0");
  EXPECT_EQ(trace.simplified("(3*s0 + 1) % 2"), "1");
  EXPECT_EQ(trace.env->statically_known(trace.expr("s0 == 4*(s0 // 4)")), std::nullopt);
}

TEST(ShapeEnv, KnownRemainderIsDivisibilityOfTheDifference) {
  TestTrace trace({7});
  EXPECT_EQ((trace.size("s0") % 3).guard_int(), 1);
  EXPECT_EQ(trace.simplified("(s0 + 2) % 3"), "0");
}

TEST(ShapeEnv, IntervalsSeeThroughMinAndQuotients) {
  TestTrace trace({8, 5});
  auto known = [&](const char* text) { return trace.env->statically_known(trace.expr(text)); };
  EXPECT_EQ(known("min(s0, s1) <= s0"), true);
  EXPECT_EQ(known("max(s0, s1) < s0"), false);
  EXPECT_EQ(known("2*(s0 // 2) <= s0"), true);
  EXPECT_EQ(known("s0 // 2 <= s0"), true);
  EXPECT_EQ(known("s1*(s0 // s1) > s0"), false);
  EXPECT_EQ(known("where(s0 < s1, s0, s1) <= s0 + s1"), true);
  EXPECT_EQ(known("s0 // 2 >= 2"), std::nullopt);
}

TEST(ShapeEnv, NumberIsFixedByAGuardOnItsValue) {
  TestTrace trace({8, 5});
  int64_t n = trace.size("s0") + trace.size("s1");
  EXPECT_EQ(n, 13);
  EXPECT_EQ(trace.guards(), "s0 + s1 == 13");
  EXPECT_EQ(trace.size("s0").guard_int(), 8);
  EXPECT_EQ(trace.simplified("s1"), "5");  // follows from both
}

TEST(ShapeEnv, StaticQuestionsNeverGuard) {
  TestTrace trace({8});
  EXPECT_FALSE(statically_known_true(trace.size("s0") > 3));
  EXPECT_TRUE(statically_known_true(trace.size("s0") > 1));
  EXPECT_EQ(trace.guards(), "");
}

TEST(ShapeEnv, ConjunctionsAreRecordedInParts) {
  TestTrace trace({8, 5});
  EXPECT_TRUE(bool((trace.size("s0") > 3) & (trace.size("s1") < 9)));
  EXPECT_EQ(trace.conditions(), "s0 >= 4; s1 >= 2; s1 <= 8");
  EXPECT_TRUE(bool((trace.size("s0") > 100) | (trace.size("s1") != 6)));
  EXPECT_EQ(trace.env->guards().size(), 3u);
}

TEST(ShapeEnv, BranchOnDataIsRefusedWithTheWholeStory) {
  auto env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  SymInt u =
      env->create_unbacked(Range::at_least(0), {Kind::node_value, 3, 0}, "nonzero(x).size(0)");
  try {
    (void)bool(u > 3);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::data_dependent);
    EXPECT_EQ(std::string(error.what()),
              "DataDependentError: Could not guard on data-dependent expression u0 > 3\n"
              "  u0 = nonzero(x).size(0), known to lie in [0, inf]\n"
              "  fix: state what holds with tenon::check(u0 > 3), or\n"
              "  fix: choose with cond(...), which needs no answer now");
  }
  EXPECT_TRUE(mentions(message_of([&] { (void)u.guard_int(); }), "expression u0\n"));
}

TEST(ShapeEnv, FallbackAnswersAddNoGuard) {
  auto env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  SymInt u = env->create_unbacked(Range{0, 10});
  EXPECT_FALSE(guard_or_false(u > 3));
  EXPECT_TRUE(guard_or_true(u > 3));
  EXPECT_TRUE(guard_or_false(u <= 10));
  EXPECT_TRUE(env->guards().empty());
}

TEST(ShapeEnv, SizeLikeSymbolsAreTakenAsGeneral) {
  auto env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  SymInt u = env->create_unbacked();
  env->mark_size_like(u);
  EXPECT_EQ(env->statically_known((u == 1).expr()), std::nullopt);
  EXPECT_EQ(env->statically_known_size_oblivious((u == 1).expr()), false);
  EXPECT_FALSE(guard_or_true(u == 0));
  EXPECT_TRUE((u >= 0).guard_bool());
}

TEST(ShapeEnv, ChecksOnDataAreDeferredAndBelieved) {
  auto env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  SymInt u0 = env->create_unbacked(), u1 = env->create_unbacked();
  sym_check(u0 <= 6, "at most six");
  sym_check(u0 + 1 < u1, "order");
  EXPECT_TRUE(bool(u0 < 7));
  ASSERT_EQ(env->runtime_asserts().size(), 2u);
  EXPECT_EQ(env->runtime_asserts()[0].after, u0.expr());
  EXPECT_EQ(env->runtime_asserts()[0].message, "at most six");
  EXPECT_EQ(env->runtime_asserts()[1].after, u1.expr());
}

TEST(ShapeEnv, CheckOfKnownSizesGuardsOrFails) {
  TestTrace trace({5});
  sym_check(trace.size("s0") < 9, "small");
  EXPECT_EQ(trace.guards(), "s0 < 9");
  EXPECT_TRUE(mentions(message_of([&] { sym_check(trace.size("s0") < 4, "tiny"); }),
                       "check failed: x.size(0) < 4 is false for these sizes: tiny"));
}

TEST(ShapeEnv, MaterializedDataAnswersWithoutAGuard) {
  auto env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  SymInt u = env->create_unbacked();
  env->set_materialize(
      [&](const Expr* e) { return evaluate(e, [](const Expr*) { return SymValue::of_int(5); }); });
  EXPECT_TRUE(bool(u > 3));
  EXPECT_TRUE(env->guards().empty());
}

TEST(ShapeEnv, DeclaredRangesAreCheckedAndUsed) {
  auto env = ShapeEnv::make();
  SymbolOptions marked{.policy = SymbolPolicy::own, .range = {2, 16}};
  SymInt s = env->create_symbol(8, size_of(0, 0), "x.size(0)", marked);
  ShapeEnvScope scope(*env);
  EXPECT_TRUE(bool(s <= 16));
  EXPECT_TRUE(env->guards().empty());
  EXPECT_EQ(env->guard_conditions().size(), 2u);
  EXPECT_EQ(
      message_of([&] { env->create_symbol(20, size_of(0, 1), "x.size(1)", marked); }),
      "ConstraintViolationError: x.size(1) is 20, but its size was declared to lie in [2, 16]; "
      "pass a size inside or widen the range");
}

TEST(ShapeEnv, FixingAMarkedSizeViolatesTheMark) {
  auto env = ShapeEnv::make();
  SymbolOptions marked{.policy = SymbolPolicy::own, .must_stay_dynamic = true};
  SymInt s = env->create_symbol(8, size_of(0, 0), "x.size(0)", marked);
  ShapeEnvScope scope(*env);
  EXPECT_TRUE(bool(s > 3));
  EXPECT_NO_THROW(env->check_constraints());
  EXPECT_TRUE(bool(s == 8));
  EXPECT_TRUE(mentions(message_of([&] { env->check_constraints(); }),
                       "x.size(0) was marked dynamic, but the code fixes it to 8"));
}

TEST(ShapeEnv, UnbackedInputsHaveNoSpecialSizes) {
  auto env = ShapeEnv::make();
  SymInt s = env->create_symbol(1, size_of(0, 0), "x.size(0)", {.policy = SymbolPolicy::unbacked});
  ASSERT_TRUE(s.is_symbolic());
  EXPECT_EQ(env->range(s.expr()), Range::at_least(0));
  EXPECT_EQ(env->text(env->guard_conditions().at(0).condition), "u0 >= 0");
}

TEST(ShapeEnv, FloatsAreFixedByTheirValue) {
  auto env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  SymFloat f = env->create_float(0.5, {Kind::input_value, 1, 0}, "scale");
  SymFloat twice = sym_float_op(SymOp::mul, f, 2.0);
  EXPECT_TRUE(bool(sym_float_compare(SymOp::lt, twice, 3.0)));
  EXPECT_EQ(env->text(env->guards()[0].condition), "zf0*2.0 < 3.0");
  EXPECT_EQ(twice.guard_float(), 1.0);
  EXPECT_EQ(env->text(env->guards()[1].condition), "zf0*2.0 == 1.0");
}

TEST(ShapeEnv, AZeroIsFixedWithItsSign) {
  for (double zero : {0.0, -0.0}) {
    auto env = ShapeEnv::make();
    ShapeEnvScope scope(*env);
    SymFloat f = env->create_float(zero, {Kind::input_value, 1, 0}, "scale");
    EXPECT_EQ(f.guard_float(), 0);
    EXPECT_EQ(env->text(env->guards()[1].condition),
              std::signbit(zero) ? "1.0 / zf0 == -inf" : "1.0 / zf0 == inf");
  }
}

TEST(ShapeEnv, ValuesOfAnotherTraceAreRefused) {
  auto other = ShapeEnv::make();
  SymInt foreign = other->create_symbol(4, size_of(0, 0), "x.size(0)");
  TestTrace trace({5});
  EXPECT_TRUE(mentions(message_of([&] { (void)bool(foreign > 3); }),
                       "the symbolic value s0 belongs to another trace"));
  EXPECT_TRUE(mentions(message_of([&] { (void)(foreign + trace.size("s0")); }), "another trace"));
}

TEST(ShapeEnv, ValuesOutsideOfTheirTraceAreRefused) {
  auto env = ShapeEnv::make();
  SymInt s = env->create_symbol(4, size_of(0, 0), "x.size(0)");
  EXPECT_TRUE(mentions(message_of([&] { (void)s.guard_int(); }),
                       "the symbolic integer s0 was used as a number outside of its trace"));
}

TEST(ShapeEnv, NumbersOfDeadEnvironmentsAreUsedAgain) {
  for (int i = 0; i < 4; ++i) TestTrace warm({4, 5, 6});
  size_t before = interned_count();
  for (int i = 0; i < 100; ++i) {
    TestTrace trace({4, 5, 6});
    EXPECT_TRUE(bool(trace.size("s0") + trace.size("s1") > trace.size("s2")));
  }
  EXPECT_LE(interned_count(), before + 20);
}

TEST(ShapeEnv, SymbolNumbersAscendInManyBlocks) {
  auto first = ShapeEnv::make(), second = ShapeEnv::make();
  for (int i = 0; i < 40; ++i) {
    first->create_unbacked();
    second->create_unbacked();
  }
  for (size_t i = 1; i < 40; ++i)
    EXPECT_LT(first->symbols()[i - 1].expr->symbol(), first->symbols()[i].expr->symbol());
  EXPECT_FALSE(first->owns(second->symbols()[3].expr));
  EXPECT_TRUE(second->owns(second->symbols()[39].expr));
}

TEST(ShapeEnv, DeclaredSymbolsKeepTheirNames) {
  auto env = ShapeEnv::make();
  const Expr* s3 =
      env->declare_symbol("s3", ExprKind::integer, SymValue::of_int(7), {2, 9}, {}, "");
  EXPECT_EQ(env->declare_symbol("s3", ExprKind::integer, {}, {}, {}, ""), s3);
  EXPECT_EQ(env->find_symbol("s3"), s3);
  EXPECT_EQ(env->hint(s3), SymValue::of_int(7));
  EXPECT_EQ(env->range(s3), (Range{2, 9}));
}

TEST(ShapeEnv, GuardsNameTheUsersLine) {
  user_location_slot = [] { return std::string("net.cpp:12"); };
  TestTrace trace({5});
  (void)bool(trace.size("s0") > 3);
  user_location_slot = nullptr;
  EXPECT_EQ(trace.env->guards()[0].location, "net.cpp:12");
  EXPECT_EQ(trace.env->source_text(trace.env->guards()[0].condition), "x.size(0) > 3");
}

TEST(ShapeEnv, TracesInManyThreadsDoNotMix) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&right] {
      for (int i = 0; i < 200; ++i) {
        TestTrace trace({4, 6});
        bool larger = bool(trace.size("s0") * 2 > trace.size("s1") + 1);
        right += larger && trace.guards() == "s1 + 1 < 2*s0";
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

}  // namespace
}  // namespace tenon
