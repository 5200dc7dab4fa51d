// Bound programs and copies over strided operands, against a plain loop over elements.
#include "core/kernels/pointwise_loop.h"

#include "core/scalar/formula.h"
#include "core/scalar/lane.h"

#include <tenon/half.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace tenon {
namespace {

using formula::all;
using formula::Lane;
using formula::numbers;
using formula::outputs;
using formula::pointwise;
using Sizes = std::vector<int64_t>;

int64_t count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Strides of a dense tensor whose dimensions lie in memory in the order `order`, outermost first.
Sizes dense_strides(const Sizes& sizes, Sizes order = {}) {
  if (order.empty()) {
    order.resize(sizes.size());
    std::iota(order.begin(), order.end(), 0);
  }
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = step;
    step *= sizes[static_cast<size_t>(order[i])];
  }
  return strides;
}

// Calls body(offset of each operand) for every element.
template <class Body>
void for_elements(const Sizes& sizes, const std::vector<const Sizes*>& strides, const Body& body) {
  Sizes index(sizes.size());
  for (int64_t n = count(sizes); n > 0; --n) {
    std::vector<int64_t> at(strides.size());
    for (size_t o = 0; o < strides.size(); ++o)
      for (size_t d = 0; d < sizes.size(); ++d) at[o] += index[d] * (*strides[o])[d];
    body(at);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

std::vector<float> random_floats(size_t n, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(n);
  for (float& v : values) v = normal(engine);
  return values;
}

constexpr auto blend = [](auto x, auto y, auto w) { return x + w * (y - x) * sigmoid(x); };

// Runs `blend` on f32 with a number for w and compares with lanes.
void expect_blend(const Sizes& sizes, const Sizes& out_s, const Sizes& x_s, const Sizes& y_s) {
  auto extent = [&](const Sizes& s) {
    int64_t last = 0;
    for (size_t d = 0; d < s.size(); ++d) last += s[d] * (sizes[d] - 1);
    return static_cast<size_t>(last + 1);
  };
  std::vector<float> x = random_floats(extent(x_s)), y = random_floats(extent(y_s), 2);
  std::vector<float> out(extent(out_s), -77), expected = out;
  double w = 0.3;
  for_elements(sizes, {&out_s, &x_s, &y_s}, [&](const std::vector<int64_t>& at) {
    expected[static_cast<size_t>(at[0])] =
        blend(Lane<float>{x[static_cast<size_t>(at[1])]},
              Lane<float>{y[static_cast<size_t>(at[2])]}, Lane<float>{0.3f})
            .value;
  });
  BoundProgram plan = bind(record(pointwise(blend)), Dtype::f32);
  Operand outs[] = {{out.data(), Dtype::f32, out_s.data()}};
  Operand ins[] = {{x.data(), Dtype::f32, x_s.data()},
                   {y.data(), Dtype::f32, y_s.data()},
                   {&w, Dtype::f64, nullptr}};
  run_pointwise(plan, outs, ins, sizes);
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0);
}

TEST(Pointwise, DenseOperandsOfEveryLength) {
  for (int64_t n : {1, 2, 7, 15, 16, 17, 63, 511, 512, 513, 1024, 1500, 40000, 100001})
    expect_blend({n}, {1}, {1}, {1});
}

TEST(Pointwise, NoElementsAndNoDimensions) {
  expect_blend({}, {}, {}, {});
  BoundProgram plan = bind(record(pointwise(blend)), Dtype::f32);
  int64_t stride[] = {1, 1}, sizes[] = {0, 3};
  Operand outs[] = {{nullptr, Dtype::f32, stride}};
  Operand ins[] = {
      {nullptr, Dtype::f32, stride}, {nullptr, Dtype::f32, stride}, {nullptr, Dtype::f32, nullptr}};
  run_pointwise(plan, outs, ins, sizes);  // touches nothing
}

TEST(Pointwise, BroadcastRowsColumnsAndScalars) {
  for (Sizes sizes : {Sizes{5, 700}, Sizes{700, 5}, Sizes{37, 64}, Sizes{3, 1}, Sizes{300, 256}}) {
    Sizes dense = dense_strides(sizes);
    expect_blend(sizes, dense, dense, {0, 1});
    expect_blend(sizes, dense, {1, 0}, dense);
    expect_blend(sizes, dense, {0, 0}, dense);
    expect_blend(sizes, dense, {0, 0}, {0, 0});
    expect_blend(sizes, dense, {0, 1}, {1, 0});
  }
}

TEST(Pointwise, PermutedAndSlicedOperands) {
  for (Sizes sizes : {Sizes{6, 7, 8}, Sizes{3, 300, 40}, Sizes{2, 40, 600}, Sizes{1, 9, 1}}) {
    Sizes dense = dense_strides(sizes), permuted = dense_strides(sizes, {2, 0, 1});
    Sizes sliced = dense;
    for (int64_t& s : sliced) s *= 3;
    expect_blend(sizes, dense, permuted, dense);
    expect_blend(sizes, permuted, permuted, permuted);
    expect_blend(sizes, permuted, dense, sliced);
    expect_blend(sizes, sliced, permuted, {0, 1, 0});
    expect_blend(sizes, dense, sliced, permuted);
  }
}

TEST(Pointwise, InPlaceOnTheSameElements) {
  std::vector<float> x = random_floats(3000), y = random_floats(3000, 2), expected(3000);
  for (size_t i = 0; i < x.size(); ++i)
    expected[i] = blend(Lane<float>{x[i]}, Lane<float>{y[i]}, Lane<float>{2.0f}).value;
  BoundProgram plan = bind(record(pointwise(blend)), Dtype::f32);
  int64_t stride[] = {1}, sizes[] = {3000}, two = 2;
  Operand outs[] = {{x.data(), Dtype::f32, stride}};
  Operand ins[] = {
      {x.data(), Dtype::f32, stride}, {y.data(), Dtype::f32, stride}, {&two, Dtype::i64, nullptr}};
  run_pointwise(plan, outs, ins, sizes);
  EXPECT_EQ(x, expected);
}

TEST(Pointwise, DtypesOfOperandsAreConverted) {
  constexpr int n = 700;
  std::vector<BFloat16> x(n), out(n);
  std::vector<int64_t> y(n);
  for (int i = 0; i < n; ++i) x[static_cast<size_t>(i)] = BFloat16(0.37f * static_cast<float>(i));
  for (int i = 0; i < n; ++i) y[static_cast<size_t>(i)] = i % 11;
  BoundProgram plan =
      bind(record(pointwise<numbers>([](auto a, auto b) { return a * b + 1; })), Dtype::f32);
  int64_t stride[] = {1}, sizes[] = {n};
  Operand outs[] = {{out.data(), Dtype::bf16, stride}};
  Operand ins[] = {{x.data(), Dtype::bf16, stride}, {y.data(), Dtype::i64, stride}};
  run_pointwise(plan, outs, ins, sizes);
  for (size_t i = 0; i < n; ++i)
    EXPECT_EQ(out[i].bits, BFloat16(float(x[i]) * static_cast<float>(y[i]) + 1).bits) << i;
}

TEST(Pointwise, MasksAreReadAndWrittenAsBool) {
  constexpr size_t n = 1000;
  std::vector<float> x = random_floats(n), out(n);
  std::vector<uint8_t> mask(n);
  int64_t stride[] = {1}, sizes[] = {n};
  double zero = 0;
  BoundProgram less =
      bind(record(pointwise<all>([](auto a, auto b) { return a < b; })), Dtype::f32);
  Operand mask_operand{mask.data(), Dtype::bool_, stride};
  Operand x_operand{x.data(), Dtype::f32, stride}, number{&zero, Dtype::f64, nullptr};
  Operand less_ins[] = {x_operand, number};
  run_pointwise(less, {&mask_operand, 1}, less_ins, sizes);
  BoundProgram where =
      bind(record(pointwise<all, 1>([](auto m, auto a, auto b) { return select(m, a, b); })),
           Dtype::f32);
  Operand outs[] = {{out.data(), Dtype::f32, stride}};
  Operand where_ins[] = {mask_operand, number, x_operand};
  run_pointwise(where, outs, where_ins, sizes);
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(mask[i], x[i] < 0 ? 1 : 0);
    EXPECT_EQ(out[i], x[i] < 0 ? 0 : x[i]);
  }
}

