// Elements that compiled loops read and write in other orders than one after the other: turned
// around, with gaps, repeated, padded, joined alternately. Lengths are those around registers.
#include "plugins/inductor/ops.h"

#include <tenon/tenon.h>

#include <functional>

namespace tenon {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

class InductorLaneLoads : public InductorOps {
 protected:
  static constexpr Dtype dtypes[] = {Dtype::f32, Dtype::bf16, Dtype::u8, Dtype::i64};

  static Tensor numbers(IntList sizes, Dtype dtype) {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    return arange(0, n).remainder(83).reshape(sizes).to(dtype);
  }
  /// Bodies that only move elements give what the host gives, bit for bit.
  static void expect_same_values(const char* name, const Body& body, const Tensor& x) {
    auto compiled_body =
        compile([&body](const Tensor& t) { return body(t); }, Options{.backend = "inductor"});
    EXPECT_TRUE(equal(compiled_body(x), body(x))) << name << " " << x.dtype() << x.sizes();
  }
};

constexpr int64_t lengths[] = {1, 7, 16, 17, 33, 65, 130};

TEST_F(InductorLaneLoads, TurnedAround) {
  for (Dtype dtype : dtypes)
    for (int64_t n : lengths) {
      Tensor x = numbers({3, n}, dtype);
      expect_same_values(
          "flip", [](const Tensor& t) { return flip(t, {1}) + 1; }, x);
      expect_same_values(
          "flip and plain", [](const Tensor& t) { return flip(t, {1}) + t; }, x);
      expect_same_values(
          "rot90",
          [](const Tensor& t) {
            return rot90(t, 1, {0, 1}) + 1;
          },
          x);
    }
}

TEST_F(InductorLaneLoads, WithGaps) {
  for (Dtype dtype : dtypes)
    for (int64_t n : lengths)
      for (int64_t step : {2, 3, 4, 5}) {
        Tensor x = numbers({3, n * step}, dtype);
        auto every = [step](const Tensor& t) { return t.slice(1, 0, t.size(1), step); };
        expect_same_values(
            "slice", [&](const Tensor& t) { return every(t) + 1; }, x);
        expect_same_values(
            "the last ones",
            [&](const Tensor& t) { return t.slice(1, step - 1, t.size(1), step) + 1; }, x);
        if (dtype == Dtype::i64)
          expect_same_values(
              "sums", [&](const Tensor& t) { return every(t).sum({1}); }, x);
      }
}

TEST_F(InductorLaneLoads, StoredAlternately) {
  for (Dtype dtype : dtypes)
    for (int64_t n : lengths) {
      Tensor x = numbers({3, n}, dtype);
      expect_same_values(
          "two",
          [](const Tensor& t) {
            return stack({t + 1, t}, 2);
          },
          x);
      expect_same_values(
          "three",
          [](const Tensor& t) {
            return stack({t, t + 2, t + 1}, 2);
          },
          x);
      expect_same_values(
          "repeated", [](const Tensor& t) { return repeat_interleave(t, 3, 1) + 1; }, x);
    }
}

TEST_F(InductorLaneLoads, RepeatedAndShifted) {
  for (Dtype dtype : dtypes)
    for (int64_t n : lengths) {
      Tensor x = numbers({3, n}, dtype);
      expect_same_values(
          "repeat",
          [](const Tensor& t) {
            return t.repeat({2, 3}) + 1;
          },
          x);
      expect_same_values(
          "roll", [](const Tensor& t) { return roll(t, {3}, {1}) + t; }, x);
      expect_same_values(
          "kron",
          [](const Tensor& t) {
            return (t.unsqueeze(1).unsqueeze(3) + t.unsqueeze(0).unsqueeze(2)).reshape({9, -1}) + 1;
          },
          x);
    }
}

TEST_F(InductorLaneLoads, Padded) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64})
    for (int64_t n : lengths) {
      if (n < 3) continue;
      Tensor x = numbers({2, 3, n}, dtype);
      expect_same_values(
          "reflect",
          [](const Tensor& t) {
            return reflection_pad1d(t, {2, 1}) + 1;
          },
          x);
      expect_same_values(
          "replicate",
          [](const Tensor& t) {
            return replication_pad1d(t, {2, 5}) + 1;
          },
          x);
      expect_same_values(
          "circular",
          [](const Tensor& t) {
            return _pad_circular(t, {1, 2}) + 1;
          },
          x);
    }
}

// What is read across rows is turned square by square, in a loop: code for more rows is no longer.
TEST_F(InductorLaneLoads, CodeOfATurnedTileDoesNotGrowWithItsRows) {
  auto body_for = [](int64_t rows) {
    std::string text = R"(
  input %a: f32[64, N]
  input %b: f32[N, 64]
  %t: f32[N, 64] strides [1, N] = aten.transpose.int(%a, 0, 1)
  %sum: f32[N, 64] = aten.add.Tensor(%b, %t)
  %rows: f32[N] = aten.sum.dim_IntList(%sum, [1])
  output %sum, %rows
)";
    for (size_t at = 0; (at = text.find('N')) != std::string::npos;)
      text.replace(at, 1, std::to_string(rows));
    return text;
  };
  auto bytes_for = [&](int64_t rows) {
    std::string body = body_for(rows);
    expect_same(body, {randn({64, rows}), randn({rows, 64})}, 1e-4);
    return stats_of(*compiled("inductor", graph_of(body)))["object_bytes"].get<int64_t>();
  };
  int64_t few = bytes_for(16);
  EXPECT_GT(few, 0);
  EXPECT_LT(bytes_for(128), few + few / 4);
}

