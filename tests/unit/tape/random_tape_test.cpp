// Random tapes, run by the engine and compiled: the same gradients, also when the code is used again
// with other data and sizes. TENON_RANDOM_TAPES sets how many, TENON_RANDOM_TAPES_FROM the first,
// TENON_RANDOM_TAPES_BACKEND what compiles them; the default takes a second.
#include "unit/autograd/autograd_test.h"

#include <tenon/compile.h>
#include <tenon/compiled_autograd.h>

#include <cstdio>
#include <cstdlib>
#include <random>

namespace tenon {
namespace {

namespace ca = compiled_autograd;
using Tensors = std::vector<Tensor>;

struct Halves : autograd::Function<Halves> {
  static Tensors forward(autograd::Context& context, const Tensors& in) {
    context.save_for_backward({in[0]});
    return {in[0] * in[1] * 0.5};
  }
  // No gradient for the second one where the first is large: a surprise for who has recorded it.
  static Tensors backward(autograd::Context& context, Tensors grads) {
    Tensor x = context.saved_tensors()[0];
    return {grads[0] * 0.5, x.dim() > 1 ? Tensor() : grads[0] * x};
  }
};

const CompiledFunction<Tensor(const Tensor&, const Tensor&)>& compiled_part() {
  static auto* part = new CompiledFunction<Tensor(const Tensor&, const Tensor&)>(
      compile([](const Tensor& a, const Tensor& b) { return (a * b).tanh() + a; },
              {.backend = "aot_eager"}));
  return *part;
}

/// A program is its seed; sizes and data are others for each `variant`.
class RandomTape {
 public:
  RandomTape(uint64_t seed, int variant) : random_(seed), variant_(variant) {}

  /// The gradients of the leaves, and what hooks have seen.
  Tensors run() {
    int64_t batch = 2 + variant_ * 3;
    leaves_ = {leaf({batch, 3}, 0.3), leaf({batch, 3}, -0.2), leaf({3}, 0.5), leaf({batch}, 0.1)};
    pool_ = leaves_;
    size_t steps = 2 + pick(20);
    for (size_t i = 0; i < steps; ++i) step();
    Tensor sum = zeros({}, Dtype::f64);
    size_t used = 1 + pick(4);
    for (size_t i = 0; i < used; ++i)
      sum = sum + pool_[pool_.size() - 1 - pick(pool_.size())].sum();
    for (const Tensor& t : pool_)
      if (pick(4) == 0) sum = sum + (t * 0.1).sin().sum();
    if (!sum.requires_grad()) return {};
    sum.backward({}, true);
    if (pick(3) == 0) sum.backward();
    for (const Tensor& t : leaves_) seen_.push_back(t.grad());
    return seen_;
  }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }

  Tensor leaf(IntList sizes, double first) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(std::sin(first + 0.7 * static_cast<double>(i + 5 * variant_)));
    return tensor(values, sizes).requires_grad_();
  }

  static bool same_shape(const Tensor& a, const Tensor& b) {
    return to_text(a.sizes()) == to_text(b.sizes());
  }
  static bool expands(const Tensor& from, const Tensor& to) {
    if (from.dim() > to.dim()) return false;
    for (int64_t d = 1; d <= from.dim(); ++d) {
      int64_t size = from.size(-d).guard_int();
      if (size != 1 && size != to.size(-d).guard_int()) return false;
    }
    return true;
  }

  void step() {
    Tensor a = pool_[pick(pool_.size())], b = pool_[pick(pool_.size())];
    switch (pick(20)) {
      case 0:
        return push(a.sin());
      case 1:
        return expands(b, a) ? push(a * b) : void();
      case 2:
        return expands(b, a) ? push(a - b) : void();
      case 3:
        return push((a * 0.5).tanh());
      case 4:
        return a.dim() ? push(a.sum({-1}, pick(2) == 0)) : void();
      case 5:
        return a.dim() > 1 ? push(a.transpose(0, 1)) : void();
      case 6:
        return a.dim() ? push(a.narrow(0, 0, 2)) : void();
      case 7:
        return push(a.exp() * 0.1);
      case 8:
        return same_shape(a, b) ? push(cat({a, b}, 0)) : void();
      case 9:
        return a.dim() == 2 && b.dim() == 2 && same_shape(a, b) ? push(a.matmul(b.t())) : void();
      case 10:
        return push(a.relu());
      case 11:
        return a.is_leaf() ? void() : in_place(a, b);
      case 12:
        return a.dim() ? push(a.softmax(-1)) : void();
      case 13:
        return same_shape(a, b) ? push(where(a > b, a, b * 2)) : void();
      case 14:
        return push(a.reshape({-1}));
      case 15:
        return same_shape(a, b) ? push(Halves::apply({a, b})[0]) : void();
      case 16:
        return same_shape(a, b) ? push(compiled_part()(a, b)) : void();
      case 17:
        return hooks(a);
      case 18:
        return a.dim() == 2 ? push(a.expand({2, -1, -1})) : void();
      default:
        return push(a.abs().sqrt());
    }
  }