TEST(Pointwise, SeveralOutputsWithOwnDtypes) {
  constexpr size_t n = 1300;
  std::vector<float> x = random_floats(n), a(n);
  std::vector<double> b(n);
  std::vector<uint8_t> c(n);
  BoundProgram plan = bind(record(pointwise([](auto v) {
                             auto s = sigmoid(v);
                             return outputs(v * s, s, v > 0);
                           })),
                           Dtype::f32);
  int64_t stride[] = {1}, sizes[] = {n};
  Operand outs[] = {{a.data(), Dtype::f32, stride},
                    {b.data(), Dtype::f64, stride},
                    {c.data(), Dtype::bool_, stride}};
  Operand ins[] = {{x.data(), Dtype::f32, stride}};
  run_pointwise(plan, outs, ins, sizes);
  for (size_t i = 0; i < n; ++i) {
    float s = lane::Sigmoid::run(x[i]);
    EXPECT_EQ(a[i], x[i] * s);
    EXPECT_EQ(b[i], double(s));
    EXPECT_EQ(c[i], x[i] > 0);
  }
}

TEST(Pointwise, AProgramOfNumbersFillsTheOutput) {
  std::vector<float> out(900);
  BoundProgram plan =
      bind(record(pointwise([](auto a, auto b) { return a * b + 0.5; })), Dtype::f32);
  int64_t stride[] = {1}, sizes[] = {900}, three = 3;
  double two = 2;
  Operand outs[] = {{out.data(), Dtype::f32, stride}};
  Operand ins[] = {{&three, Dtype::i64, nullptr}, {&two, Dtype::f64, nullptr}};
  run_pointwise(plan, outs, ins, sizes);
  for (float v : out) ASSERT_EQ(v, 6.5f);
}

