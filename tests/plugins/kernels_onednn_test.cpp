// kernels_onednn against the host's reference rows and against sums in double precision.
#include <gtest/gtest.h>

#include "backend/abi/abi_args.h"
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/life/load.h"
#include "core/dispatch.h"
#include "core/threads/thread_pool.h"
#include "ops/op_table.h"
#include "processor.h"

#include <tenon/ops.h>

#include <bit>
#include <cmath>
#include <deque>
#include <functional>
#include <random>

namespace tenon {
namespace {

const std::string plugin_file = TENON_PLUGIN_DIR "/tenon_kernels_onednn.so";

const tn_kernels& kernels() {
  static auto* catalog = [] {
    SearchSettings settings;
    settings.files = {plugin_file};
    auto* made = new PluginCatalog(std::move(settings));
    made->rescan();
    return made;
  }();
  static const tn_kernels* loaded =
      &load_plugin(*catalog, catalog->find_plugin("kernels_onednn")).kernels.at(0);
  return *loaded;
}

float element(const Tensor& t, int64_t offset) {
  const auto* data = static_cast<const std::byte*>(t.head()->data);
  if (t.dtype() == Dtype::f32) return reinterpret_cast<const float*>(data)[offset];
  auto bits = uint32_t{reinterpret_cast<const uint16_t*>(data)[offset]} << 16;
  return std::bit_cast<float>(bits);
}

/// Calls f(index, offset in elements) for each element.
template <class F>
void for_each_element(const Tensor& t, F f) {
  const tn_tensor& head = *t.head();
  std::vector<int64_t> index(static_cast<size_t>(head.ndim));
  for (int64_t i = 0; i < head.numel; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * head.strides[d];
    f(index, offset);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < head.sizes[d]) break;
      index[d] = 0;
    }
  }
}

/// Values in [-1, 1], the same for the same seed; strides empty = contiguous.
Tensor numbers(std::vector<int64_t> sizes, Dtype dtype, std::vector<int64_t> strides = {}) {
  static std::mt19937 generator(7);
  static auto* memory = new std::deque<std::vector<std::byte>>;
  size_t span = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    span = strides.empty() ? span * size_t(sizes[d]) : span + size_t((sizes[d] - 1) * strides[d]);
  auto& bytes = memory->emplace_back(span * (dtype == Dtype::f32 ? 4 : 2));
  std::uniform_real_distribution<float> distribution(-1, 1);
  for (size_t i = 0; i < span; ++i) {
    auto bits = std::bit_cast<uint32_t>(distribution(generator));
    if (dtype == Dtype::f32)
      reinterpret_cast<uint32_t*>(bytes.data())[i] = bits;
    else
      reinterpret_cast<uint16_t*>(bytes.data())[i] = static_cast<uint16_t>(bits >> 16);
  }
  OptIntList given = strides.empty() ? OptIntList() : OptIntList(IntList(strides));
  return from_memory(bytes.data(), IntList(sizes), dtype, given, nullptr, nullptr);
}

/// The plugin's results, or undefined tensors when it declines.
std::vector<Tensor> run_kernel(std::string_view op, std::vector<Value> args, uint32_t n_results) {
  const tn_kernels& k = kernels();
  std::vector<Tensor> results(n_results);
  for (uint32_t i = 0; i < k.n_ops; ++i) {
    if (view_of(k.ops[i]) != op) continue;
    AbiArguments abi(args.data(), static_cast<uint32_t>(args.size()));
    std::vector<tn_tensor*> out(n_results, nullptr);
    tn_status* status =
        k.run(k.self, i, abi.args(), abi.size(), abi.values(), nullptr, out.data(), n_results);
    if (status && status->code != TN_DECLINED) ADD_FAILURE() << op << ": " << status->text;
    free_status(status);
    for (uint32_t r = 0; r < n_results; ++r) results[r] = take_tensor(out[r]);
    return results;
  }
  ADD_FAILURE() << op << " is not a kernel of the plugin";
  return results;
}
Tensor run_kernel(std::string_view op, std::vector<Value> args) {
  return run_kernel(op, std::move(args), 1)[0];
}

