// Recording of formulas: sharing, simplification, types, alternatives, checks of foreign programs.
#define TENON_CHECK_FORMULAS
#include "core/scalar/scalar_program.h"

#include "core/error.h"
#include "core/kernels/pointwise_loop.h"
#include "core/scalar/formula.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

using formula::all;
using formula::by_arg;
using formula::by_presence;
using formula::floats;
using formula::numbers;
using formula::pointwise;

template <class F>
std::string text_of(F f) {
  return to_text(record(f));
}

TEST(ScalarProgram, RecordsOneInstructionForEachPrimitive) {
  EXPECT_EQ(text_of(pointwise([](auto x) { return x * sigmoid(x); })),
            "inputs %0\n%1 = sigmoid %0\n%2 = mul %0, %1\noutputs %2\n");
}

TEST(ScalarProgram, CountsInputsOfTheLambda) {
  auto addcmul = pointwise<numbers>([](auto x, auto a, auto b, auto v) { return x + v * a * b; });
  EXPECT_EQ(addcmul.n_inputs, 4);
  EXPECT_EQ(record(addcmul).n_inputs, 4u);
}

TEST(ScalarProgram, UnusedInputsStayInputs) {
  EXPECT_EQ(text_of(pointwise([](auto x, auto) { return exp(x); })),
            "inputs %0 %1\n%2 = exp %0\noutputs %2\n");
}

TEST(ScalarProgram, EqualSubexpressionsAreSharedInEitherOrder) {
  ScalarProgram p = record(pointwise([](auto x, auto y) { return (x * y) - exp(y * x); }));
  EXPECT_EQ(p.instr.size(), 3u) << to_text(p);
}

TEST(ScalarProgram, UnneededInstructionsGo) {
  ScalarProgram p = record(pointwise([](auto x) {
    auto unused = exp(x) + 3;
    static_cast<void>(unused);
    return sin(x);
  }));
  EXPECT_EQ(p.instr.size(), 1u) << to_text(p);
}

TEST(ScalarProgram, RulesThatHoldForAllValuesSimplify) {
  const char* negated = "inputs %0 %1\n%2 = mul %0, %1\n%3 = neg %2\noutputs %3\n";
  EXPECT_EQ(text_of(pointwise([](auto x) { return -(-x); })), "inputs %0\noutputs %0\n");
  EXPECT_EQ(text_of(pointwise([](auto x) { return (x * 1 - 0) / 1; })), "inputs %0\noutputs %0\n");
  EXPECT_EQ(text_of(pointwise([](auto x, auto y) { return -x * y; })), negated);
  EXPECT_EQ(text_of(pointwise([](auto x, auto y) { return x * -y; })), negated);
  EXPECT_EQ(text_of(pointwise([](auto x, auto y) { return x + (-y); })),
            "inputs %0 %1\n%2 = sub %0, %1\noutputs %2\n");
  EXPECT_EQ(text_of(pointwise([](auto x, auto y) { return select(x < y, x, x); })),
            "inputs %0 %1\noutputs %0\n");
  EXPECT_EQ(text_of(pointwise([](auto x) { return x * -1; })),
            "inputs %0\n%1 = neg %0\noutputs %1\n");
}

TEST(ScalarProgram, RulesThatChangeSomeValueDoNot) {
  EXPECT_EQ(record(pointwise([](auto x) { return x + 0; })).instr.size(), 2u);     // -0
  EXPECT_EQ(record(pointwise([](auto x) { return x - -0.0; })).instr.size(), 2u);  // -0
  EXPECT_EQ(record(pointwise([](auto x) { return x - x; })).instr.size(), 1u);     // NaN, inf
  EXPECT_EQ(record(pointwise([](auto x) { return x * 0; })).instr.size(), 2u);     // NaN, inf, -0
}

TEST(ScalarProgram, ConstantExponentsBecomeProductsAndRoots) {
  EXPECT_EQ(text_of(pointwise<numbers>([](auto x) { return pow(x, 2); })),
            "inputs %0\n%1 = mul %0, %0\noutputs %1\n");
  EXPECT_EQ(text_of(pointwise([](auto x) { return pow(x, 0.5); })),
            "inputs %0\n%1 = sqrt %0\noutputs %1\n");
  // For integers x^-1 is not 1/x.
  EXPECT_EQ(record(pointwise<numbers>([](auto x) { return pow(x, -1); })).instr.back().op(),
            ScalarCode::pow);
}

TEST(ScalarProgram, DerivativesSinkZeroArmsAndMergeFactors) {
  Recorder recorder({.derivative = true});
  uint32_t mask = recorder.input(dtype_number(Dtype::bool_)), g = recorder.input(),
           y = recorder.input();
  uint32_t zero = recorder.literal(ScalarLiteral::of(int64_t{0}));
  uint32_t chosen = recorder.emit(ScalarCode::select, mask, g, zero);
  uint32_t out[] = {recorder.emit(ScalarCode::mul, chosen, y)};
  EXPECT_EQ(to_text(recorder.finish(out)),
            "inputs bool %0 %1 %2\n%3 = const 0\n%4 = mul %1, %2\n%5 = select %0, %4, %3\n"
            "outputs %5\n");
  uint32_t half = recorder.literal(ScalarLiteral::of(0.5));
  uint32_t four = recorder.literal(ScalarLiteral::of(4.0));
  out[0] = recorder.emit(ScalarCode::mul, recorder.emit(ScalarCode::mul, g, half), four);
  EXPECT_EQ(recorder.finish(out).instr.size(), 2u) << to_text(recorder.finish(out));
}

