// Autocast: policies, what is kept, and how it meets gradients and compiled functions.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

namespace tenon {
namespace {

Tensor wave(std::initializer_list<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return arange(n).to(Dtype::f32).mul(0.37).sin().reshape(IntList(sizes));
}

TEST(Autocast, ProductsComputeInTheLowerType) {
  Tensor a = wave({3, 4}), b = wave({4, 2});
  AutocastGuard guard;
  Tensor c = a.matmul(b);
  EXPECT_EQ(c.dtype(), Dtype::bf16);
  EXPECT_TRUE(c.equal(a.to(Dtype::bf16).matmul(b.to(Dtype::bf16))));
}

TEST(Autocast, LossesComputeInF32AndOthersInTheirOwnType) {
  Tensor a = wave({3, 4}).to(Dtype::bf16);
  AutocastGuard guard;
  EXPECT_EQ(mse_loss(a, a.neg()).dtype(), Dtype::f32);
  EXPECT_EQ(a.add(a).dtype(), Dtype::bf16);
  EXPECT_EQ(a.to(Dtype::f32).exp().dtype(), Dtype::f32);
}

TEST(Autocast, CatTakesTheWidestType) {
  Tensor wide = wave({3}), narrow = wide.to(Dtype::bf16);
  AutocastGuard guard;
  EXPECT_EQ(cat({narrow, wide}).dtype(), Dtype::f32);
  EXPECT_EQ(cat({narrow, narrow}).dtype(), Dtype::bf16);
}

TEST(Autocast, DoublesAndIntegersStay) {
  Tensor a = wave({2, 2}).to(Dtype::f64), i = arange(4).reshape({2, 2});
  AutocastGuard guard;
  EXPECT_EQ(a.matmul(a).dtype(), Dtype::f64);
  EXPECT_EQ(i.matmul(i).dtype(), Dtype::i64);
}

TEST(Autocast, GuardsNestAndEnd) {
  Tensor a = wave({2, 2});
  EXPECT_FALSE(is_autocast_enabled());
  {
    AutocastGuard outer({.dtype = Dtype::f16});
    EXPECT_EQ(a.mm(a).dtype(), Dtype::f16);
    {
      AutocastGuard off({.enabled = false});
      EXPECT_FALSE(is_autocast_enabled());
      EXPECT_EQ(a.mm(a).dtype(), Dtype::f32);
    }
    EXPECT_EQ(autocast_dtype(), Dtype::f16);
    EXPECT_EQ(a.mm(a).dtype(), Dtype::f16);
  }
  EXPECT_EQ(a.mm(a).dtype(), Dtype::f32);
}

TEST(Autocast, InPlaceFormsAreNotCast) {
  Tensor a = wave({2, 2}), sum = a.clone();
  AutocastGuard guard;
  EXPECT_EQ(sum.addmm_(a, a).dtype(), Dtype::f32);
}

TEST(Autocast, OtherTypesAreRefused) {
  try {
    AutocastGuard guard({.dtype = Dtype::f64});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "autocast: expected dtype bf16 or f16, found f64");
  }
  EXPECT_FALSE(is_autocast_enabled());
}

TEST(Autocast, GradientsHaveTheTypesOfTheLeaves) {
  Tensor x = wave({3, 4}), w = wave({4, 2}).requires_grad_();
  Tensor loss;
  {
    AutocastGuard guard;
    loss = mse_loss(x.matmul(w), ones({3, 2}));
  }
  loss.backward();
  EXPECT_EQ(w.grad().dtype(), Dtype::f32);
  Tensor v = w.detach().clone().requires_grad_();
  mse_loss(x.to(Dtype::bf16).matmul(v.to(Dtype::bf16)).to(Dtype::f32), ones({3, 2})).backward();
  EXPECT_TRUE(w.grad().equal(v.grad()));
}

// Two uses of one cast meet in the lower type.
TEST(Autocast, ALeafIsCastOnceInAGuard) {
  Tensor x = wave({2, 2}), w = wave({2, 2}).requires_grad_();
  auto gradient = [&](bool keep) {
    w.set_grad({});
    {
      AutocastGuard guard({.cache_enabled = keep});
      x.mm(w).add(x.neg().mm(w).mul(0.3)).sum().backward();
    }
    return w.grad();
  };
  Tensor cast = w.detach().to(Dtype::bf16).requires_grad_();
  Tensor low = x.to(Dtype::bf16);
  low.mm(cast).add(low.neg().mm(cast).mul(0.3)).sum().backward();
  EXPECT_TRUE(gradient(true).equal(cast.grad().to(Dtype::f32)));
  Tensor apart = gradient(false).sub(cast.grad().to(Dtype::f32)).abs().amax();
  EXPECT_LT(apart.item<float>(), 0.05f);
}

TEST(Autocast, AKeptCastServesSeveralBackwardPasses) {
  Tensor x = wave({2, 2}), w = wave({2, 2}).requires_grad_();
  AutocastGuard guard;
  x.mm(w).sum().backward();
  Tensor once = w.grad().clone();
  x.mm(w).sum().backward();
  EXPECT_TRUE(w.grad().equal(once.mul(2)));
}

TEST(Autocast, AWrittenLeafIsCastAnew) {
  Tensor x = eye(2), w = wave({2, 2}).requires_grad_();
  AutocastGuard guard;
  Tensor before = x.mm(w);
  {
    NoGradGuard no_grad;
    w.mul_(2);
  }
  EXPECT_TRUE(x.mm(w).equal(before.mul(2)));
}

TEST(Autocast, ACastMadeWithoutGradientsIsMadeAnewWithThem) {
  Tensor x = wave({2, 2}), w = wave({2, 2}).requires_grad_();
  AutocastGuard guard;
  {
    NoGradGuard no_grad;
    x.mm(w);
  }
  x.mm(w).sum().backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(Autocast, CheckpointRunsAgainAsTheFirstTime) {
  Tensor x = wave({2, 2}), w = wave({2, 2}).requires_grad_();
  auto f = [&](const std::vector<Tensor>& in) { return std::vector{in[0].mm(w).sin().mm(w)}; };
  Tensor y;
  {
    AutocastGuard guard({.cache_enabled = false});
    y = autograd::checkpoint(f, {x})[0];
  }
  y.sum().backward();
  Tensor recomputed = w.grad();
  w.set_grad({});
  {
    AutocastGuard guard({.cache_enabled = false});
    y = f({x})[0];
  }
  y.sum().backward();
  EXPECT_TRUE(w.grad().equal(recomputed));
}

TEST(Autocast, CompiledFunctionsCastAsEagerOnes) {
  auto body = [](const Tensor& x, const Tensor& w) { return x.matmul(w).relu().add(1); };
  Tensor x = wave({3, 4}), w = wave({4, 2});
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile(body, {.backend = backend});
    EXPECT_TRUE(f(x, w).equal(body(x, w))) << backend;
    AutocastGuard guard;
    EXPECT_EQ(f(x, w).dtype(), Dtype::bf16) << backend;
    EXPECT_TRUE(f(x, w).equal(body(x, w))) << backend;
  }
}

TEST(Autocast, AChangeCompilesAnew) {
  auto f = compile([](const Tensor& x) { return x.mm(x); }, {.backend = "eager"});
  Tensor x = wave({2, 2});
  f(x);
  EXPECT_EQ(f.stats().compiles, 1u);
  {
    AutocastGuard guard;
    f(x);
    f(x);
    EXPECT_EQ(f.stats().compiles, 2u);
  }
  AutocastGuard half({.dtype = Dtype::f16});
  EXPECT_EQ(f(x).dtype(), Dtype::f16);
  EXPECT_EQ(f.stats().compiles, 3u);
}

TEST(Autocast, ACompiledFunctionMayHoldARegion) {
  auto body = [](const Tensor& x) {
    Tensor low;
    {
      AutocastGuard guard;
      low = x.mm(x);
    }
    return low.to(Dtype::f32).mm(x);
  };
  Tensor x = wave({3, 3});
  auto f = compile(body, {.backend = "eager"});
  EXPECT_TRUE(f(x).equal(body(x)));
  EXPECT_TRUE(f(x).equal(body(x)));
  EXPECT_FALSE(is_autocast_enabled());
}

}  // namespace
}  // namespace tenon