std::vector<Tensor> run_reference(std::string_view op, std::vector<Value> args,
                                  uint32_t n_results) {
  std::vector<Value> results(n_results);
  dispatch(*find_op(op), args.data(), static_cast<uint32_t>(args.size()), results.data(),
           n_results);
  std::vector<Tensor> tensors;
  for (Value& r : results) tensors.push_back(take<Tensor>(r));
  return tensors;
}
Tensor run_reference(std::string_view op, std::vector<Value> args) {
  return run_reference(op, std::move(args), 1)[0];
}

std::vector<int64_t> list(const int64_t* values, int32_t n) { return {values, values + n}; }

void expect_near(const Tensor& found, const Tensor& expected, int64_t depth) {
  ASSERT_TRUE(found.defined()) << "the kernel declined";
  const tn_tensor &f = *found.head(), &e = *expected.head();
  ASSERT_EQ(f.dtype, e.dtype);
  ASSERT_EQ(list(f.sizes, f.ndim), list(e.sizes, e.ndim));
  EXPECT_EQ(list(f.strides, f.ndim), list(e.strides, e.ndim));
  // A chain of `depth` additions: each rounds a partial sum, and those grow with the root of the
  // depth as their number's effect does. bf16 results are rounded once more.
  constexpr double unit = 0x1p-24;
  double n = static_cast<double>(depth), worst = 0;
  double tolerance = 2 * unit * (n + 16);
  if (found.dtype() == Dtype::bf16) tolerance += 2e-2 * (std::sqrt(n) + 1);
  for_each_element(found, [&](const auto&, int64_t offset) {
    worst = std::max<double>(worst, std::abs(element(found, offset) - element(expected, offset)));
  });
  EXPECT_LE(worst, tolerance);
}

/// Three times: weights as they are, packed, and packed weights found again.
void compare(std::string_view op, const std::vector<Value>& args, int64_t depth) {
  Tensor expected = run_reference(op, args);
  for (int time = 0; time < 3; ++time) {
    SCOPED_TRACE(message("{}, call {}", op, time));
    expect_near(run_kernel(op, args), expected, depth);
  }
}

/// bf16 where oneDNN has code for it.
std::vector<Dtype> multiplied_dtypes() {
  if (has_avx512()) return {Dtype::f32, Dtype::bf16};
  return {Dtype::f32};
}

// ---- products

struct Sizes {
  int64_t m, k, n;
};
constexpr Sizes products[] = {{2, 768, 768},   {4, 96, 320},  {16, 64, 100}, {40, 33, 65},
                              {130, 200, 256}, {300, 64, 48}, {7, 1, 5},     {64, 300, 2}};

TEST(KernelsOnednn, MultipliesMatricesLikeTheReference) {
  for (Dtype dtype : multiplied_dtypes())
    for (Sizes s : products) {
      SCOPED_TRACE(message("{} x {} x {}", s.m, s.k, s.n));
      Tensor a = numbers({s.m, s.k}, dtype), b = numbers({s.k, s.n}, dtype);
      compare("aten.mm.default", {Value::of(a), Value::of(b)}, s.k);
      Tensor turned = numbers({s.k, s.n}, dtype, {1, s.k});
      compare("aten.mm.default", {Value::of(a), Value::of(turned)}, s.k);
      Tensor columns = numbers({s.m, s.k}, dtype, {1, s.m});
      compare("aten.mm.default", {Value::of(columns), Value::of(b)}, s.k);
    }
}

