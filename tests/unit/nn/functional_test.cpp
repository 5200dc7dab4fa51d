// Functions that are more than one op: values known by hand, and what they refuse.
#include "unit/nn/nn_test.h"

#include <tenon/functional.h>
#include <tenon/threads.h>

namespace tenon {
namespace {

Tensor square_of_four() { return arange(4).to(Dtype::f32).view({1, 1, 2, 2}); }

std::vector<float> numbers_of(const Tensor& t) { return t.to_vector<float>(); }

TEST(Interpolate, GivesWhatPyTorchGives) {
  using ::testing::ElementsAre;
  Tensor x = square_of_four(), row = x.view({1, 1, 4});
  EXPECT_THAT(numbers_of(interpolate(row, {.size = {8}})), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(numbers_of(interpolate(row, {.size = {3}})), ElementsAre(0, 1, 2));
  EXPECT_THAT(numbers_of(interpolate(row, {.size = {3}, .mode = "nearest-exact"})),
              ElementsAre(0, 2, 3));
  EXPECT_THAT(numbers_of(interpolate(row, {.size = {2}, .mode = "area"})), ElementsAre(0.5, 2.5));
  EXPECT_THAT(numbers_of(interpolate(row, {.size = {7}, .mode = "linear", .align_corners = true})),
              ElementsAre(0, 0.5, 1, 1.5, 2, 2.5, 3));
  EXPECT_THAT(numbers_of(interpolate(x, {.size = {2, 4}, .mode = "bilinear"})),
              ElementsAre(0, 0.25, 0.75, 1, 2, 2.25, 2.75, 3));
}

// Of five elements, 0.7 makes three: sampled at 1 / 0.7 apart, or at 5 / 3.
TEST(Interpolate, SamplesByFactorsOrBySizes) {
  using ::testing::ElementsAre;
  Tensor x = arange(5).to(Dtype::f32).view({1, 1, 5});
  EXPECT_THAT(numbers_of(interpolate(x, {.scale_factor = {0.7}})), ElementsAre(0, 1, 2));
  EXPECT_THAT(numbers_of(interpolate(x, {.scale_factor = {0.7}, .recompute_scale_factor = true})),
              ElementsAre(0, 1, 3));
}

TEST(Interpolate, SmoothsWhereItIsAsked) {
  Tensor x = zeros({1, 1, 8, 8});
  x.select(2, 3).fill_(8);
  for (std::string_view mode : {"bilinear", "bicubic"}) {
    Tensor plain = interpolate(x, {.size = {2}, .mode = mode});
    Tensor smooth = interpolate(x, {.size = {2}, .mode = mode, .antialias = true});
    EXPECT_FALSE(allclose(plain, smooth)) << mode;
    EXPECT_NEAR(number_of(smooth.mean()), 8.0 / 7, 0.06) << mode;
  }
}

TEST(Interpolate, RefusesWhatAModeDoesNotTake) {
  auto refused = [](const InterpolateOptions& options) {
    return message_of([&] { interpolate(square_of_four(), options); });
  };
  EXPECT_EQ(refused({}), "interpolate: expected a size or a scale_factor, found none");
  EXPECT_EQ(refused({.size = {2}, .scale_factor = {2.0}}),
            "interpolate: expected a size or a scale_factor, found both");
  EXPECT_EQ(refused({.size = {2, 2, 2}}),
            "interpolate: expected a size or factor for each dimension behind batch and channels, "
            "found 3 for f32[1, 1, 2, 2]");
  EXPECT_EQ(refused({.size = {2}, .mode = "trilinear"}),
            "interpolate: trilinear takes tensors of 5 dimensions, found f32[1, 1, 2, 2]");
  EXPECT_EQ(refused({.size = {2}, .mode = "cubic"}),
            "interpolate: expected nearest, nearest-exact, area, linear, bilinear, bicubic or "
            "trilinear as mode, found cubic");
  EXPECT_EQ(refused({.size = {2}, .align_corners = false}),
            "interpolate: align_corners is not for nearest; leave it out, or choose a linear mode");
  EXPECT_EQ(refused({.size = {2}, .antialias = true}),
            "interpolate: antialias is for bilinear and bicubic, found nearest");
}

TEST(GridSample, LooksWhereTheGridSays) {
  Tensor x = square_of_four();
  Tensor same = tensor({{{1.f, 0.f, 0.f}, {0.f, 1.f, 0.f}}});
  EXPECT_EQ(difference(grid_sample(x, affine_grid(same, x.sizes())), x), "");
  Tensor moved = tensor({{{1.f, 0.f, 1.f}, {0.f, 1.f, 0.f}}});  // by one element
  Tensor grid = affine_grid(moved, x.sizes());
  EXPECT_THAT(numbers_of(grid_sample(x, grid, "nearest")), ::testing::ElementsAre(1, 0, 3, 0));
  EXPECT_THAT(numbers_of(grid_sample(x, grid, "bilinear", "border")),
              ::testing::ElementsAre(1, 1, 3, 3));
  EXPECT_EQ(message_of([&] { grid_sample(x, grid, "linear"); }),
            "grid_sample: expected bilinear, nearest or bicubic as mode, found linear");
  EXPECT_EQ(message_of([&] { grid_sample(x, grid, "nearest", "reflect"); }),
            "grid_sample: expected zeros, border or reflection as padding_mode, found reflect");
}

TEST(Unique, GivesPlacesAndCounts) {
  using ::testing::ElementsAre;
  Tensor labels = tensor({3, 1, 3, 2, 1});
  EXPECT_THAT(unique(labels).to_vector<int64_t>(), ElementsAre(1, 2, 3));
  auto [values, places, counts] = unique(labels, true, true, true);
  EXPECT_TRUE(values.index_select(0, places).equal(labels));
  EXPECT_THAT(counts.to_vector<int64_t>(), ElementsAre(2, 1, 2));
  auto [rows, place, count] = unique(tensor({{1, 2}, {3, 4}, {1, 2}}), true, true, true, 0);
  EXPECT_TRUE(rows.equal(tensor({{1, 2}, {3, 4}})));
  EXPECT_THAT(place.to_vector<int64_t>(), ElementsAre(0, 1, 0));
  EXPECT_THAT(count.to_vector<int64_t>(), ElementsAre(2, 1));
}

TEST(AllClose, TakesTolerancesAndNaN) {
  Tensor a = tensor({1.f, std::nanf("")}), b = tensor({1.001f, std::nanf("")});
  EXPECT_FALSE(allclose(a, b, 1e-2));
  EXPECT_TRUE(allclose(a, b, 1e-2, 0, /*equal_nan=*/true));
  EXPECT_FALSE(allclose(a, b, 1e-4, 0, true));
}

TEST(BytesOfTensors, CountElements) {
  Tensor x = ones({3, 4}, Dtype::f16);
  EXPECT_EQ(element_size(x), 2);
  EXPECT_EQ(nbytes(x), 24);
  EXPECT_FALSE(is_cuda(x));
}

TEST(NumberOfThreads, IsTheFlag) {
  int before = get_num_threads();
  set_num_threads(int64_t{3});
  EXPECT_EQ(get_num_threads(), 3);
  set_num_threads(int64_t{before});
  EXPECT_EQ(get_num_threads(), before);
  EXPECT_EQ(message_of([] { set_num_threads(int64_t{0}); }),
            "set_num_threads: expected 1 to 1023 threads, found 0");
}

}  // namespace
}  // namespace tenon
