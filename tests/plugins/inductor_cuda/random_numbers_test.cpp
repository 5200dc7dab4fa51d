// Random numbers on a device are those of the CPU: eagerly, compiled, and in training.
#include "needs_gpu.h"
#include "report/events.h"

#include <tenon/devices.h>
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr Device gpu(DeviceType::cuda);

class GpuRandom : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_A_GPU(); }
};

int64_t compiles() {
  static report::Counter& compiled = report::counter("device.single_op_compiles");
  return static_cast<int64_t>(compiled.value());
}

std::vector<double> numbers(const Tensor& t) {
  return t.to(kCPU, t.dtype()).to(Dtype::f64).to_vector<double>();
}

/// How far results may be apart: not at all, or one unit of the last place of f32.
enum class Same { exactly, nearly };

void expect_same(const Tensor& there, const Tensor& here, Same how, const std::string& what) {
  ASSERT_EQ(there.dtype(), here.dtype()) << what;
  ASSERT_TRUE(there.sizes() == here.sizes()) << what;
  std::vector<double> a = numbers(there), b = numbers(here);
  size_t n_wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double unit = std::ldexp(1.0, std::ilogb(b[i] == 0 ? 1e-30 : b[i]) - 23);
    double allowed = how == Same::exactly         ? 0
                     : here.dtype() == Dtype::f32 ? unit
                     : here.dtype() == Dtype::f64 ? std::fabs(b[i]) * 1e-13 + 1e-15
                                                  : std::fabs(b[i]) * 0x1p-7;
    if (std::fabs(a[i] - b[i]) > allowed && n_wrong++ < 3)
      ADD_FAILURE() << what << ": element " << i << " is " << a[i] << ", on the CPU " << b[i];
  }
}

using Draw = std::function<Tensor(Device)>;

/// Draws twice on each device from the same seed; the generator has to stand at the same place.
void expect_same_draws(const std::string& what, const Draw& draw, Same how = Same::exactly) {
  SCOPED_TRACE(what);
  manual_seed(17);
  Tensor here = draw(kCPU), next = draw(kCPU);
  RngState after = rng_state();
  manual_seed(17);
  Tensor there = draw(gpu), there_next = draw(gpu);
  EXPECT_EQ(rng_state(), after);
  ASSERT_EQ(there.device(), gpu);
  expect_same(there, here, how, what);
  expect_same(there_next, next, how, what + " again");
}

Tensor empty_on(Device device, List<SymInt> sizes, Dtype dtype) {
  return zeros(sizes, dtype).to(device, dtype);
}

TEST_F(GpuRandom, EagerDrawsAreThoseOfTheCpu) {
  int64_t before = compiles();
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16})
    for (int64_t n : {1, 3, 5, 64, 257}) {
      std::string name = " of " + std::to_string(n) + " " + to_text(dtype);
      auto of = [&](auto f) { return [=](Device d) { return f(empty_on(d, {n, 7}, dtype)); }; };
      expect_same_draws("rand_like" + name, of([](Tensor t) { return rand_like(t); }));
      expect_same_draws("randn_like" + name, of([](Tensor t) { return randn_like(t); }),
                        Same::nearly);
      expect_same_draws("uniform_" + name, of([](Tensor t) { return uniform_(t, -0.37, 2.9); }));
      expect_same_draws("normal_" + name, of([](Tensor t) { return normal_(t, 3, 0.2); }),
                        Same::nearly);
      expect_same_draws("bernoulli_" + name, of([](Tensor t) { return bernoulli_(t, 0.3); }));
      expect_same_draws("bernoulli" + name, of([](Tensor t) { return bernoulli(t + 0.4); }));
      expect_same_draws("random_" + name, of([](Tensor t) { return random_(t, -5, 90); }));
      expect_same_draws("dropout" + name, of([](Tensor t) { return dropout(t + 1.7, 0.3, true); }));
      expect_same_draws("transposed" + name, of([](Tensor t) { return uniform_(t.t(), 0, 1); }));
    }
  EXPECT_GT(compiles(), before + 30);  // code of the device, not copies
}