TEST(KernelsOnednn, RunsLinearLayersLikeTheReference) {
  for (Dtype dtype : multiplied_dtypes())
    for (Sizes s : products) {
      SCOPED_TRACE(message("{} x {} x {}", s.m, s.k, s.n));
      Tensor x = numbers({2, s.m, s.k}, dtype), w = numbers({s.n, s.k}, dtype);
      Tensor bias = numbers({s.n}, dtype);
      compare("aten.linear.default", {Value::of(x), Value::of(w), Value::of(bias)}, s.k);
      compare("aten.linear.default", {Value::of(x), Value::of(w), Value()}, s.k);
      Tensor gaps = numbers({s.m, 2, s.k}, dtype, {3 * s.k, s.k + 3, 1});
      compare("aten.linear.default", {Value::of(gaps), Value::of(w), Value()}, s.k);
    }
}

TEST(KernelsOnednn, AddsAndScalesLikeTheReference) {
  for (Dtype dtype : multiplied_dtypes()) {
    Tensor a = numbers({20, 30}, dtype), b = numbers({30, 64}, dtype);
    Tensor row = numbers({64}, dtype), full = numbers({20, 64}, dtype);
    for (const Tensor& added : {row, full})
      for (double beta : {1.0, 0.5, 0.0})
        for (double alpha : {1.0, -2.0}) {
          SCOPED_TRACE(
              message("beta {} alpha {} added of {} dimensions", beta, alpha, added.dim()));
          compare("aten.addmm.default",
                  {Value::of(added), Value::of(a), Value::of(b), Value::of(beta), Value::of(alpha)},
                  4 * 30);
        }
  }
}

TEST(KernelsOnednn, MultipliesBatchesLikeTheReference) {
  for (Dtype dtype : multiplied_dtypes()) {
    Tensor a = numbers({12, 40, 64}, dtype), b = numbers({12, 64, 50}, dtype);
    compare("aten.bmm.default", {Value::of(a), Value::of(b)}, 64);
    Tensor turned = numbers({12, 64, 50}, dtype, {64 * 50, 1, 64});
    compare("aten.bmm.default", {Value::of(a), Value::of(turned)}, 64);
    Tensor one_a = numbers({1, 200, 64}, dtype), one_b = numbers({1, 64, 50}, dtype);
    compare("aten.bmm.default", {Value::of(one_a), Value::of(one_b)}, 64);
    Tensor added = numbers({12, 40, 50}, dtype);
    compare("aten.baddbmm.default",
            {Value::of(added), Value::of(a), Value::of(b), Value::of(0.5), Value::of(2.0)}, 4 * 64);
    compare("aten.matmul.default", {Value::of(a), Value::of(b)}, 64);
    // Attention: heads taken apart by strides.
    Tensor q = numbers({2, 3, 20, 16}, dtype, {3 * 20 * 16, 16, 48, 1});
    Tensor k = numbers({2, 3, 16, 20}, dtype, {3 * 20 * 16, 16, 1, 48});
    compare("aten.matmul.default", {Value::of(q), Value::of(k)}, 16);
    Tensor shared = numbers({64, 50}, dtype);
    compare("aten.matmul.default", {Value::of(a), Value::of(shared)}, 64);
  }
}

TEST(KernelsOnednn, DeclinesBf16WithoutInstructionsForIt) {
  if (has_avx512()) GTEST_SKIP() << "oneDNN has code for bf16";
  Tensor a = numbers({20, 30}, Dtype::bf16), b = numbers({30, 64}, Dtype::bf16);
  EXPECT_FALSE(run_kernel("aten.mm.default", {Value::of(a), Value::of(b)}).defined());
}

// ---- convolutions

/// bf16 where the CPU has instructions for it.
std::vector<Dtype> convolved_dtypes() {
  if (__builtin_cpu_supports("avx512bf16")) return {Dtype::f32, Dtype::bf16};
  return {Dtype::f32};
}

