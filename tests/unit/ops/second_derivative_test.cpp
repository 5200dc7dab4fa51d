// Ops whose derivative is a kernel with a decomposition: both say the same, and the second
// derivative is that of the decomposition.
#include "unit/ops/values_of.h"

#include <tenon/autograd.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <limits>

namespace tenon {
namespace {

// Values that are not multiples of each other and lie on no kink.
Tensor wave(IntList sizes, double from, double range) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  Tensor steps = mul(arange(n, Dtype::f64), 2.399963);
  return reshape(add(mul(sin(add(steps, from)), range), 0.017), sizes);
}

// With gradients on, an op without rules runs as its parts; without, as its kernel.
void expect_parts_like_kernel(const std::function<Tensor(const Tensor&)>& backward,
                              const Tensor& grad) {
  std::vector<double> kernel = values_of(backward(grad));
  std::vector<double> parts = values_of(backward(grad.detach().requires_grad_()));
  ASSERT_EQ(kernel.size(), parts.size());
  for (size_t i = 0; i < kernel.size(); ++i)
    EXPECT_NEAR(kernel[i], parts[i], 1e-12) << "element " << i;
}

std::string second_order(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& inputs) {
  return autograd::grad_check(
      [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in)}; }, inputs,
      {.second_order = true});
}

struct Sampling {
  int64_t filter, outside;
  bool align_corners;
};

std::vector<Sampling> samplings() {
  std::vector<Sampling> all;
  for (int64_t filter = 0; filter < 3; ++filter)
    for (int64_t outside = 0; outside < 3; ++outside)
      for (bool align : {false, true}) all.push_back({filter, outside, align});
  return all;
}

TEST(SecondDerivatives, OfSampledImagesHaveTheValuesOfTheKernel) {
  Tensor image = wave({2, 2, 4, 3}, 0.4, 1), grid = wave({2, 3, 2, 2}, 1.1, 1.6);
  for (Sampling s : samplings())
    for (int part : {0, 1})
      expect_parts_like_kernel(
          [&](const Tensor& g) {
            auto [to_image, to_grid] = grid_sampler_2d_backward(g, image, grid, s.filter, s.outside,
                                                                s.align_corners, {true, true});
            return part ? to_grid : to_image;
          },
          wave({2, 2, 3, 2}, 2.3, 1));
}

TEST(SecondDerivatives, OfSampledImagesAgreeWithDifferences) {
  Tensor image = wave({1, 2, 4, 3}, 0.4, 1), grid = wave({1, 2, 2, 2}, 1.1, 1.6);
  for (Sampling s : samplings())
    EXPECT_EQ(second_order(
                  [&](const std::vector<Tensor>& in) {
                    return grid_sampler_2d(in[0], in[1], s.filter, s.outside, s.align_corners);
                  },
                  {image, grid}),
              "")
        << s.filter << s.outside << s.align_corners;
}

TEST(SecondDerivatives, OfSampledVolumesAgreeWithDifferences) {
  EXPECT_EQ(
      second_order(
          [](const std::vector<Tensor>& in) { return grid_sampler_3d(in[0], in[1], 0, 1, false); },
          {wave({1, 1, 3, 2, 3}, 0.4, 1), wave({1, 1, 2, 1, 3}, 1.1, 0.8)}),
      "");
}