TEST(ScalarProgram, TypesOfResultsFollowTheInstruction) {
  ScalarProgram p = record(pointwise<all>(
      [](auto x, auto y) { return formula::outputs(x < y, x + y, cast<int32_t>(x)); }));
  EXPECT_EQ(p.result_dtype(0, Dtype::f32), Dtype::bool_);
  EXPECT_EQ(p.result_dtype(1, Dtype::f32), Dtype::f32);
  EXPECT_EQ(p.result_dtype(2, Dtype::f32), Dtype::i32);
}

TEST(ScalarProgram, MaskInputsAreBool) {
  auto where = pointwise<all, 1>([](auto m, auto a, auto b) { return select(m, a, b); });
  EXPECT_EQ(text_of(where), "inputs bool %0 %1 %2\n%3 = select %0, %1, %2\noutputs %3\n");
}

TEST(ScalarProgram, LiteralsKeepTheirKind) {
  EXPECT_EQ(text_of(pointwise([](auto x) { return x * 0.5 + 3; })),
            "inputs %0\n%1 = const 0.5\n%2 = mul %0, %1\n%3 = const 3\n%4 = add %2, %3\n"
            "outputs %4\n");
}

TEST(ScalarProgram, LiteralsBesideACastHaveItsType) {
  EXPECT_EQ(text_of(pointwise([](auto x) { return cast<int32_t>(x) + 1; })),
            "inputs %0\n%1 = cast i32 %0\n%2 = const 1\n%3 = cast i32 %2\n%4 = add %1, %3\n"
            "outputs %4\n");
}

TEST(ScalarProgram, AlternativesAreFoundByValueAndByPresence) {
  constexpr Formula gelu =
      by_arg("approximate", {{"none", pointwise([](auto x) { return erf(x); })},
                             {"tanh", pointwise([](auto x) { return tanh(x); })}});
  EXPECT_EQ(gelu.find("tanh"), 1);
  EXPECT_EQ(gelu.find("sigmoid"), -1);
  EXPECT_EQ(record(gelu.entries[1].formula).instr[0].op(), ScalarCode::tanh);
  constexpr Formula clamp =
      by_presence({{1, pointwise<numbers>([](auto x, auto lo) { return max(x, lo); })},
                   {2, pointwise<numbers>([](auto x, auto hi) { return min(x, hi); })}});
  EXPECT_EQ(clamp.find_present(2), 1);
  EXPECT_EQ(clamp.find_present(3), -1);
  EXPECT_FALSE(Formula());
}

TEST(ScalarProgram, BindingFoldsConstantsInTheComputeType) {
  ScalarProgram add =
      record(pointwise<numbers>([](auto a, auto b, auto alpha) { return a + alpha * b; }));
  BindInput inputs[] = {BindInput::varying(), BindInput::varying(),
                        BindInput::constant(ScalarLiteral::of(int64_t{1}))};
  EXPECT_EQ(bind(add, Dtype::f32, inputs).steps.size(), 1u);
  EXPECT_EQ(bind(add, Dtype::f32).steps.size(), 2u);
  ScalarProgram scaled = record(pointwise<numbers>([](auto x, auto c) { return x * (c * c + 1); }));
  BindInput wraps[] = {BindInput::varying(), BindInput::constant(ScalarLiteral::of(int64_t{16}))};
  BoundProgram plan = bind(scaled, Dtype::i8, wraps);
  EXPECT_TRUE(plan.steps.empty());  // 16 * 16 + 1 is 1 in i8
}

TEST(ScalarProgram, BindingSharesScratchByLiveness) {
  ScalarProgram p = record(pointwise([](auto x) { return exp(sin(cos(tan(x)))); }));
  EXPECT_EQ(bind(p, Dtype::f32).n_slots, 1);
  ScalarProgram two = record(pointwise([](auto x) {
    auto s = sin(x);
    return s * exp(s);
  }));
  EXPECT_EQ(bind(two, Dtype::f32).n_slots, 2);
}

TEST(ScalarProgram, BindingNamesThePrimitiveThatATypeLacks) {
  ScalarProgram p = record(pointwise([](auto x) { return exp(x); }));
  try {
    bind(p, Dtype::i32);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()),
              "formula: exp does not exist for i32; cast the operands to a type that has it");
  }
  EXPECT_THROW(bind(p, Dtype::bf16), UserError);
  EXPECT_THROW(bind(p, Dtype::c64), UserError);
}

TEST(ScalarProgram, ForeignProgramsAreChecked) {
  ScalarProgram good = record(pointwise([](auto x) { return exp(x); }));
  check_program(good);
  ScalarProgram bad = good;
  bad.instr[0].a = 1;  // itself
  EXPECT_THROW(check_program(bad), UserError);
  bad = good;
  bad.instr[0].code = 999;
  EXPECT_THROW(check_program(bad), UserError);
  bad = good;
  bad.instr[0].dtype = 99;
  EXPECT_THROW(check_program(bad), UserError);
  bad = good;
  bad.outputs = {7};
  EXPECT_THROW(check_program(bad), UserError);
}

}  // namespace
}  // namespace tenon