struct Shape {
  int64_t images, channels, height, width, out, kernel, stride, padding, dilation, groups;
};
constexpr Shape shapes[] = {
    {1, 3, 32, 32, 64, 7, 2, 3, 1, 1},    {2, 16, 13, 11, 20, 3, 1, 1, 1, 1},
    {1, 64, 56, 56, 64, 3, 1, 1, 1, 1},   {1, 64, 15, 15, 64, 3, 2, 1, 1, 1},
    {1, 128, 7, 7, 96, 3, 1, 1, 1, 1},    {1, 256, 7, 7, 256, 3, 1, 1, 1, 1},
    {1, 64, 20, 20, 128, 1, 2, 0, 1, 1},  {1, 16, 40, 40, 64, 1, 1, 0, 1, 1},
    {1, 64, 40, 40, 64, 3, 1, 1, 1, 2},   {3, 16, 17, 17, 16, 3, 1, 1, 1, 16},
    {1, 64, 112, 20, 64, 3, 2, 1, 1, 64}, {1, 96, 7, 7, 96, 5, 1, 2, 1, 96},
    {1, 5, 9, 9, 7, 3, 1, 2, 1, 1},       {1, 32, 30, 30, 32, 3, 1, 2, 2, 1},
};

double exact(const Shape& s, const Tensor& x, const Tensor& w, const std::vector<int64_t>& at) {
  int64_t per_group = s.channels / s.groups, group = at[1] / (s.out / s.groups);
  const int64_t *xs = x.head()->strides, *ws = w.head()->strides;
  double sum = 0;
  for (int64_t c = 0; c < per_group; ++c)
    for (int64_t i = 0; i < s.kernel; ++i)
      for (int64_t j = 0; j < s.kernel; ++j) {
        int64_t row = at[2] * s.stride - s.padding + i * s.dilation;
        int64_t column = at[3] * s.stride - s.padding + j * s.dilation;
        if (row < 0 || column < 0 || row >= s.height || column >= s.width) continue;
        int64_t from =
            at[0] * xs[0] + (group * per_group + c) * xs[1] + row * xs[2] + column * xs[3];
        sum += double{element(x, from)} *
               element(w, at[1] * ws[0] + c * ws[1] + i * ws[2] + j * ws[3]);
      }
  return sum;
}

void check_convolution(const Shape& s, Dtype dtype, bool channels_last) {
  SCOPED_TRACE(message("{}x{}x{}x{} kernel {} groups {} channels_last {}", s.images, s.channels,
                       s.height, s.width, s.kernel, s.groups, channels_last));
  std::vector<int64_t> last{s.channels * s.height * s.width, 1, s.width * s.channels, s.channels};
  Tensor x = numbers({s.images, s.channels, s.height, s.width}, dtype,
                     channels_last ? last : std::vector<int64_t>{});
  Tensor w = numbers({s.out, s.channels / s.groups, s.kernel, s.kernel}, dtype);
  Tensor bias = numbers({s.out}, dtype);
  int64_t pairs[3][2] = {{s.stride, s.stride}, {s.padding, s.padding}, {s.dilation, s.dilation}};
  IntList stride(pairs[0], 2), padding(pairs[1], 2), dilation(pairs[2], 2);
  std::vector<Value> args{Value::of(x),       Value::of(w),       Value::of(bias),
                          Value::of(stride),  Value::of(padding), Value::of(dilation),
                          Value::of(s.groups)};
  for (int time = 0; time < 2; ++time) {
    Tensor y = run_kernel("aten.conv2d.default", args);
    ASSERT_TRUE(y.defined()) << "the kernel declined";
    const tn_tensor& head = *y.head();
    EXPECT_EQ(head.strides[channels_last ? 1 : 3], 1);
    double worst = 0;
    for_each_element(y, [&](const auto& at, int64_t offset) {
      double expected = exact(s, x, w, at) + element(bias, at[1]);
      worst = std::max(worst, std::abs(element(y, offset) - expected) / (1 + std::abs(expected)));
    });
    EXPECT_LE(worst, dtype == Dtype::f32 ? 1e-4 : 1e-2);
  }
}

TEST(KernelsOnednn, ConvolvesLikeSumsInDoublePrecision) {
  for (Dtype dtype : convolved_dtypes())
    for (const Shape& s : shapes)
      for (bool channels_last : {false, true}) check_convolution(s, dtype, channels_last);
}