  void push(const Tensor& t) {
    if (t.numel().guard_int() < 400) pool_.push_back(t);
  }

  void in_place(const Tensor& a, const Tensor& b) {
    if (expands(b, a)) a.add_(b);  // of a view of a leaf: refused alike
  }

  void hooks(const Tensor& a) {
    if (!a.requires_grad()) return;
    auto look = [this](const Tensor& g) { seen_.push_back(g.detach().clone()); };
    switch (pick(5)) {
      case 0:
        autograd::register_hook(a, look);
        return;
      case 1:
        autograd::register_hook(a, [](const Tensor& g) { return g * 1.5; });
        return;
      case 2:
        if (autograd::GradFn fn = autograd::grad_fn(a))
          fn.register_prehook([](const Tensors& grads) {
            Tensors out;
            for (const Tensor& g : grads) out.push_back(g.defined() ? g * 0.5 : g);
            return out;
          });
        return;
      case 3:
        if (autograd::GradFn fn = autograd::grad_fn(a))
          fn.register_hook([this](const Tensors& outputs, const Tensors&) {
            for (const Tensor& g : outputs)
              if (g.defined()) seen_.push_back(g.detach().clone());
            return Tensors();
          });
        return;
      default:
        if (a.is_leaf())
          autograd::register_post_accumulate_grad_hook(
              a, [this](const Tensor& t) { seen_.push_back(t.grad().clone()); });
        else
          a.retain_grad();
    }
  }

  std::mt19937_64 random_;
  int variant_;
  Tensors leaves_, pool_, seen_;
};

// Gradients, or why there are none.
std::pair<Tensors, std::string> outcome(uint64_t seed, int variant) {
  try {
    return {RandomTape(seed, variant).run(), ""};
  } catch (const UserError& error) {
    return {{}, error.what()};
  }
}

void expect_equal(const std::pair<Tensors, std::string>& found,
                  const std::pair<Tensors, std::string>& wanted, uint64_t seed) {
  ASSERT_EQ(found.second, wanted.second) << "seed " << seed;
  ASSERT_EQ(found.first.size(), wanted.first.size()) << "seed " << seed;
  for (size_t i = 0; i < wanted.first.size(); ++i) {
    const Tensor &a = found.first[i], &b = wanted.first[i];
    ASSERT_EQ(a.defined(), b.defined()) << "seed " << seed << ", gradient " << i;
    if (!a.defined()) continue;
    std::vector<double> x = numbers(a), y = numbers(b);
    ASSERT_EQ(x.size(), y.size()) << "seed " << seed << ", gradient " << i;
    for (size_t k = 0; k < x.size(); ++k) {
      bool same = x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k])) ||
                  std::abs(x[k] - y[k]) <= 1e-9 * std::max(1.0, std::abs(y[k]));
      ASSERT_TRUE(same) << "seed " << seed << ", gradient " << i << ": " << x[k] << " and " << y[k];
    }
  }
}

TEST(RandomTapes, AreCompiledAsTheEngineRunsThem) {
  const char* wanted = std::getenv("TENON_RANDOM_TAPES");
  uint64_t n = wanted ? std::strtoull(wanted, nullptr, 10) : 400;
  const char* from = std::getenv("TENON_RANDOM_TAPES_FROM");
  const char* backend = std::getenv("TENON_RANDOM_TAPES_BACKEND");
  uint64_t first = from ? std::strtoull(from, nullptr, 10) : 0;
  ca::reset();
  for (uint64_t seed = first; seed < first + n; ++seed) {
    for (int variant : {0, 0, 1}) {
      auto plain = outcome(seed, variant);
      auto on = ca::enable(backend ? backend : seed % 4 == 0 ? "aot_eager" : "eager");
      ASSERT_NO_FATAL_FAILURE(expect_equal(outcome(seed, variant), plain, seed));
    }
  }
  ca::Stats stats = ca::stats();
  RecordProperty("captures", static_cast<int>(stats.captures));
  if (wanted)
    std::printf("%lld captures, %lld hits, %lld on the engine, %lld left\n",
                static_cast<long long>(stats.captures), static_cast<long long>(stats.hits),
                static_cast<long long>(stats.eager_passes),
                static_cast<long long>(stats.departures));
  EXPECT_GT(stats.hits, static_cast<int64_t>(n) / 2);
  EXPECT_LT(stats.eager_passes, static_cast<int64_t>(n));
  ca::reset();
}

}  // namespace
}  // namespace tenon
