// Random programs with views, writes through them and shared memory: the tape against differences.
#include <tenon/autograd.h>
#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tenon {
namespace {

/// A program is its seed: the same one does the same steps at every call.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : seed_(seed) {}

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    std::mt19937_64 random(seed_);
    std::vector<Tensor> pool;
    for (const Tensor& t : inputs) pool.push_back(t * 1.0);  // leaves must not be written
    auto pick = [&](uint64_t n) { return random() % n; };
    size_t steps = 4 + pick(10);
    for (size_t i = 0; i < steps; ++i) step(pool, pick);
    Tensor sum = zeros({}, Dtype::f64);
    for (size_t i = 0; i < pool.size(); ++i) sum = sum + (pool[i] * (0.1 * (i + 1.0))).sin().sum();
    return {sum};
  }

 private:
  static bool expands(const Tensor& from, const Tensor& to) {
    if (from.dim() > to.dim()) return false;
    for (int64_t d = 1; d <= from.dim(); ++d) {
      int64_t size = from.size(-d).guard_int();
      if (size != 1 && size != to.size(-d).guard_int()) return false;
    }
    return true;
  }

  template <class Pick>
  static void step(std::vector<Tensor>& pool, Pick&& pick) {
    Tensor a = pool[pick(pool.size())], b = pool[pick(pool.size())];
    int64_t rank = a.dim(), dim = rank ? static_cast<int64_t>(pick(rank)) : 0;
    switch (pick(10)) {
      case 0:
        return pool.push_back(a.sin());
      case 1:
        if (expands(b, a)) pool.push_back(a * b);
        return;
      case 2:
        return pool.push_back((a * 0.5).tanh());
      case 3:
        if (rank)
          pool.push_back(a.select(dim, static_cast<int64_t>(pick(a.size(dim).guard_int()))));
        return;
      case 4:
        if (rank > 1) pool.push_back(a.transpose(0, 1));
        return;
      case 5: {
        if (!rank) return;
        int64_t size = a.size(dim).guard_int(), start = static_cast<int64_t>(pick(size));
        return pool.push_back(a.narrow(dim, start, 1 + static_cast<int64_t>(pick(size - start))));
      }
      case 6:
        a.mul_(0.7);
        return;
      case 7:
        if (expands(b, a)) a.add_(b);
        return;
      case 8:
        if (expands(b, a)) a.copy_(b);
        return;
      default:
        if (a.is_contiguous()) pool.push_back(a.view({-1}));
    }
  }

  uint64_t seed_;
};

TEST(RandomTape, GradientsAreThoseOfDifferences) {
  int checked = 0, refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Tensor x = tensor(std::vector<double>{0.3, -0.4, 0.9, 1.1, -0.7, 0.2}, {2, 3});
    Tensor y = tensor(std::vector<double>{0.5, -1.2, 0.8}, {3});
    try {
      std::string wrong = autograd::grad_check(RandomProgram(seed), {x, y}, {.atol = 1e-6});
      EXPECT_EQ(wrong, "") << "seed " << seed;
      ++checked;
    } catch (const UserError& e) {
      // Writes to what was kept are found; nothing else may be refused.
      EXPECT_THAT(e.what(), testing::HasSubstr("modified in place")) << "seed " << seed;
      ++refused;
    }
  }
  EXPECT_GT(checked, refused);
}

}  // namespace
}  // namespace tenon