// Rows of changing length through one piece of code.
// The rows of a norm are columns of what the same kernel writes first: nothing of that may be loaded
// ahead of the loop over rows.
TEST_F(InductorLaneLoads, OfColumnsThatTheKernelItselfHasWritten) {
  expect_same(R"(
  input %x: f32[1, 16, 12]
  input %w: f32[16]
  input %b: f32[16]
  input %m: f32[16]
  input %v: f32[16]
  %n: f32[1, 16, 12] alias 1, %r: f32[0], %s: f32[0] = aten._native_batch_norm_legit_no_training.default(%x, %w, %b, %m, %v, 0.1, 0.001)
  %t: f32[1, 12, 16] strides [192, 1, 12] alias 1 = aten.permute.default(%n, [0, 2, 1])
  %y: f32[1, 12, 16], %p: f32[1, 12, 1], %q: f32[1, 12, 1] = aten.native_layer_norm.default(%t, [16], %w, %b, 0.25)
  output %y, %t, %p, %q
)",
              {randn({1, 16, 12}), randn({16}), randn({16}), randn({16}), rand({16}) + 0.5}, 1e-5);
}

TEST_F(InductorLaneLoads, OfSymbolicLength) {
  auto body = [](const Tensor& t) { return flip(t, {0}) + t.repeat({2}).narrow(0, 1, t.size(0)); };
  auto compiled_body = compile([&](const Tensor& t) { return body(t); },
                               Options{.backend = "inductor", .dynamic = true});
  for (int64_t n : {40, 41, 64, 100, 3}) {
    Tensor x = numbers({n}, Dtype::f32);
    EXPECT_TRUE(equal(compiled_body(x), body(x))) << n;
  }
}

// Rows, each moved by one against the one before: positions relative to each other, as attention
// makes them.
TEST_F(InductorLaneLoads, OfSkewedRows) {
  auto body = [](const Tensor& t) {
    SymInt n = t.size(1);
    Tensor flat = pad(pad(t, {0, n - 1}).view({-1, n * (2 * n - 1)}), {n, 0});
    return flat.view({-1, n, 2 * n}).slice(2, 1) * 1.5;
  };
  for (int64_t n : {9, 16, 17, 33, 64}) {
    auto compiled_body = compile(body, Options{.backend = "inductor"});
    Tensor x = numbers({2, n, n}, Dtype::f32);
    EXPECT_TRUE(equal(compiled_body(x), body(x))) << n;
  }
}

TEST_F(InductorLaneLoads, RowByMatrixThatIsNoParameter) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16})
    for (int64_t k : {1, 9, 300})
      for (int64_t n : {2, 17, 130}) {
        Tensor row = randn({1, k}).to(dtype), matrix = randn({k, n}).to(dtype);
        Tensor bias = randn({n}).to(dtype), wide = matrix.t().contiguous().t();
        auto body = [](const Tensor& a, const Tensor& b, const Tensor& c) {
          return a.matmul(b) + addmm(c, a, b);
        };
        auto compiled_body = compile(body, Options{.backend = "inductor"});
        Tensor exact =
            body(row.to(Dtype::f64), matrix.to(Dtype::f64), bias.to(Dtype::f64)).abs() + 1;
        double unit = dtype == Dtype::f64 ? 1e-14 : dtype == Dtype::f32 ? 1e-5 : 0.04;
        for (const Tensor& m : {matrix, wide}) {
          Tensor expected = body(row.to(Dtype::f64), m.to(Dtype::f64), bias.to(Dtype::f64));
          Tensor apart = (compiled_body(row, m, bias).to(Dtype::f64) - expected).abs() / exact;
          EXPECT_LE(apart.max().item<double>(), unit * 3) << dtype << " " << k << " " << n;
        }
      }
}

// Quotients of all sizes, and divisors that are 0.
TEST_F(InductorLaneLoads, RemaindersAreThoseOfTheHost) {
  Tensor x = cat({randn({200}) * 1e3, randn({100}) * 1e20, tensor({0.0f, -0.0f, 7.0f, -7.0f})});
  for (double y : {0.7, -0.7, 3.0, 1e-3, 1e30}) {
    auto same = [&](const Body& body) {
      auto compiled_body =
          compile([&body](const Tensor& t) { return body(t); }, Options{.backend = "inductor"});
      Tensor found = compiled_body(x), expected = body(x);
      EXPECT_TRUE(found.eq(expected).all().item<bool>()) << y;
      EXPECT_TRUE(equal(signbit(found), signbit(expected))) << y;
    };
    same([y](const Tensor& t) { return t.fmod(y); });
    same([y](const Tensor& t) { return t.remainder(y); });
    same([y](const Tensor& t) { return floor_divide(t, y); });
  }
}

}  // namespace
}  // namespace tenon