TEST(Pointwise, AUnaryProgramOfANumberFillsTheOutput) {
  for (int64_t n : {1, 5, 600}) {
    std::vector<float> out(static_cast<size_t>(n));
    BoundProgram plan = bind(record(pointwise([](auto a) { return sqrt(a); })), Dtype::f32);
    int64_t stride[] = {1}, nine = 9;
    Operand outs[] = {{out.data(), Dtype::f32, stride}};
    Operand ins[] = {{&nine, Dtype::i64, nullptr}};
    run_pointwise(plan, outs, ins, {&n, 1});
    for (float v : out) ASSERT_EQ(v, 3.0f);
  }
}

TEST(Pointwise, LoneElementsOfAnyDtype) {
  BoundProgram plan = bind(record(pointwise([](auto a, auto b) { return a / b; })), Dtype::f32);
  BFloat16 a(3.0f), out;
  int64_t b = 2;
  Operand outs[] = {{&out, Dtype::bf16, nullptr}};
  Operand ins[] = {{&a, Dtype::bf16, nullptr}, {&b, Dtype::i64, nullptr}};
  run_pointwise(plan, outs, ins, {});
  EXPECT_EQ(float(out), 1.5f);
}

TEST(Pointwise, ManyOperandsNeedNoLimit) {
  auto sum = pointwise<numbers>([](auto a, auto b, auto c, auto d, auto e, auto f, auto g, auto h,
                                   auto i, auto j, auto k, auto l) {
    return a + b + c + d + e + f + g + h + i + j + k + l + exp(a * b) * sin(c * d) * 0;
  });
  std::vector<float> in(600, 1.0f), out(600);
  int64_t stride[] = {1}, sizes[] = {600};
  std::vector<Operand> ins(12, Operand{in.data(), Dtype::f32, stride});
  Operand outs[] = {{out.data(), Dtype::f32, stride}};
  run_pointwise(bind(record(sum), Dtype::f32), outs, ins, sizes);
  for (float v : out) ASSERT_EQ(v, 12.0f);
}

template <class T>
void expect_copy(const Sizes& sizes, const Sizes& dst_s, const Sizes& src_s, Dtype dtype) {
  auto extent = [&](const Sizes& s) {
    int64_t last = 0;
    for (size_t d = 0; d < s.size(); ++d) last += s[d] * (sizes[d] - 1);
    return static_cast<size_t>(last + 1);
  };
  std::vector<T> src(extent(src_s)), dst(extent(dst_s)), expected;
  for (size_t i = 0; i < src.size(); ++i) std::memset(&src[i], static_cast<int>(i * 7), sizeof(T));
  std::memset(static_cast<void*>(dst.data()), 0x55, dst.size() * sizeof(T));
  expected = dst;
  for_elements(sizes, {&dst_s, &src_s}, [&](const std::vector<int64_t>& at) {
    expected[static_cast<size_t>(at[0])] = src[static_cast<size_t>(at[1])];
  });
  copy_strided({dst.data(), dtype, dst_s.data()}, {src.data(), dtype, src_s.data()}, sizes);
  EXPECT_EQ(std::memcmp(dst.data(), expected.data(), dst.size() * sizeof(T)), 0);
}

struct Complex128 {
  double parts[2];
};