TEST(SecondDerivatives, OfDistancesHaveTheValuesOfTheKernel) {
  Tensor a = wave({2, 3, 4}, 0.2, 1), b = wave({5, 4}, 1.2, 1), set = wave({4, 3}, 0.7, 1);
  for (double p : {0.0, 1.0, 1.5, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    Tensor all = cdist(a, b, p), within = pdist(set, p);
    expect_parts_like_kernel([&](const Tensor& g) { return _cdist_backward(g, a, b, p, all); },
                             wave({2, 3, 5}, 2.3, 1));
    expect_parts_like_kernel([&](const Tensor& g) { return _pdist_backward(g, set, p, within); },
                             wave({6}, 2.3, 1));
  }
}

TEST(SecondDerivatives, OfDistancesAgreeWithDifferences) {
  for (double p : {1.0, 1.5, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(second_order([&](const std::vector<Tensor>& in) { return cdist(in[0], in[1], p); },
                           {wave({2, 3}, 0.2, 1), wave({3, 3}, 1.2, 1)}),
              "")
        << p;
    EXPECT_EQ(second_order([&](const std::vector<Tensor>& in) { return pdist(in[0], p); },
                           {wave({3, 3}, 0.2, 1)}),
              "")
        << p;
  }
}

TEST(SecondDerivatives, OfEqualPointsAreNumbers) {
  Tensor x = ones({2, 3}, Dtype::f64).requires_grad_();
  Tensor first =
      autograd::grad({cdist(x, ones({2, 3}, Dtype::f64)).sum()}, {x}, {.create_graph = true})[0];
  Tensor second = autograd::grad({first.sum()}, {x}, {.allow_unused = true})[0];
  if (!second.defined()) return;
  for (double v : values_of(second)) EXPECT_EQ(v, 0.0);
}

class Bags : public ::testing::TestWithParam<int64_t> {
 protected:
  Tensor indices = tensor(std::vector<int64_t>{0, 2, 2, 1, 3, 0}, {6});
  Tensor offsets = tensor(std::vector<int64_t>{0, 2, 2}, {3});
};

TEST_P(Bags, HaveTheValuesOfTheKernel) {
  Tensor table = wave({4, 3}, 0.3, 1);
  for (bool by_count : {false, true})
    for (int64_t padding : {-1, 2}) {
      auto [out, bag_of, sizes, chosen] =
          _embedding_bag(table, indices, offsets, by_count, GetParam(), false, {}, false, padding);
      expect_parts_like_kernel(
          [&](const Tensor& g) {
            return _embedding_bag_backward(g, indices, offsets, bag_of, sizes, chosen, 4, by_count,
                                           GetParam(), false, {}, padding);
          },
          wave({3, 3}, 2.3, 1));
    }
}

TEST_P(Bags, AgreeWithDifferences) {
  bool scaled = GetParam() == 0;
  std::vector<Tensor> inputs{wave({4, 3}, 0.3, 1)};
  if (scaled) inputs.push_back(wave({6}, 1.3, 1));
  EXPECT_EQ(second_order(
                [&](const std::vector<Tensor>& in) {
                  return std::get<0>(_embedding_bag(in[0], indices, offsets, false, GetParam(),
                                                    false, scaled ? in[1] : Tensor()));
                },
                inputs),
            "");
}

INSTANTIATE_TEST_SUITE_P(SecondDerivatives, Bags, ::testing::Values(0, 1, 2));

class Folds : public ::testing::TestWithParam<const char*> {
 protected:
  Tensor lengths = tensor(std::vector<int64_t>{2, 0, 3}, {3});
  Tensor data = wave({5, 2}, 0.3, 1);
};

TEST_P(Folds, HaveTheValuesOfTheKernel) {
  Tensor offsets = tensor(std::vector<int64_t>{1, 3, 4}, {3}), with_zero = data.clone();
  with_zero.select(0, 3).zero_();
  auto both = [&](const Tensor& in, const Tensor& by_length, const Tensor& by_offset) {
    Tensor out = segment_reduce(in, GetParam(), by_length, {}, by_offset);
    expect_parts_like_kernel(
        [&](const Tensor& g) {
          return _segment_reduce_backward(g, out, in, GetParam(), by_length, by_offset);
        },
        wave({out.size(0).guard_int(), 2}, 2.3, 1));
  };
  both(data, lengths, {});
  both(data, {}, offsets);
  both(with_zero, lengths, {});
}

TEST_P(Folds, AgreeWithDifferences) {
  EXPECT_EQ(second_order(
                [&](const std::vector<Tensor>& in) {
                  return segment_reduce(in[0], GetParam(), tensor(std::vector<int64_t>{2, 3}, {2}));
                },
                {data}),
            "");
}

INSTANTIATE_TEST_SUITE_P(SecondDerivatives, Folds,
                         ::testing::Values("sum", "mean", "max", "min", "prod"));

TEST(SecondDerivatives, OfMarginsBetweenLabelsHaveTheValuesOfTheKernel) {
  Tensor scores = wave({2, 4}, 0.3, 1);
  Tensor labels = tensor(std::vector<int64_t>{1, 2, -1, 0, 0, -1, 2, 1}, {2, 4});
  for (int64_t reduction : {0, 1, 2}) {
    auto [loss, is_target] = multilabel_margin_loss_forward(scores, labels, reduction);
    expect_parts_like_kernel(
        [&](const Tensor& g) {
          return multilabel_margin_loss_backward(g, scores, labels, reduction, is_target);
        },
        reduction == 0 ? wave({2}, 2.3, 1) : wave({}, 2.3, 1));
  }
}

}  // namespace
}  // namespace tenon