// Of tokens that become an image: whatever that stride is, the layout is that of many images.
TEST(KernelsOnednn, TheStrideOfOneImageDoesNotCount) {
  int64_t twos[] = {2, 2}, zeros[] = {0, 0}, ones[] = {1, 1};
  auto list = [](const int64_t(&l)[2]) { return Value::of(IntList(l, 2)); };
  for (int64_t of_images : {1, 16, 4096}) {
    Tensor x = numbers({1, 16, 8, 8}, Dtype::f32, {of_images, 1, 128, 16});
    Tensor w = numbers({16, 16, 2, 2}, Dtype::f32);
    Tensor y = run_kernel("aten.conv2d.default", {Value::of(x), Value::of(w), Value{}, list(twos),
                                                  list(zeros), list(ones), Value::of(int64_t{1})});
    EXPECT_EQ(y.defined() ? to_text(y.strides()) : "declined", "[256, 1, 64, 16]");
  }
}

TEST(KernelsOnednn, ConvolvesTheSameWithOneThread) {
  int before = num_threads();
  set_num_threads(1);
  for (const Shape& s : shapes) check_convolution(s, Dtype::f32, false);
  set_num_threads(before);
}

void check_gradients(const Shape& s, const bool (&wanted)[3]) {
  SCOPED_TRACE(message("{}x{}x{}x{} kernel {} groups {} wanted {}{}{}", s.images, s.channels,
                       s.height, s.width, s.kernel, s.groups, wanted[0], wanted[1], wanted[2]));
  auto length = [&](int64_t n) {
    return (n + 2 * s.padding - s.dilation * (s.kernel - 1) - 1) / s.stride + 1;
  };
  Tensor x = numbers({s.images, s.channels, s.height, s.width}, Dtype::f32);
  Tensor w = numbers({s.out, s.channels / s.groups, s.kernel, s.kernel}, Dtype::f32);
  Tensor g = numbers({s.images, s.out, length(s.height), length(s.width)}, Dtype::f32);
  int64_t pairs[4][2] = {
      {s.stride, s.stride}, {s.padding, s.padding}, {s.dilation, s.dilation}, {0, 0}};
  IntList stride(pairs[0], 2), padding(pairs[1], 2), dilation(pairs[2], 2), zero(pairs[3], 2);
  std::vector<Value> args{Value::of(g),
                          Value::of(x),
                          Value::of(w),
                          Value(),
                          Value::of(stride),
                          Value::of(padding),
                          Value::of(dilation),
                          Value::of(false),
                          Value::of(zero),
                          Value::of(s.groups),
                          Value::pointer(Tag::bools, wanted, 3)};
  auto found = run_kernel("aten.convolution_backward.default", args, 3);
  auto expected = run_reference("aten.convolution_backward.default", args, 3);
  for (size_t r = 0; r < 3; ++r) {
    ASSERT_EQ(found[r].defined(), wanted[r]);
    if (wanted[r]) expect_near(found[r], expected[r], 8 * s.images * s.height * s.width);
  }
}

TEST(KernelsOnednn, GivesTheGradientsOfConvolutionsLikeTheReference) {
  for (Shape s : shapes)
    for (int64_t images : {s.images, int64_t{7}}) {
      s.images = images;
      check_gradients(s, {true, true, true});
      check_gradients(s, {false, true, false});
      check_gradients(s, {true, false, false});
    }
}

// ---- in three dimensions

struct Volume {
  std::vector<int64_t> source, weights;
  int64_t stride, padding, dilation, groups;
};
const Volume volumes[] = {{{1, 48, 8, 14, 14}, {64, 48, 3, 3, 3}, 1, 1, 1, 1},
                          {{3, 40, 3, 9, 9}, {24, 40, 3, 3, 3}, 1, 1, 1, 1},
                          {{2, 3, 9, 20, 11}, {16, 3, 3, 5, 5}, 2, 2, 1, 1},
                          {{1, 8, 7, 9, 9}, {16, 4, 3, 3, 3}, 1, 2, 2, 2},
                          {{3, 32, 4, 7, 7}, {48, 32, 1, 1, 1}, 1, 0, 1, 1}};

