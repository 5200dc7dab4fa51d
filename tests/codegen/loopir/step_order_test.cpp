// What has to run before what, held against a walk over the dependencies, while steps become one.
#include <loopir/fusing/step_order.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace loopir {
namespace {

constexpr size_t n_buffers = 8;

bool meets(const Ids& a, const Ids& b) { return std::ranges::find_first_of(a, b) != a.end(); }

/// Steps, and which of the steps of the program each of them holds.
struct Walked {
  std::vector<Access> accesses;
  std::vector<uint32_t> effects;
  std::vector<uint32_t> held_by;

  bool waits_directly(uint32_t later, uint32_t earlier) const {
    const Access &l = accesses[later], &e = accesses[earlier];
    bool both_have_effects =
        std::ranges::count(effects, later) && std::ranges::count(effects, earlier);
    return earlier < later && (both_have_effects || meets(l.reads, e.writes) ||
                               meets(l.writes, e.writes) || meets(l.writes, e.reads));
  }
  bool is_edge(uint32_t first, uint32_t second) const {
    if (first == second) return false;
    for (uint32_t i = 0; i < accesses.size(); ++i)
      for (uint32_t j = 0; j < i; ++j)
        if (held_by[j] == first && held_by[i] == second && waits_directly(i, j)) return true;
    return false;
  }
  std::vector<uint32_t> left() const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < held_by.size(); ++i)
      if (held_by[i] == i) out.push_back(i);
    return out;
  }
  bool is_before(uint32_t first, uint32_t second) const {
    if (is_edge(first, second)) return true;
    return std::ranges::any_of(left(), [&](uint32_t n) {
      return is_edge(n, second) && n != first && is_before(first, n);
    });
  }
  bool has_detour(uint32_t from, uint32_t to) const {
    return std::ranges::any_of(left(), [&](uint32_t n) {
      return n != from && n != to && is_before(from, n) && is_before(n, to);
    });
  }
};

Walked random_program(std::mt19937& random) {
  Walked out;
  for (uint32_t i = 0; i < 9; ++i) {
    Access a;
    for (uint32_t n = random() % 3; n > 0; --n) a.reads.push_back(random() % n_buffers);
    a.writes.push_back(random() % n_buffers);
    out.accesses.push_back(a);
    if (random() % 5 == 0) out.effects.push_back(i);
  }
  out.held_by.resize(out.accesses.size());
  std::iota(out.held_by.begin(), out.held_by.end(), 0);
  return out;
}

void expect_same(const StepOrder& order, const Walked& walked) {
  std::vector<uint32_t> steps = order.steps(), left = walked.left();
  for (uint32_t a : left)
    for (uint32_t b : left) {
      if (a == b) continue;
      EXPECT_EQ(order.is_before(a, b), walked.is_before(a, b)) << a << " " << b;
      EXPECT_EQ(order.has_detour(a, b), walked.has_detour(a, b)) << a << " " << b;
      if (!walked.is_before(a, b)) continue;
      EXPECT_LT(std::ranges::find(steps, a), std::ranges::find(steps, b)) << a << " " << b;
    }
  std::ranges::sort(steps);
  EXPECT_EQ(steps, left);
}

TEST(StepOrder, IsThatOfTheDependenciesWhileStepsBecomeOne) {
  std::mt19937 random(5);
  for (int program = 0; program < 60; ++program) {
    Walked walked = random_program(random);
    StepOrder order(walked.accesses, n_buffers, walked.effects);
    expect_same(order, walked);
    for (int turn = 0; turn < 5 && !testing::Test::HasFailure(); ++turn) {
      std::vector<uint32_t> left = walked.left();
      uint32_t a = left[random() % left.size()], b = left[random() % left.size()];
      if (a == b || walked.is_before(b, a) || walked.has_detour(a, b)) continue;
      for (uint32_t& holder : walked.held_by)
        if (holder == a) holder = b;
      order.join(a, b);
      expect_same(order, walked);
    }
  }
}

}  // namespace
}  // namespace loopir