TEST(StridedCopy, CopiesEveryLayoutOfEveryElementSize) {
  for (Sizes sizes : {Sizes{4, 5, 6}, Sizes{100, 33, 70}, Sizes{1, 1, 1}, Sizes{2, 1, 900}}) {
    Sizes dense = dense_strides(sizes), permuted = dense_strides(sizes, {2, 0, 1});
    Sizes sliced = dense;
    for (int64_t& s : sliced) s *= 2;
    Sizes broadcast = {0, 1, 0};
    for (const Sizes* from : {&dense, &permuted, &sliced, &broadcast})
      for (const Sizes* to : {&dense, &permuted, &sliced}) {
        expect_copy<uint8_t>(sizes, *to, *from, Dtype::bool_);
        expect_copy<uint16_t>(sizes, *to, *from, Dtype::bf16);
        expect_copy<uint32_t>(sizes, *to, *from, Dtype::f32);
        expect_copy<uint64_t>(sizes, *to, *from, Dtype::c64);
        expect_copy<Complex128>(sizes, *to, *from, Dtype::c128);
      }
  }
}

TEST(StridedCopy, ConvertsBetweenComputingTypes) {
  std::vector<double> src = {1.9, -1.9, 300.7, 0, 70000};
  std::vector<int8_t> bytes(5);
  std::vector<Half> halves(5);
  int64_t stride[] = {1}, sizes[] = {5};
  Operand from{src.data(), Dtype::f64, stride};
  copy_strided({bytes.data(), Dtype::i8, stride}, from, sizes);
  EXPECT_EQ(bytes, (std::vector<int8_t>{1, -1, 44, 0, 112}));
  copy_strided({halves.data(), Dtype::f16, stride}, from, sizes);
  EXPECT_EQ(float(halves[2]), 300.75f);
  EXPECT_TRUE(std::isinf(float(halves[4])));
  double seven = 7;
  copy_strided({bytes.data(), Dtype::i8, stride}, {&seven, Dtype::f64, nullptr}, sizes);
  EXPECT_EQ(bytes, std::vector<int8_t>(5, 7));
}

TEST(StridedCopy, EveryF8NumberSurvivesTheWayThroughF32) {
  int64_t stride[] = {1}, sizes[] = {256};
  for (Dtype f8 : {Dtype::f8e5m2, Dtype::f8e4m3fn}) {
    std::vector<uint8_t> bits(256), again(256);
    std::iota(bits.begin(), bits.end(), 0);
    std::vector<float> wide(256);
    copy_strided({wide.data(), Dtype::f32, stride}, {bits.data(), f8, stride}, sizes);
    copy_strided({again.data(), f8, stride}, {wide.data(), Dtype::f32, stride}, sizes);
    for (size_t i = 0; i < 256; ++i) {
      if (std::isnan(wide[i])) continue;
      EXPECT_EQ(again[i], bits[i]) << to_text(f8) << " " << wide[i];
    }
  }
}

TEST(StridedCopy, F8RoundsToEvenAndMarksWhatIsTooLarge) {
  std::vector<float> src = {448, 464, 465, 1.0625f, 1.1875f, 0x1p-10f, 0x1.8p-9f, -500};
  std::vector<uint8_t> bits(8);
  int64_t stride[] = {1}, sizes[] = {8};
  copy_strided({bits.data(), Dtype::f8e4m3fn, stride}, {src.data(), Dtype::f32, stride}, sizes);
  EXPECT_EQ(bits, (std::vector<uint8_t>{0x7e, 0x7e, 0x7f, 0x38, 0x3a, 0x00, 0x02, 0xff}));
}

TEST(StridedCopy, ComplexToRealKeepsTheRealPart) {
  std::vector<float> src = {1.5f, 2.5f, 0, 3};
  std::vector<double> wide(4);
  std::vector<float> real(2);
  std::vector<uint8_t> truth(2);
  int64_t stride[] = {1}, sizes[] = {2};
  Operand from{src.data(), Dtype::c64, stride};
  copy_strided({wide.data(), Dtype::c128, stride}, from, sizes);
  EXPECT_EQ(wide, (std::vector<double>{1.5, 2.5, 0, 3}));
  copy_strided({real.data(), Dtype::f32, stride}, from, sizes);
  EXPECT_EQ(real, (std::vector<float>{1.5f, 0}));
  copy_strided({truth.data(), Dtype::bool_, stride}, from, sizes);
  EXPECT_EQ(truth, (std::vector<uint8_t>{1, 1}));
}

}  // namespace
}  // namespace tenon
