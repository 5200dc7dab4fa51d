// The prepared products and convolutions of codegen/dnn against sums in double precision.
#include <gtest/gtest.h>

#include "processor.h"

#include <dnn/prepared.h>

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

namespace onednn {
namespace {

/// Elements of a tensor, as one of the dtypes holds them.
class Memory {
 public:
  Memory(int64_t elements, int32_t dtype)
      : dtype_(dtype), bytes_(static_cast<size_t>(elements) * (dtype == TN_F32 ? 4 : 2)) {}
  double operator[](int64_t i) const {
    if (dtype_ == TN_F32) return reinterpret_cast<const float*>(bytes_.data())[i];
    auto bits = uint32_t{reinterpret_cast<const uint16_t*>(bytes_.data())[i]} << 16;
    return std::bit_cast<float>(bits);
  }
  void set(int64_t i, float value) {
    if (dtype_ == TN_F32)
      reinterpret_cast<float*>(bytes_.data())[i] = value;
    else
      reinterpret_cast<uint16_t*>(bytes_.data())[i] =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  bool operator==(const Memory& other) const { return bytes_ == other.bytes_; }

 private:
  int32_t dtype_;
  std::vector<std::byte> bytes_;
};

Memory numbers(int64_t elements, int32_t dtype) {
  static std::mt19937 generator(7);
  std::uniform_real_distribution<float> distribution(-1, 1);
  Memory made(elements, dtype);
  for (int64_t i = 0; i < elements; ++i) made.set(i, distribution(generator));
  return made;
}

/// Packed weights in pages that are read-only once they are packed.
class ReadOnly {
 public:
  explicit ReadOnly(size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ReadOnly(const ReadOnly&) = delete;
  ReadOnly& operator=(const ReadOnly&) = delete;
  ~ReadOnly() { munmap(data_, bytes_); }
  void protect() { mprotect(data_, bytes_, PROT_READ); }
  void* data() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

double apply(PostOp op, double x, double operand) {
  double clipped = std::min(std::max(x + 3, 0.0), 6.0) / 6;
  switch (op) {
    case PostOp::relu:
      return std::max(x, 0.0);
    case PostOp::gelu:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case PostOp::tanh:
      return std::tanh(x);
    case PostOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case PostOp::silu:
      return x / (1 + std::exp(-x));
    case PostOp::hardswish:
      return x * clipped;
    case PostOp::hardsigmoid:
      return clipped;
    case PostOp::add:
      return x + operand;
  }
  return x;
}

using PostOps = std::vector<PostOp>;
const std::vector<PostOps> post_op_lists = {
    {},
    {PostOp::relu},
    {PostOp::gelu},
    {PostOp::tanh},
    {PostOp::sigmoid},
    {PostOp::silu},
    {PostOp::hardswish},
    {PostOp::hardsigmoid},
    {PostOp::add},
    {PostOp::add, PostOp::relu},
    {PostOp::gelu, PostOp::add},
    {PostOp::hardswish, PostOp::add, PostOp::relu},
};

std::string name(const PostOps& ops) {
  std::string out;
  for (PostOp op : ops) out += std::to_string(static_cast<int>(op)) + " ";
  return out;
}

/// `depth`: additions in a chain, each of which rounds.
void expect_near(double found, double sum, int64_t depth, const PostOps& ops, double operand,
                 int32_t dtype) {
  for (PostOp op : ops) sum = apply(op, sum, operand);
  constexpr double unit = 0x1p-24;
  ASSERT_EQ(std::isnan(found), std::isnan(sum));
  if (std::isnan(sum)) return;
  double tolerance = dtype == TN_F32 ? 5e-6 + unit / 2 * static_cast<double>(depth) : 1e-2;
  ASSERT_NEAR(found, sum, tolerance * (1 + std::abs(sum)));
}

/// bf16 where oneDNN has code for it.
std::vector<int32_t> multiplied_dtypes() {
  if (tenon::has_avx512()) return {TN_F32, TN_BF16};
  return {TN_F32};
}

// ---- inner products

void check_inner_product(const InnerProductShape& shape, int64_t workers) {
  SCOPED_TRACE(testing::Message() << shape.m << "x" << shape.k << "x" << shape.n << " dtype "
                                  << shape.dtype << " bias " << shape.bias << " workers "
                                  << workers);
  auto plan = PreparedInnerProduct::make(shape, workers);
  ASSERT_TRUE(plan);
  Memory x = numbers(shape.m * shape.k, shape.dtype), bias = numbers(shape.n, shape.dtype);
  Memory w = numbers(shape.k * shape.n, shape.dtype), y(shape.m * shape.n, shape.dtype);
  ReadOnly packed(plan->packed_bytes());
  plan->pack(w.data(), 1, shape.n, packed.data());
  packed.protect();
  for (int64_t s = plan->slices(); s-- > 0;)
    plan->run(s, x.data(), packed.data(), bias.data(), y.data());
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j) {
      double sum = shape.bias ? bias[j] : 0;
      for (int64_t k = 0; k < shape.k; ++k) sum += x[i * shape.k + k] * w[k * shape.n + j];
      expect_near(y[i * shape.n + j], sum, shape.k, {}, 0, shape.dtype);
    }
}

TEST(Prepared, InnerProductsEqualSums) {
  for (int32_t dtype : multiplied_dtypes())
    for (int64_t m : {1, 5, 64, 130})
      for (bool bias : {false, true})
        for (int64_t workers : {1, 2, 3}) check_inner_product({dtype, m, 190, 260, bias}, workers);
}

TEST(Prepared, PiecesCoverTheResultOnce) {
  for (int64_t m : {1, 5, 64, 130, 700})
    for (int64_t workers : {1, 2, 5}) {
      auto plan = PreparedInnerProduct::make({TN_F32, m, 256, 500}, workers);
      ASSERT_TRUE(plan);
      std::vector<int> seen(static_cast<size_t>(m * 500));
      for (int64_t s = 0; s < plan->slices(); ++s) {
        auto p = plan->piece(s);
        for (int64_t i = p.row; i < p.row + p.rows; ++i)
          for (int64_t j = p.column; j < p.column + p.columns; ++j) ++seen[size_t(i * 500 + j)];
      }
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    }
}

TEST(Prepared, OneCallMayRunOnManyThreads) {
  InnerProductShape shape{TN_F32, 40, 200, 300, true};
  auto plan = PreparedInnerProduct::make(shape, 2);
  ASSERT_TRUE(plan);
  Memory x = numbers(40 * 200, TN_F32), w = numbers(200 * 300, TN_F32), b = numbers(300, TN_F32);
  std::vector<std::byte> packed(plan->packed_bytes());
  plan->pack(w.data(), 1, 300, packed.data());
  auto run = [&](Memory& y) {
    for (int64_t s = 0; s < plan->slices(); ++s)
      plan->run(s, x.data(), packed.data(), b.data(), y.data());
  };
  Memory expected(40 * 300, TN_F32);
  run(expected);
  std::atomic<int> different = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int time = 0; time < 50; ++time) {
        Memory y(40 * 300, TN_F32);
        run(y);
        different += !(y == expected);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(different, 0);
}

// ---- convolutions

/// bf16 where the CPU has instructions for it.
std::vector<int32_t> convolved_dtypes() {
  if (__builtin_cpu_supports("avx512bf16")) return {TN_F32, TN_BF16};
  return {TN_F32};
}

struct Layer {
  int64_t images, channels, height, width, out, kernel, stride, padding, dilation, groups;
  int64_t depth = 0;  ///< 0: there is none
};
constexpr Layer layers[] = {
    {1, 32, 30, 28, 64, 3, 1, 1, 1, 1},    {2, 16, 13, 11, 20, 3, 1, 1, 1, 1},
    {1, 40, 24, 24, 48, 1, 1, 0, 1, 1},    {1, 256, 7, 7, 256, 1, 1, 0, 1, 1},
    {1, 64, 20, 20, 64, 3, 1, 1, 1, 64},   {1, 3, 40, 40, 64, 7, 2, 3, 1, 1},
    {1, 128, 7, 7, 256, 3, 1, 1, 1, 1},    {3, 64, 15, 15, 64, 3, 2, 1, 1, 2},
    {1, 32, 30, 30, 32, 3, 1, 2, 2, 1},    {5, 64, 1, 50, 32, 1, 1, 0, 1, 1},
    {1, 16, 10, 12, 32, 3, 1, 1, 1, 1, 8}, {2, 8, 11, 9, 16, 3, 2, 1, 1, 1, 7},
    {1, 32, 3, 3, 128, 3, 1, 1, 1, 1, 3},  {1, 16, 9, 9, 16, 3, 1, 2, 2, 2, 9},
};

ConvolutionShape shape_of(const Layer& l, int32_t dtype, bool bias, bool source_last,
                          bool result_last) {
  ConvolutionShape c{};
  c.dtype = dtype;
  c.bias = bias;
  c.images = l.images, c.channels = l.channels, c.out_channels = l.out, c.groups = l.groups;
  const int64_t space[] = {l.depth, l.height, l.width};
  for (int d = 0; d < 3; ++d) {
    c.source[d] = c.result[d] = c.kernel[d] = c.stride[d] = c.dilation[d] = 1;
    if (space[d] == 0) continue;
    c.source[d] = space[d], c.kernel[d] = l.kernel, c.stride[d] = l.stride;
    c.padding[d] = l.padding, c.dilation[d] = l.dilation;
    c.result[d] = (space[d] + 2 * l.padding - l.dilation * (l.kernel - 1) - 1) / l.stride + 1;
  }
  auto fill = [](int64_t(&s)[5], int64_t n, const int64_t(&sizes)[3], bool last) {
    int64_t step = last ? n : 1;
    for (int d = 2; d >= 0; --d) s[2 + d] = step, step *= sizes[d];
    s[1] = last ? 1 : step;
    s[0] = last ? step : step * n;
  };
  fill(c.source_strides, l.channels, c.source, source_last);
  fill(c.result_strides, l.out, c.result, result_last);
  return c;
}

/// Calls f(index) for every index of the space, the last one fastest.
template <class F>
void for_each_place(const int64_t (&space)[3], F f) {
  for (int64_t d = 0; d < space[0]; ++d)
    for (int64_t h = 0; h < space[1]; ++h)
      for (int64_t w = 0; w < space[2]; ++w) f({d, h, w});
}

double exact(const ConvolutionShape& c, const Memory& x, const Memory& w, const int64_t (&at)[5]) {
  int64_t per_group = c.channels / c.groups, group = at[1] / (c.out_channels / c.groups);
  const int64_t* by = c.source_strides;
  int64_t taps = c.kernel[0] * c.kernel[1] * c.kernel[2], tap = 0;
  double sum = 0;
  for_each_place(c.kernel, [&](const int64_t(&k)[3]) {
    int64_t place = at[0] * by[0] + group * per_group * by[1];
    int64_t own = at[1] * per_group * taps + tap++;
    for (int d = 0; d < 3; ++d) {
      int64_t i = at[2 + d] * c.stride[d] - c.padding[d] + k[d] * c.dilation[d];
      if (i < 0 || i >= c.source[d]) return;
      place += i * by[2 + d];
    }
    for (int64_t k = 0; k < per_group; ++k) sum += x[place + k * by[1]] * w[own + k * taps];
  });
  return sum;
}

/// Calls f(index) for every index of the result.
template <class F>
void for_each_output(const ConvolutionShape& c, F f) {
  for (int64_t n = 0; n < c.images; ++n)
    for (int64_t o = 0; o < c.out_channels; ++o)
      for_each_place(c.result, [&](const int64_t(&s)[3]) { f({n, o, s[0], s[1], s[2]}); });
}

int64_t offset_in(const int64_t (&by)[5], const int64_t (&at)[5]) {
  int64_t offset = 0;
  for (int d = 0; d < 5; ++d) offset += at[d] * by[d];
  return offset;
}

/// Sums of one layer for all layouts, so that they are made once.
struct Sums {
  Memory x, w, bias;
  std::vector<double> of_result;
};

Sums make_sums(const ConvolutionShape& c, float first_bias = 0.25f) {
  Sums s{numbers(c.images * c.source_strides[0], c.dtype),
         numbers(c.weights(), c.dtype),
         numbers(c.out_channels, c.dtype),
         {}};
  s.bias.set(0, first_bias);
  for_each_output(c, [&](const int64_t(&at)[5]) {
    s.of_result.push_back(exact(c, s.x, s.w, at) + (c.bias ? s.bias[at[1]] : 0));
  });
  return s;
}

void check_convolution(const ConvolutionShape& c, const Sums& sums, const PostOps& ops) {
  SCOPED_TRACE(testing::Message() << c.images << "x" << c.channels << "x" << c.source[0] << "x"
                                  << c.source[1] << "x" << c.source[2] << " kernel " << c.kernel[0]
                                  << " groups " << c.groups << " dtype " << c.dtype
                                  << " channels last " << (c.source_strides[1] == 1)
                                  << (c.result_strides[1] == 1) << " post-ops " << name(ops));
  auto plan = PreparedConvolution::make(c, ops, 2);
  if (bool adds_late = std::ranges::find(ops, PostOp::add) > ops.begin() && ops.size() > 1;
      !plan && adds_late && !tenon::has_avx512())
    return;
  ASSERT_TRUE(plan);
  Memory operand = numbers(c.images * c.result_strides[0], c.dtype), y = operand;
  ReadOnly packed(plan->packed_bytes());
  int64_t line = c.kernel[2], plane = c.kernel[1] * line, kernel = c.kernel[0] * plane;
  plan->pack(sums.w.data(), {c.channels / c.groups * kernel, kernel, plane, line, 1},
             packed.data());
  packed.protect();
  for (int64_t s = plan->slices(); s-- > 0;)
    plan->run(s, sums.x.data(), packed.data(), sums.bias.data(), operand.data(), y.data());
  size_t i = 0;
  int64_t depth = c.channels / c.groups * kernel;
  for_each_output(c, [&](const int64_t(&at)[5]) {
    int64_t offset = offset_in(c.result_strides, at);
    expect_near(y[offset], sums.of_result[i++], depth, ops, operand[offset], c.dtype);
  });
}

TEST(Prepared, ConvolutionsEqualSums) {
  const std::vector<PostOps> lists = {{}, {PostOp::relu}, {PostOp::add, PostOp::relu}};
  for (int32_t dtype : convolved_dtypes())
    for (const Layer& l : layers)
      for (bool from_last : {false, true}) {
        Sums sums = make_sums(shape_of(l, dtype, true, from_last, true));
        for (bool to_last : {false, true})
          for (const PostOps& ops : lists)
            check_convolution(shape_of(l, dtype, true, from_last, to_last), sums, ops);
      }
}

TEST(Prepared, ConvolutionsApplyPostOps) {
  for (int32_t dtype : convolved_dtypes())
    for (int layer : {0, 2, 4, 6}) {
      Sums sums = make_sums(shape_of(layers[layer], dtype, false, true, true));
      for (const PostOps& ops : post_op_lists)
        check_convolution(shape_of(layers[layer], dtype, false, true, true), sums, ops);
    }
}

TEST(Prepared, ConvolutionsKeepWhatIsNoNumber) {
  for (int32_t dtype : convolved_dtypes())
    for (int layer : {0, 2, 4, 6})
      for (bool to_last : {false, true}) {
        ConvolutionShape c = shape_of(layers[layer], dtype, true, true, to_last);
        Sums sums = make_sums(c, std::nanf(""));
        for (const PostOps& ops : post_op_lists) check_convolution(c, sums, ops);
      }
}

TEST(Prepared, ConvolutionsDeclineTwoOperands) {
  ConvolutionShape c = shape_of(layers[0], TN_F32, false, true, true);
  EXPECT_FALSE(PreparedConvolution::make(c, PostOps{PostOp::add, PostOp::add}, 2));
}

TEST(Prepared, ConvolutionsDeclineDepthwiseOnesInThreeDimensions) {
  ConvolutionShape c = shape_of({1, 32, 9, 9, 32, 3, 1, 1, 1, 32, 9}, TN_F32, false, true, true);
  EXPECT_FALSE(PreparedConvolution::make(c, {}, 2));
}

TEST(Prepared, TheBiasOfNarrowConvolutionsMayBeWide) {
  if (convolved_dtypes().size() == 1) GTEST_SKIP() << "no instructions for bf16";
  ConvolutionShape c = shape_of(layers[1], TN_BF16, true, true, true);
  c.has_wide_bias = true;
  auto plan = PreparedConvolution::make(c, {}, 2);
  ASSERT_TRUE(plan);
  Memory x = numbers(c.images * c.source_strides[0], TN_BF16), w(c.weights(), TN_BF16);
  Memory bias = numbers(c.out_channels, TN_F32), y(c.images * c.result_strides[0], TN_BF16);
  std::vector<std::byte> packed(plan->packed_bytes());
  plan->pack(w.data(), {c.channels * 9, 9, 9, 3, 1}, packed.data());  // zeros
  for (int64_t s = 0; s < plan->slices(); ++s)
    plan->run(s, x.data(), packed.data(), bias.data(), nullptr, y.data());
  for_each_output(c, [&](const int64_t(&at)[5]) {
    ASSERT_NEAR(y[offset_in(c.result_strides, at)], bias[at[1]], 1e-2);
  });
}

TEST(Prepared, ConvolutionAddsInPlace) {
  ConvolutionShape c = shape_of(layers[0], TN_F32, false, true, true);
  Sums sums = make_sums(c);
  auto plan = PreparedConvolution::make(c, PostOps{PostOp::add}, 2);
  ASSERT_TRUE(plan);
  std::vector<std::byte> packed(plan->packed_bytes());
  plan->pack(sums.w.data(), {c.channels * 9, 9, 9, 3, 1}, packed.data());
  Memory y = numbers(c.images * c.result_strides[0], c.dtype), before = y;
  for (int64_t s = 0; s < plan->slices(); ++s)
    plan->run(s, sums.x.data(), packed.data(), nullptr, y.data(), y.data());
  size_t i = 0;
  for_each_output(c, [&](const int64_t(&at)[5]) {
    int64_t offset = offset_in(c.result_strides, at);
    ASSERT_NEAR(y[offset], before[offset] + sums.of_result[i++], 1e-4);
  });
}

TEST(Prepared, ConvolutionPiecesCoverTheResultOnce) {
  for (const Layer& l : layers)
    for (bool last : {false, true}) {
      ConvolutionShape c = shape_of(l, TN_F32, true, last, last);
      auto plan = PreparedConvolution::make(c, {}, 2);
      ASSERT_TRUE(plan);
      int64_t positions = 0;
      for (int64_t s = 0; s < plan->slices(); ++s) {
        auto p = plan->piece(s);
        EXPECT_TRUE(p.image < c.images && p.row + p.rows <= c.result[c.first()] &&
                    p.channel + p.channels <= c.out_channels);
        positions += p.rows * p.channels;
      }
      EXPECT_EQ(positions, c.images * c.result[c.first()] * c.out_channels);
    }
}

// ---- batched products

struct Operand {
  std::vector<int64_t> strides;
  Memory memory;

