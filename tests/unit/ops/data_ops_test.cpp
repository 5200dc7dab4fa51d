// What recordings cannot show of views, copies, indexing and reductions: sharing, overlap, errors,
// run-time sizes, and results that do not depend on threads.
#include "core/random.h"
#include "core/sym/shape_env.h"
#include "core/threads/thread_pool.h"
#include "graph/record.h"
#include "ops/kernel_loops.h"
#include "ops/op_table.h"

#include <tenon/ops.h>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

template <class T>
std::vector<T> values(const Tensor& t) {
  Tensor dense = contiguous_of(t);
  return {data_of<T>(dense), data_of<T>(dense) + numel_of(dense)};
}
std::vector<float> floats(const Tensor& t) { return values<float>(t); }

TEST(ViewOps, ShareTheStorageOfTheirBase) {
  Tensor x = arange(6, Dtype::f32);
  for (const Tensor& v :
       {view(x, {2, 3}), slice(x, 0, 1, 4), reshape(x, {3, 2}), expand(x, {2, 6})})
    EXPECT_TRUE(shares_storage(x, v));
  EXPECT_FALSE(shares_storage(x, view_copy(x, {2, 3})));
}

TEST(ViewOps, ReshapeCopiesOnlyWhereNoStridesFit) {
  Tensor x = view(arange(6, Dtype::f32), {2, 3});
  EXPECT_TRUE(shares_storage(x, reshape(x, {6})));
  Tensor flat = reshape(t(x), {6});
  EXPECT_FALSE(shares_storage(x, flat));
  EXPECT_THAT(floats(flat), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ViewOps, RefuseShapesThatDoNotFit) {
  Tensor x = arange(6, Dtype::f32);
  EXPECT_THAT([&] { view(x, {4}); }, ThrowsMessage<UserError>(HasSubstr("has 4 elements")));
  EXPECT_THAT(
      [&] {
        view(t(view(x, {2, 3})), {6});
      },
      ThrowsMessage<UserError>(HasSubstr("use reshape")));
  EXPECT_THAT([&] { expand(x, {2, 5}); }, ThrowsMessage<UserError>(HasSubstr("does not expand")));
  EXPECT_THAT([&] { as_strided(x, {4}, {2}); },
              ThrowsMessage<UserError>(HasSubstr("lies outside")));
  EXPECT_THAT([&] { select(x, 0, 6); }, ThrowsMessage<UserError>(HasSubstr("out of range")));
}

TEST(ViewOps, InPlaceFormsChangeTheTensorItself) {
  Tensor x = view(arange(6, Dtype::f32), {2, 3});
  transpose_(x, 0, 1);
  EXPECT_EQ(to_text(x.sizes()), "[3, 2]");
  EXPECT_EQ(x.stride(0).word(), 1);
}

TEST(CopyOps, ReadBeforeTheyWriteWhereSourceAndTargetOverlap) {
  Tensor x = arange(5, Dtype::f32);
  copy_(slice(x, 0, 1, 5), slice(x, 0, 0, 4));
  EXPECT_THAT(floats(x), ElementsAre(0, 0, 1, 2, 3));
}

TEST(CopyOps, RefuseATargetThatRepeatsElements) {
  Tensor x = expand(zeros({1}), {3});
  EXPECT_THAT([&] { copy_(x, ones({3})); }, ThrowsMessage<UserError>(HasSubstr("share memory")));
}

TEST(CopyOps, ToGivesTheSameTensorWhereNothingChanges) {
  Tensor x = zeros({2});
  EXPECT_TRUE(to(x, Dtype::f32).is_same(x));
  EXPECT_FALSE(to(x, Dtype::f32, false, true).is_same(x));
  EXPECT_EQ(to(x, Dtype::i8).dtype(), Dtype::i8);
}

TEST(IndexOps, NameTheIndexThatIsOutOfRange) {
  Tensor x = zeros({3, 2}), bad = tensor<int64_t>({0, 3});
  EXPECT_THAT([&] { index_select(x, 0, bad); }, ThrowsMessage<UserError>(HasSubstr("index 3")));
  EXPECT_THAT([&] { embedding(x, bad); }, ThrowsMessage<UserError>(HasSubstr("index 3")));
  EXPECT_THAT([&] { index(x, std::vector<Tensor>{bad}); },
              ThrowsMessage<UserError>(HasSubstr("index 3")));
}

TEST(IndexOps, PutInPlaceReadsValuesThatOverlapTheTarget) {
  Tensor x = arange(4, Dtype::f32);
  index_put_(x, std::vector<Tensor>{tensor<int64_t>({0, 1, 2})}, slice(x, 0, 1, 4));
  EXPECT_THAT(floats(x), ElementsAre(1, 2, 3, 3));
}

TEST(IndexOps, NonzeroOfAFakeHasASizeOfRunTime) {
  auto env = ShapeEnv::make();
  ShapeEnvScope scope(*env);
  Tensor fake = make_fake(contiguous_meta({SymInt(4)}, Dtype::f32));
  Tensor positions = nonzero(fake);
  ASSERT_TRUE(positions.size(0).is_symbolic());
  EXPECT_FALSE(env->int_hint(positions.size(0)).has_value());
  Tensor rows = index_select(fake, 0, select(positions, 1, 0));
  EXPECT_EQ(rows.size(0).word(), positions.size(0).word());
  Tensor part = slice(rows, 0, 0, 3);
  EXPECT_TRUE(part.size(0).is_symbolic());
}

TEST(ReduceOps, LargeSumsDoNotDependOnTheNumberOfThreads) {
  manual_seed(7);
  Tensor x = randn({300'001});
  int threads = num_threads();
  double expected = item(sum(x)).to_double();
  set_num_threads(3);
  double found = item(sum(x)).to_double();
  set_num_threads(threads);
  EXPECT_EQ(found, expected);
}

TEST(ReduceOps, ExtremesOfNothingAreRefused) {
  EXPECT_THAT(
      [] {
        amax(zeros({0, 3}), {0});
      },
      ThrowsMessage<UserError>(HasSubstr("has no extreme")));
  EXPECT_EQ(floats(sum(zeros({0, 3})))[0], 0);
}

TEST(ReduceOps, NanIsTheMaximumAndItsFirstPlaceIsFound) {
  Tensor x = tensor<float>({1, NAN, 5, NAN});
  EXPECT_TRUE(std::isnan(floats(amax(x))[0]));
  EXPECT_EQ(values<int64_t>(argmax(x))[0], 1);
}

TEST(RandomOps, RepeatForASeedAndDifferBetweenCalls) {
  manual_seed(1);
  Tensor a = rand({100}), b = rand({100});
  manual_seed(1);
  Tensor c = rand({100});
  EXPECT_EQ(floats(a), floats(c));
  EXPECT_NE(floats(a), floats(b));
}

TEST(RandomOps, HaveTheMomentsOfTheirDistributions) {
  manual_seed(2);
  constexpr int64_t n = 200'000;
  auto mean_of = [](const Tensor& t) { return item(mean(to(t, Dtype::f64))).to_double(); };
  auto var_of = [](const Tensor& t) { return item(var(to(t, Dtype::f64))).to_double(); };
  Tensor normal = randn({n}), uniform = rand({n}), integers = randint(10, {n});
  EXPECT_NEAR(mean_of(normal), 0, 0.01);
  EXPECT_NEAR(var_of(normal), 1, 0.02);
  EXPECT_NEAR(mean_of(uniform), 0.5, 0.005);
  EXPECT_NEAR(var_of(uniform), 1.0 / 12, 0.002);
  EXPECT_NEAR(mean_of(integers), 4.5, 0.05);
  EXPECT_EQ(item(amax(integers)).to_int(), 9);
  EXPECT_EQ(item(sum(sub(std::get<0>(sort(randperm(1000))), arange(1000)))).to_int(), 0);
}

TEST(RandomOps, DropoutScalesWhatItKeeps) {
  manual_seed(3);
  auto [out, mask] = native_dropout(ones({10'000}), 0.25, true);
  EXPECT_NEAR(item(mean(out)).to_double(), 1, 0.03);
  EXPECT_NEAR(item(mean(to(mask, Dtype::f32))).to_double(), 0.75, 0.02);
  Tensor x = ones({4});
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
}

TEST(KernelLoops, WalksMergeDimensionsThatLieDense) {
  Tensor x = make_tensor(IntList{4, 5, 6}, Dtype::f32);
  Walk<1> dense, cut;
  add_dims<1>(dense, sizes_of(x), {strides_of(x)});
  EXPECT_EQ(dense.sizes.size(), 1u);
  Tensor part = slice(x, 2, 0, 3);
  add_dims<1>(cut, sizes_of(part), {strides_of(part)});
  EXPECT_EQ(cut.sizes.size(), 2u);
  int64_t rows = 0;
  for_each_row(cut, [&](const Offsets<1>& at, int64_t n, const Offsets<1>&) {
    EXPECT_EQ(at[0], 6 * rows);
    EXPECT_EQ(n, 3);
    ++rows;
  });
  EXPECT_EQ(rows, 20);
}

TEST(Histograms, OfPointsCountByCells) {
  Tensor points = view(arange(8, Dtype::f64), {4, 2});  // (0,1) (2,3) (4,5) (6,7)
  auto [counts, edges] = histogramdd(points, {2, 3}, OptDoubleList{0.0, 4.0, 0.0, 6.0});
  EXPECT_THAT(values<double>(counts), ElementsAre(1, 0, 0, 0, 1, 1));
  ASSERT_EQ(edges.size(), 2u);
  EXPECT_THAT(values<double>(edges[1]), ElementsAre(0, 2, 4, 6));
}

TEST(Histograms, OfPointsDivideByTotalAndVolumes) {
  Tensor points = view(arange(8, Dtype::f64), {4, 2});
  auto [density, edges] = histogramdd(points, 1, {}, {}, true);
  EXPECT_THAT(values<double>(density), ElementsAre(1.0 / 36));
  EXPECT_THAT(
      [&] {
        histogramdd(points, {1, 1}, OptDoubleList{0.0, 1.0});
      },
      ThrowsMessage<UserError>(HasSubstr("two ends for each of 2 coordinates, found 2")));
  EXPECT_THAT(
      [&] {
        histogramdd(points, {1, 1, 1});
      },
      ThrowsMessage<UserError>(HasSubstr("bins for each coordinate")));
}

TEST(Histograms, OfPointsAreRecordedAsTheirParts) {
  GraphRecorder recorder(ShapeEnv::make());
  Tensor points = recorder.add_input(contiguous_meta({5, 2}, Dtype::f32));
  RecordScope scope(recorder);
  auto [counts, edges] = histogramdd(points, {2, 3});
  std::vector<Tensor> results{counts, edges[0], edges[1]};
  auto graph = recorder.finish(results);
  std::vector<std::string> ops;
  for (const Node& node : graph->nodes()) ops.push_back(entry_of(node.op).name);
  EXPECT_THAT(ops, ElementsAre("aten._histogramdd_from_bin_cts.default",
                               "aten._histogramdd_bin_edges.default"));
}

TEST(Scatters, AnExpandedIndexServesAsItsCopyDoes) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::i64}) {
    Tensor self = to(mul(randn({6, 40}), 4), dtype), source = to(mul(randn({90, 40}), 4), dtype);
    Tensor index = expand(remainder(arange(90, Dtype::i64), 5).unsqueeze(1), {90, 40});
    for (const char* fold : {"sum", "prod", "mean", "amax", "amin"})
      for (bool include_self : {true, false}) {
        auto folded = [&](const Tensor& places, const Tensor& values) {
          return scatter_reduce(self, 0, places, values, fold, include_self);
        };
        Tensor found = folded(index, source);
        EXPECT_TRUE(equal(found, folded(clone(index, MemoryFormat::contiguous), source))) << fold;
        Tensor turned = transpose(clone(transpose(source, 0, 1), MemoryFormat::contiguous), 0, 1);
        EXPECT_TRUE(equal(found, folded(index, turned))) << fold;
      }
  }
  // What is not included is replaced, its sign of zero and NaN as well.
  Tensor nan = full({2, 1}, NAN), zero = full({1, 1}, -0.0), at = zeros({1, 1}, Dtype::i64);
  for (const char* fold : {"sum", "prod", "mean", "amax", "amin"}) {
    std::vector<float> found = floats(scatter_reduce(nan, 0, at, zero, fold, false));
    EXPECT_TRUE(found[0] == 0 && std::signbit(found[0]) && std::isnan(found[1])) << fold;
  }
}

TEST(Masks, ChooseTheSameWhateverTheStrides) {
  Tensor x = randn({37, 53}), mask = gt(randn({37, 53}), 0.0);
  auto turned = [](const Tensor& t) {
    return transpose(clone(transpose(t, 0, 1), MemoryFormat::contiguous), 0, 1);
  };
  Tensor chosen = masked_select(x, mask), places = nonzero(mask);
  EXPECT_TRUE(equal(chosen, masked_select(turned(x), turned(mask))));
  EXPECT_TRUE(equal(chosen, index(x, {mask})));
  EXPECT_TRUE(equal(chosen, index(x, {select(places, 1, 0), select(places, 1, 1)})));
  EXPECT_TRUE(equal(places, nonzero(turned(mask))));
  EXPECT_TRUE(equal(chosen, masked_select(x.unsqueeze(0), mask)));
  EXPECT_THAT([&] { index(x, {slice(mask, 0, 0, 36)}); },
              ThrowsMessage<UserError>(HasSubstr("does not fit")));
}

TEST(Distinct, ValuesAreInOrderWithTheirPlacesAndCounts) {
  Tensor x = remainder(mul(arange(1000, Dtype::i64), 7919), 31).reshape({10, 100});
  auto [kinds, places, counts] = _unique2(x, true, true, true);
  EXPECT_TRUE(equal(kinds, arange(31, Dtype::i64)));
  EXPECT_TRUE(equal(index(kinds, {places}), x));
  EXPECT_TRUE(equal(counts, bincount(x.flatten())));
  // Zeros are one, NaNs are not, and lie last.
  Tensor odd = to(stack(std::vector<Tensor>{full({}, NAN), full({}, 0.0), full({}, -0.0),
                                            full({}, NAN), full({}, -1.0)}),
                  Dtype::f32);
  auto [some, at, met] = _unique2(odd, true, true, true);
  EXPECT_THAT(values<int64_t>(at), ElementsAre(2, 1, 1, 3, 0));
  EXPECT_THAT(values<int64_t>(met), ElementsAre(1, 2, 1, 1));
}

TEST(GridSampler, InnerPositionsAreReadAsThoseOfAVolumeAre) {
  Tensor x = randn({2, 3, 6, 5}), grid = mul(sub(rand({2, 4, 7, 2}), 0.5), 2.4);
  Tensor flat = cat(std::vector<Tensor>{grid, zeros({2, 4, 7, 1})}, -1).unsqueeze(1);
  for (int64_t outside : {0, 1, 2})
    for (bool align_corners : {false, true}) {
      Tensor plane = grid_sampler_2d(x, grid, 0, outside, align_corners),
             volume = grid_sampler_3d(x.unsqueeze(2), flat, 0, outside, align_corners);
      EXPECT_LE(floats(amax(abs(sub(plane, volume.squeeze(2)))))[0], 1e-5);
    }
}

TEST(Gradients, TakeOneSpacingForEachDimension) {
  Tensor x = view(arange(9, Dtype::f64), {3, 3});
  std::vector<Tensor> slopes = gradient(x, DoubleList{2.0, 0.5}, std::nullopt);
  EXPECT_THAT(values<double>(slopes[0]), testing::Each(1.5));
  EXPECT_THAT(values<double>(slopes[1]), testing::Each(2.0));
  EXPECT_THAT([&] { gradient(x, DoubleList{2.0}, std::nullopt); },
              ThrowsMessage<UserError>(HasSubstr("one spacing for each of 2 dimensions")));
}

}  // namespace
}  // namespace tenon
