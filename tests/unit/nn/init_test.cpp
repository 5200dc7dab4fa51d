// Initialisers: bounds, spread and shape of what they fill in.
#include "unit/nn/nn_test.h"

#include <cmath>

namespace tenon {
namespace {

namespace init = nn::init;

double std_of(const Tensor& t) { return std::sqrt(number_of((t * t).mean())); }
double largest(const Tensor& t) { return number_of(t.abs().max()); }

// 30 outputs of 20 inputs of 3 x 3: fans of 180 and 270.
Tensor weight() { return empty({30, 20, 3, 3}); }

TEST(Fans, CountTheFieldOfAConvolution) {
  init::Fans fans = init::fans_of(weight());
  EXPECT_EQ(fans.in, 180);
  EXPECT_EQ(fans.out, 270);
  EXPECT_THAT(message_of([] { init::fans_of(ones({3})); }),
              ::testing::HasSubstr("expected a weight of two dimensions or more, found f32[3]"));
}

TEST(Initialisers, HaveTheSpreadOfTheirFormulas) {
  manual_seed(5);
  Tensor t = weight();
  init::xavier_uniform_(t);
  EXPECT_NEAR(std_of(t), std::sqrt(2.0 / 450), 0.002);
  EXPECT_LE(largest(t), std::sqrt(6.0 / 450));
  init::xavier_normal_(t, 2);
  EXPECT_NEAR(std_of(t), 2 * std::sqrt(2.0 / 450), 0.003);
  init::kaiming_uniform_(t, {.a = std::sqrt(5.0)});
  EXPECT_LE(largest(t), 1 / std::sqrt(180.0) + 1e-6);
  EXPECT_GE(largest(t), 0.99 / std::sqrt(180.0));
  init::kaiming_normal_(t,
                        {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
  EXPECT_NEAR(std_of(t), std::sqrt(2.0 / 270), 0.002);
  init::normal_(t, 0, 0.3);
  EXPECT_NEAR(std_of(t), 0.3, 0.01);
  init::uniform_(t, -0.5, 0.5);
  EXPECT_NEAR(std_of(t), 0.5 / std::sqrt(3.0), 0.01);
  init::constant_(t, 0.25);
  EXPECT_EQ(largest(t - 0.25), 0);
}

TEST(TruncNormal, StaysInItsBounds) {
  manual_seed(5);
  Tensor t = empty({4000});
  init::trunc_normal_(t, 0, 1, -1, 0.5);
  EXPECT_LE(number_of(t.max()), 0.5);
  EXPECT_GE(number_of(t.min()), -1);
  // The mean of a normal distribution between these bounds.
  EXPECT_NEAR(number_of(t.mean()), -0.2066, 0.02);
}

TEST(Orthogonal, RowsOrColumnsAreOrthonormal) {
  manual_seed(5);
  for (auto [rows, columns] : {std::pair{3, 5}, std::pair{5, 3}}) {
    Tensor t = empty({rows, columns});
    init::orthogonal_(t, 2);
    Tensor product = rows < columns ? t.matmul(t.t()) : t.t().matmul(t);
    EXPECT_LT(largest(product - eye(3) * 4), 1e-5) << rows;
  }
}

TEST(Layers, BeginWithPyTorchsBounds) {
  manual_seed(5);
  nn::Linear linear(100, 50);
  EXPECT_LE(largest(linear.weight), 0.1F);
  EXPECT_GE(largest(linear.weight), 0.099);
  EXPECT_LE(largest(linear.bias), 0.1F);
  nn::GRU gru(3, 25);
  for (const Tensor& p : gru.parameters()) EXPECT_LE(largest(p), 0.2F);
  nn::Embedding embedding(500, 20, {.padding_idx = 1});
  EXPECT_NEAR(std_of(embedding.weight), 1, 0.03);
  EXPECT_EQ(largest(embedding.weight.select(0, 1)), 0);
}

TEST(Seeds, DecideTheParameters) {
  manual_seed(7);
  nn::Linear a(3, 4);
  manual_seed(7);
  nn::Linear b(3, 4), c(3, 4);
  EXPECT_TRUE(equal(a.weight, b.weight));
  EXPECT_FALSE(equal(a.weight, c.weight));
}

}  // namespace
}  // namespace tenon