  int64_t at(const std::vector<int64_t>& index) const {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
    return offset;
  }
};

Operand operand(const std::vector<int64_t>& sizes, std::vector<int64_t> strides, int32_t dtype) {
  int64_t span = 1;
  for (size_t d = 0; d < sizes.size(); ++d) span += (sizes[d] - 1) * strides[d];
  return {std::move(strides), numbers(span, dtype)};
}

/// Strides of dimensions that lie in memory in this order, the first outermost.
std::vector<int64_t> ordered(const std::vector<int64_t>& sizes, const std::vector<size_t>& order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0; step *= sizes[order[i]]) strides[order[i]] = step;
  return strides;
}

struct Order {
  std::vector<size_t> source, other, result;
};

/// [batch, heads, m, k] x [batch, heads, k, n] with each operand in an order of its own.
void check_batched_product(std::vector<int64_t> sizes, const Order& order, float alpha, float beta,
                           int32_t dtype) {
  int64_t b = sizes[0], h = sizes[1], m = sizes[2], k = sizes[3], n = sizes[4];
  SCOPED_TRACE(testing::Message() << b << "x" << h << "x" << m << "x" << k << "x" << n << " source "
                                  << order.source[1] << order.source[3] << " other "
                                  << order.other[3] << " result " << order.result[1] << " dtype "
                                  << dtype << " beta " << beta);
  Operand x = operand({b, h, m, k}, ordered({b, h, m, k}, order.source), dtype);
  Operand w = operand({b, h, k, n}, ordered({b, h, k, n}, order.other), dtype);
  Operand y = operand({b, h, m, n}, ordered({b, h, m, n}, order.result), dtype);
  Memory before = y.memory;
  BatchedProductShape shape{dtype, {b, h}, m, k, n, x.strides, w.strides, y.strides, alpha, beta};
  auto plan = PreparedBatchedProduct::make(shape, 2);
  ASSERT_TRUE(plan);
  for (int64_t s = plan->slices(); s-- > 0;)
    plan->run(s, x.memory.data(), w.memory.data(), y.memory.data());
  for (int64_t i = 0; i < b * h * m * n; ++i) {
    int64_t row = i / n % m, column = i % n, head = i / n / m % h, batch = i / n / m / h;
    double sum = 0;
    for (int64_t j = 0; j < k; ++j)
      sum += x.memory[x.at({batch, head, row, j})] * w.memory[w.at({batch, head, j, column})];
    int64_t at = y.at({batch, head, row, column});
    expect_near(y.memory[at], alpha * sum + (beta == 0 ? 0 : beta * before[at]), k, {}, 0, dtype);
  }
}

TEST(Prepared, BatchedProductsEqualSums) {
  const std::vector<size_t> plain{0, 1, 2, 3}, turned{0, 1, 3, 2}, heads{0, 2, 1, 3};
  const Order orders[] = {{plain, plain, plain},       {plain, turned, plain},
                          {turned, plain, plain},      {heads, heads, heads},
                          {heads, turned, plain},      {plain, heads, heads},
                          {heads, {0, 3, 1, 2}, plain}};
  for (int32_t dtype : multiplied_dtypes())
    for (const Order& order : orders) {
      check_batched_product({2, 6, 40, 64, 50}, order, 1, 0, dtype);
      check_batched_product({1, 3, 20, 16, 20}, order, 0.125f, 0, dtype);
      check_batched_product({1, 1, 150, 64, 130}, order, 1, 0, dtype);
      check_batched_product({1, 1, 10, 300, 600}, order, 1, 0.5f, dtype);
      check_batched_product({3, 2, 70, 10, 33}, order, 2, 1, dtype);
    }
}

// A result in rows that are not dense is cut finer than one slice a worker, to keep tiles small.
TEST(Prepared, BatchedProductsWriteHeadsSideBySide) {
  const std::vector<size_t> plain{0, 1, 2, 3}, heads{0, 2, 1, 3};
  check_batched_product({1, 12, 400, 8, 136}, {plain, plain, heads}, 1, 0, TN_F32);
}

}  // namespace
}  // namespace onednn