TEST_F(GpuRandom, TensorsAreMadeOnTheDevice) {
  for (int64_t n : {0, 1, 6, 1000}) {
    std::string name = " " + std::to_string(n);
    expect_same_draws("rand" + name, [&](Device d) { return rand({n, 3}, Dtype::f32, {}, d); });
    expect_same_draws(
        "randn" + name,
        [&](Device d) {
          return randn({n, 3}, Dtype::f32, {}, d);
        },
        Same::nearly);
    expect_same_draws("randint" + name, [&](Device d) {
      return randint(-7, 1 << 20, {n, 3}, Dtype::i64, {}, d);
    });
    expect_same_draws("randperm" + name, [&](Device d) { return randperm(n, Dtype::i64, {}, d); });
  }
}

TEST_F(GpuRandom, IntegersOfAllDtypes) {
  for (Dtype dtype : {Dtype::u8, Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64, Dtype::bool_}) {
    auto filled = [&](Device d) { return random_(empty_on(d, {9, 13}, dtype)); };
    expect_same_draws("random_ " + to_text(dtype), filled);
  }
}

TEST_F(GpuRandom, CompiledFunctionsReserveInTheOrderOfTheGraph) {
  auto f = [](const Tensor& x, const Tensor& w) {
    Tensor kept = dropout(x, 0.25, true);
    Tensor noise = rand_like(w) * 0.5;
    Tensor last = dropout(kept.matmul(w + noise).relu(), 0.5, true);
    return last + uniform(x.narrow(1, 0, 1), -1, 1);
  };
  auto compiled = compile(f);
  for (int64_t rows : {6, 33, 70}) {
    manual_seed(5);
    Tensor x = randn({rows, 12}), w = randn({12, 20});
    Tensor first = f(x, w), second = f(x, w);
    RngState after = rng_state();
    manual_seed(5);
    Tensor x_there = randn({rows, 12}).to(gpu, x.dtype()),
           w_there = randn({12, 20}).to(gpu, w.dtype());
    Tensor found = compiled(x_there, w_there), next = compiled(x_there, w_there);
    EXPECT_EQ(rng_state(), after);
    for (auto& [a, b] : {std::pair(found, first), std::pair(next, second)}) {
      std::vector<double> p = numbers(a), q = numbers(b);
      for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], q[i], 1e-4) << rows << " " << i;
    }
  }
}

// An op that the host runs draws when it is reached: then all of the graph's do.
TEST_F(GpuRandom, DrawsOfTheHostStayInOrder) {
  auto f = [](const Tensor& x) {
    Tensor a = rand_like(x), order = randperm(x.size(0), Dtype::i64, {}, x.device());
    return (a + rand_like(x)).index_select(0, order);
  };
  auto compiled = compile(f);
  manual_seed(11);
  Tensor here = f(zeros({40, 3}));
  RngState after = rng_state();
  manual_seed(11);
  Tensor there = compiled(zeros({40, 3}).to(gpu, Dtype::f32));
  EXPECT_EQ(rng_state(), after);
  expect_same(there, here, Same::exactly, "permuted");
}

/// Losses of some steps of a network with dropout.
std::vector<double> losses(Device device, bool is_compiled) {
  manual_seed(3);
  Tensor x = randn({32, 20}).to(device, Dtype::f32);
  Tensor w = (randn({20, 8}) * 0.3).to(device, Dtype::f32).requires_grad_();
  Tensor target = randn({32, 8}).to(device, Dtype::f32);
  auto loss_of = [](const Tensor& x, const Tensor& w, const Tensor& target) {
    return (dropout(dropout(x, 0.2, true).matmul(w).tanh(), 0.4, true) - target).pow(2).mean();
  };
  auto compiled = compile(loss_of);
  std::vector<double> out;
  for (int i = 0; i < 4; ++i) {
    w.set_grad(Tensor());
    Tensor l = is_compiled ? compiled(x, w, target) : loss_of(x, w, target);
    l.backward();
    NoGradGuard guard;
    w.sub_(w.grad() * 0.5);
    out.push_back(static_cast<double>(l.item<float>()));
  }
  return out;
}

TEST_F(GpuRandom, TrainingWithDropoutDrawsAsTheCpuDoes) {
  std::vector<double> expected = losses(kCPU, false);
  for (bool is_compiled : {false, true}) {
    std::vector<double> found = losses(gpu, is_compiled);
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-4) << "step " << i << " compiled " << is_compiled;
  }
}

}  // namespace
}  // namespace tenon
