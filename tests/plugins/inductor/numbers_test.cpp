// Numbers that a call brings along, in the inductor backend: real ones in kernels and in ops that
// the host runs, and divisors of integers, which may be 0.
#include <gmock/gmock.h>

#include "plugins/code_makers.h"
#include "plugins/inductor/ops.h"

#include <bit>

namespace tenon {
namespace {

using ::testing::HasSubstr;

class InductorNumbers : public InductorOps {
 protected:
  static int64_t word(double number) { return std::bit_cast<int64_t>(number); }

  /// What `body` gives for %x, the size s0 and the numbers a and b is what the interpreter gives.
  static void expect_same_for(const std::string& body, const Tensor& x, double a, double b,
                              bool has_code = true) {
    auto graph = graph_of(R"(
  symbol s0 in [1, 100] hint 4 from size(%x, 0)
  symbol a float hint 2.0 from %p
  symbol b float hint 3.0 from %q
)" + body);
    auto artifact = compiled("inductor", graph);
    EXPECT_EQ(externs_of(*artifact) == "[]", has_code) << externs_of(*artifact);
    std::vector<int64_t> symbols{x.size(0), word(a), word(b)};
    std::vector<Tensor> inputs{x, {}, {}};
    EXPECT_LE(difference(graph, *artifact, inputs, symbols), 1e-6) << a << " and " << b << body;
  }
};

const std::string inputs = R"(
  input %x: f32[s0, 5]
  input %p: float a
  input %q: float b
)";

TEST_F(InductorNumbers, RealOnesAreDoubles) {
  for (double a : {2.0, -0.5, 1e300, std::nan("")}) {
    expect_same_for(inputs + R"(
  %y: f32[s0, 5] = aten.mul.Scalar(%x, a)
  %z: f32[s0, 5] = aten.add.Scalar(%y, b)
  output %z
)",
                    randn({4, 5}), a, 3);
    expect_same_for(inputs + R"(
  %f: f64[s0] = aten.full.default([s0], a, dtype=f64)
  %c: f32[s0, 5] = aten.clamp.default(%x, b, a)
  output %f, %c
)",
                    randn({7, 5}), a, -1);
  }
}

TEST_F(InductorNumbers, RealExpressionsAreComputedAtEachCall) {
  const std::string body = inputs + R"(
  %y: f32[s0, 5] = aten.mul.Scalar(%x, 2.0*a + b/float(s0))
  %z: f32[s0, 5] = aten.pow.Tensor_Scalar(%y, min(a, b))
  %e: f32[s0, 5] = aten.add.Scalar(%z, max(a, b)**2.0)
  output %e
)";
  for (double a : {1.0, 2.0, 3.0}) expect_same_for(body, rand({6, 5}), a, 2);
}

TEST_F(InductorNumbers, RealOnesReachOpsOfTheHost) {
  expect_same_for(inputs + R"(
  %y: f32[s0, 5], %m: f32[s0, 1], %r: f32[s0, 1] = aten.native_layer_norm.default(
      %x, [5], none, none, 2.0*a)
  output %y
)",
                  randn({4, 5}), 0.75, 0, false);
}

TEST_F(InductorNumbers, ALearningRateIsAParameterOfTheStep) {
  auto body = [](const Tensor& w, const Tensor& g, SymFloat lr) {
    return w - (g * lr + where(g > 0, full_like(g, lr), g));
  };
  Tensor w = randn({8, 3}), g = randn({8, 3});
  for (const std::string& backend : code_makers()) {
    auto step = compile(body, {.backend = backend});
    for (double lr : {0.1, 0.25, 0.5})
      EXPECT_LE(distance(step(w, g, lr), body(w, g, lr)), 1e-6) << backend << ", " << lr;
  }
}

// ---- divisors

std::string divided(const std::string& op, const std::string& dtype, const std::string& more = "") {
  return graph_of_op(op, {dtype + "[33]", dtype + "[33]"}, more, dtype + "[33]");
}