/// The arguments that follow the tensors, which must outlive them.
struct Settings {
  std::vector<int64_t> stride, padding, dilation, zero{0, 0, 0};
  explicit Settings(const Volume& v)
      : stride(3, v.stride), padding(3, v.padding), dilation(3, v.dilation) {}
};

TEST(KernelsOnednn, ConvolvesVolumesLikeTheReference) {
  for (Dtype dtype : convolved_dtypes())
    for (const Volume& v : volumes)
      for (bool last : {false, true}) {
        const std::vector<int64_t>& n = v.source;
        std::vector<int64_t> by{n[1] * n[2] * n[3] * n[4], 1, n[3] * n[4] * n[1], n[4] * n[1],
                                n[1]};
        Tensor x = numbers(v.source, dtype, last ? by : std::vector<int64_t>{});
        Tensor w = numbers(v.weights, dtype), bias = numbers({v.weights[0]}, dtype);
        Settings s(v);
        std::vector<Value> args{Value::of(x),
                                Value::of(w),
                                Value::of(bias),
                                Value::of(IntList(s.stride)),
                                Value::of(IntList(s.padding)),
                                Value::of(IntList(s.dilation)),
                                Value::of(v.groups)};
        Tensor y = run_kernel("aten.conv3d.default", args);
        ASSERT_TRUE(y.defined()) << "the kernel declined";
        EXPECT_EQ(y.head()->strides[last ? 1 : 4], 1);
        int64_t depth = v.weights[1] * v.weights[2] * v.weights[3] * v.weights[4];
        expect_near(y, run_reference("aten.conv3d.default", args), depth);
      }
}

/// Channels are cut where there are more threads than images.
TEST(KernelsOnednn, GivesTheGradientsOfVolumesLikeTheReference) {
  const bool wanted[3] = {true, true, true};
  int before = num_threads();
  for (const Volume& v : volumes) {
    Tensor x = numbers(v.source, Dtype::f32), w = numbers(v.weights, Dtype::f32);
    std::vector<int64_t> sizes{v.source[0], v.weights[0]};
    for (size_t d = 2; d < 5; ++d)
      sizes.push_back(
          (v.source[d] + 2 * v.padding - v.dilation * (v.weights[d] - 1) - 1) / v.stride + 1);
    Tensor g = numbers(sizes, Dtype::f32);
    Settings s(v);
    std::vector<Value> args{Value::of(g),
                            Value::of(x),
                            Value::of(w),
                            Value(),
                            Value::of(IntList(s.stride)),
                            Value::of(IntList(s.padding)),
                            Value::of(IntList(s.dilation)),
                            Value::of(false),
                            Value::of(IntList(s.zero)),
                            Value::of(v.groups),
                            Value::pointer(Tag::bools, wanted, 3)};
    auto expected = run_reference("aten.convolution_backward.default", args, 3);
    for (int threads : {1, 2, 5}) {
      set_num_threads(threads);
      auto found = run_kernel("aten.convolution_backward.default", args, 3);
      for (size_t r = 0; r < 3; ++r) {
        ASSERT_TRUE(found[r].defined());
        expect_near(found[r], expected[r], 8 * g.numel());
      }
    }
    set_num_threads(before);
  }
}

// ---- what it leaves to others, and what it must notice