TEST_F(InductorNumbers, AnIntegerDividedByZeroIsRefused) {
  const std::pair<const char*, const char*> ops[] = {
      {"floor_divide.default", ""},
      {"div.Tensor_mode", ", rounding_mode=\"trunc\""},
      {"div.Tensor_mode", ", rounding_mode=\"floor\""},
      {"remainder.Tensor", ""},
      {"fmod.Tensor", ""}};
  for (Dtype dtype : {Dtype::i64, Dtype::i32, Dtype::u8})
    for (auto [op, more] : ops) {
      std::string body = divided(op, std::string(name_of(dtype)), more);
      Tensor a = to(arange(33) * 3, dtype), b = to(arange(33) % 5 + 1, dtype);
      expect_same(body, {a, b});
      Tensor with_zero = b.clone();
      with_zero.select(0, 32).fill_(0);  // in the incomplete block of lanes
      EXPECT_THAT(failure_of(body, {a, with_zero}), HasSubstr("an integer is divided by zero"));
    }
}

TEST_F(InductorNumbers, ANumberThatIs0InTheTensorsTypeIsRefused) {
  auto refused = [](const auto& body, Dtype dtype) {
    Tensor x = to(arange(9), dtype);
    EXPECT_THROW(body(x), UserError);
    for (const std::string& backend : code_makers())
      EXPECT_THROW(compile(body, {.backend = backend})(x), UserError) << backend;
  };
  constexpr int64_t beyond_32 = int64_t{1} << 32;
  refused([](const Tensor& x) { return x % 256 + 1; }, Dtype::u8);
  refused([](const Tensor& x) { return fmod(x, -512) + 1; }, Dtype::i8);
  refused([](const Tensor& x) { return floor_divide(x, beyond_32) + 1; }, Dtype::i32);
  refused([](const Tensor& x) { return div(x, beyond_32 * 3, "trunc") + 1; }, Dtype::i32);
  auto wraps = [](const Tensor& x) { return x % 259 + x % 255; };
  Tensor x = to(arange(9), Dtype::u8);
  for (const std::string& backend : code_makers())
    EXPECT_EQ(compile(wraps, {.backend = backend})(x).to_vector<uint8_t>(),
              wraps(x).to_vector<uint8_t>())
        << backend;
}

TEST_F(InductorNumbers, EachMakerOfCodeRefusesIt) {
  auto body = [](const Tensor& a, const Tensor& b) {
    return floor_divide(a, b) + remainder(a, b) + fmod(a, b);
  };
  Tensor a = arange(33), b = arange(33) % 5 + 1, with_zero = b.clone();
  with_zero.select(0, 32).fill_(0);
  for (const std::string& backend : code_makers())
    for (bool is_dynamic : {false, true}) {
      auto f = compile(body, {.backend = backend, .dynamic = is_dynamic});
      EXPECT_EQ(f(a, b).to_vector<int64_t>(), body(a, b).to_vector<int64_t>()) << backend;
      EXPECT_THROW(f(a, with_zero), UserError) << backend;
      EXPECT_EQ(f(a.slice(0, 3), b.slice(0, 3)).to_vector<int64_t>(),
                body(a.slice(0, 3), b.slice(0, 3)).to_vector<int64_t>())
          << backend;
      EXPECT_THROW(f(a.slice(0, 3), with_zero.slice(0, 3)), UserError) << backend;
    }
}

TEST_F(InductorNumbers, ADivisorIsLookedAtOnlyWhereItIsRead) {
  // A row of padding is no row of the quotient.
  const std::string body = R"(
  input %a: i64[10]
  input %b: i64[10]
  %q: i64[10] = aten.floor_divide.default(%a, %b)
  %y: i64[20] = aten.constant_pad_nd.default(%q, [5, 5], 7)
  output %y
)";
  Tensor around = zeros({30}, Dtype::i64), b = around.slice(0, 10, 20);
  b.copy_(arange(10) + 1);
  expect_same(body, {arange(10), b});
}

TEST_F(InductorNumbers, NothingIsDividedWhereThereIsNothing) {
  const std::string body = R"(
  symbol n in [0, 10] hint 4 from size(%a, 0)
  input %a: i64[n, 3]
  input %b: i64[]
  %q: i64[n, 3] = aten.floor_divide.default(%a, %b)
  output %q
)";
  auto graph = graph_of(body);
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(difference(graph, *artifact, {zeros({0, 3}, Dtype::i64), zeros({}, Dtype::i64)}, {0}),
            0);
  EXPECT_THAT(error_of([&] {
                run(*artifact, *graph, {ones({1, 3}, Dtype::i64), zeros({}, Dtype::i64)}, {1});
              }),
              HasSubstr("an integer is divided by zero"));
}

TEST_F(InductorNumbers, TheLeastIntegerByMinusOneIsItself) {
  for (const char* dtype : {"i64", "i32"}) {
    bool is_wide = std::string(dtype) == "i64";
    int64_t half = is_wide ? -(int64_t{1} << 62) : -(int64_t{1} << 30);
    Tensor a = full({33}, half, is_wide ? Dtype::i64 : Dtype::i32) * 2;
    Tensor b = full_like(a, -1);
    for (const char* op : {"floor_divide.default", "remainder.Tensor", "fmod.Tensor"})
      expect_same(divided(op, dtype), {a, b});
  }
}

TEST_F(InductorNumbers, ASymbolicDivisorIsCheckedToo) {
  auto graph = graph_of(R"(
  symbol n in [-10, 10] hint 3 from %k
  input %x: i64[6]
  input %k: int n
  %y: i64[6] = aten.remainder.Scalar(%x, n)
  output %y
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(difference(graph, *artifact, {arange(6), {}}, {-4}), 0);
  EXPECT_THAT(error_of([&] {
                run(*artifact, *graph, {arange(6), {}}, {0});
              }),
              HasSubstr("an integer is divided by zero"));
}

// ---- numbers among integers

// What PyTorch gives: -1 is below all of u8, and does not become its 255.
TEST_F(InductorNumbers, ABoundThatNoElementReachesBoundsNothing) {
  using Bounded = Tensor (*)(const Tensor&);
  const std::pair<Bounded, std::vector<int64_t>> cases[] = {
      {[](const Tensor& x) { return clamp(x, Number(-1), Number(100)); }, {0, 1, 5, 100}},
      {[](const Tensor& x) { return clamp(x, std::nullopt, Number(int64_t{1} << 40)); },
       {0, 1, 5, 127}},
      {[](const Tensor& x) { return clamp_min(x, -(int64_t{1} << 40)); }, {0, 1, 5, 127}},
      {[](const Tensor& x) { return clamp_max(x, 70000); }, {0, 1, 5, 127}},
      {[](const Tensor& x) { return hardtanh(x, -1, 1); }, {0, 1, 1, 1}},
      {[](const Tensor& x) { return hardtanh(x, 3, 2); }, {2, 2, 2, 2}}};
  for (Dtype dtype : {Dtype::u8, Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64})
    for (const auto& [bounded, expected] : cases) {
      Tensor x = tensor({0, 1, 5, 127}).to(dtype);
      EXPECT_EQ(bounded(x).to(Dtype::i64).to_vector<int64_t>(), expected) << name_of(dtype);
      for (const std::string& backend : code_makers())
        EXPECT_EQ(compile(bounded, {.backend = backend})(x).to(Dtype::i64).to_vector<int64_t>(),
                  expected)
            << backend << ", " << name_of(dtype);
    }
}

// Else a sum beyond 2^24 would lose bits as f32, and a fraction would count.
TEST_F(InductorNumbers, ANumberThatOnlyConvertsLeavesIntegersIntegers) {
  auto body = [](const Tensor& x, const Tensor& y) { return addcmul(x, y, y, 2.75); };
  Tensor x = tensor({(int64_t{1} << 40) + 1, int64_t{7}}), y = tensor({int64_t{3}, int64_t{5}});
  const std::vector<int64_t> expected{(int64_t{1} << 40) + 19, 57};
  EXPECT_EQ(body(x, y).to_vector<int64_t>(), expected);
  for (const std::string& backend : code_makers())
    EXPECT_EQ(compile(body, {.backend = backend})(x, y).to_vector<int64_t>(), expected) << backend;
}

}  // namespace
}  // namespace tenon