TEST(KernelsOnednn, DeclinesOtherDtypesEmptyTensorsAndOneRowOrColumn) {
  Tensor whole = make_tensor(IntList{std::vector<int64_t>{3, 3}}, Dtype::i64);
  EXPECT_FALSE(run_kernel("aten.mm.default", {Value::of(whole), Value::of(whole)}).defined());
  Tensor half = make_tensor(IntList{std::vector<int64_t>{3, 3}}, Dtype::f16);
  EXPECT_FALSE(run_kernel("aten.mm.default", {Value::of(half), Value::of(half)}).defined());
  Tensor none = make_tensor(IntList{std::vector<int64_t>{0, 3}}, Dtype::f32);
  Tensor some = numbers({3, 3}, Dtype::f32), column = numbers({3, 1}, Dtype::f32);
  EXPECT_FALSE(run_kernel("aten.mm.default", {Value::of(none), Value::of(some)}).defined());
  EXPECT_FALSE(run_kernel("aten.mm.default", {Value::of(some), Value::of(column)}).defined());
}

TEST(KernelsOnednn, SeesWeightsThatWereWritten) {
  Tensor x = numbers({8, 64}, Dtype::f32), w = numbers({128, 64}, Dtype::f32);
  std::vector<Value> args{Value::of(x), Value::of(w), Value()};
  compare("aten.linear.default", args, 64);  // packs them
  Tensor other = numbers({128, 64}, Dtype::f32);
  Value into[] = {Value::of(w), Value::of(other), Value::of(false)}, result;
  dispatch(*find_op("aten.copy_.default"), into, 3, &result, 1);
  take<Tensor>(result);
  compare("aten.linear.default", args, 64);
}

// Whoever holds an address writes without being counted, also between two calls of many.
TEST(KernelsOnednn, SeesWeightsThatWereWrittenThroughAPointer) {
  set_plugin_search({plugin_file}, {});
  install_plugin_kernels();
  auto first_of = [](const Tensor& t) { return t.reshape({-1}).to_vector<float>()[0]; };
  Tensor x = ones({4, 64}), image = ones({1, 16, 8, 8});
  struct Layer {
    Tensor weights;
    std::function<Tensor(const Tensor&)> run;
    float per_weight;
  };
  std::vector<float> lent(64 * 64, 1.0f);
  std::vector<Layer> layers;
  layers.push_back({ones({64, 64}), [&](const Tensor& w) { return linear(x, w); }, 64});
  layers.push_back({ones({64, 64}), [&](const Tensor& w) { return matmul(x, w); }, 64});
  layers.push_back({from_memory(lent.data(), {64, 64}, Dtype::f32),
                    [&](const Tensor& w) { return linear(x, w); }, 64});
  layers.push_back({ones({16, 16, 3, 3}), [&](const Tensor& w) { return conv2d(image, w); }, 144});
  for (Layer& layer : layers) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(first_of(layer.run(layer.weights)), layer.per_weight);
    auto* kept = layer.weights.data_ptr<float>();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(first_of(layer.run(layer.weights)), layer.per_weight);
    std::fill_n(kept, layer.weights.numel().guard_int(), 2.0f);
    EXPECT_EQ(first_of(layer.run(layer.weights)), 2 * layer.per_weight);
    std::fill_n(kept, layer.weights.numel().guard_int(), 3.0f);
    EXPECT_EQ(first_of(layer.run(layer.weights)), 3 * layer.per_weight);
  }
}

TEST(KernelsOnednn, IsTriedBeforeTheReferenceRow) {
  set_plugin_search({plugin_file}, {});
  install_plugin_kernels();
  const OpEntry& mm = *find_op("aten.mm.default");
  ASSERT_EQ(mm.foreign_kernels().size(), 1u);
  Tensor a = numbers({30, 40}, Dtype::f32), b = numbers({40, 50}, Dtype::f32);
  Value args[] = {Value::of(a), Value::of(b)}, result;
  CallArgs call{&mm, args, &result, 2, 1};
  EXPECT_TRUE(mm.foreign_kernels()[0].run(mm.foreign_kernels()[0].self, call));
  Tensor direct = take<Tensor>(result);
  expect_near(run_reference("aten.mm.default", {args[0], args[1]}), direct, 40);
}

}  // namespace
}  // namespace tenon
