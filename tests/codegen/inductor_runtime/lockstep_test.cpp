// Steps in parts: each part of each step runs once, behind all of the step before, whatever the
// host's threads do: come all, come late, come not at all, come one after the other, or lose their
// core in the middle of a part.
#include <inductor_runtime/lockstep.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace inductor {
namespace {

using tenon::plugin::host;

void sleep_for_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// A host whose threads do as `chunks` says.
class LockstepTest : public testing::Test {
 protected:
  using Chunk = std::function<void(int64_t)>;
  void SetUp() override {
    before_ = host;
    services_.num_threads = [] { return 3; };
    services_.parallel_chunks = [](int64_t n, tn_status* (*body)(void*, int64_t, int32_t),
                                   void* user) {
      run_chunks(n, [&](int64_t c) { body(user, c, 0); });
      return static_cast<tn_status*>(nullptr);
    };
    host_.svc = &services_;
    host = &host_;
  }
  void TearDown() override { host = before_; }

  static void one_after_the_other(int64_t n, const Chunk& run) {
    for (int64_t c = 0; c < n; ++c) run(c);
  }
  static void at_once(int64_t n, const Chunk& run) {
    std::vector<std::thread> threads;
    for (int64_t c = 1; c < n; ++c) threads.emplace_back([&, c] { run(c); });
    run(0);
    for (std::thread& t : threads) t.join();
  }
  static void late(int64_t n, const Chunk& run) {
    at_once(n, [&](int64_t c) {
      if (c > 0) sleep_for_ms(2);
      run(c);
    });
  }

  /// Runs all and holds the order; `hinder` is called in each part.
  template <class Hinder>
  void expect_order(int64_t steps, int64_t parts, Hinder&& hinder) {
    std::vector<std::atomic<int64_t>> done(static_cast<size_t>(steps + 1));
    done[0] = parts;
    std::atomic<int64_t> wrong = 0, runs = 0;
    Lockstep(steps, parts).run(Workers{}, [&] {
      return [&](int64_t step, int64_t part) {
        wrong += done[static_cast<size_t>(step)] != parts;
        hinder(step, part);
        ++done[static_cast<size_t>(step + 1)];
        ++runs;
      };
    });
    EXPECT_EQ(runs, steps * parts);
    EXPECT_EQ(wrong, 0);
  }

  inline static void (*run_chunks)(int64_t n, const Chunk& run) = one_after_the_other;

 private:
  tn_svc_api services_{};
  tn_host host_{};
  const tn_host* before_ = nullptr;
};

void nothing(int64_t, int64_t) {}

TEST_F(LockstepTest, RunsEachPartOnceBehindTheStepBefore) {
  for (auto* way : {one_after_the_other, at_once, late}) {
    run_chunks = way;
    for (int64_t parts : {1, 2, 3, 5})
      for (int64_t steps : {0, 1, 2, 300}) expect_order(steps, parts, nothing);
  }
}

TEST_F(LockstepTest, FinishesWithoutAThreadThatLosesItsCore) {
  run_chunks = at_once;
  expect_order(60, 3, [](int64_t step, int64_t part) {
    if (step % 7 == 3 && part == 1) sleep_for_ms(2);
  });
}

TEST_F(LockstepTest, SendsAThreadAwayThatIsWaitedForLong) {
  // All on other threads: the caller comes back for what is left, whoever was sent away.
  run_chunks = [](int64_t n, const Chunk& run) {
    at_once(n + 1, [&](int64_t c) { return c > 0 ? run(c - 1) : void(); });
  };
  // On a busy machine those who wait may have no core for a while: then again, for longer.
  for (int ms = 20;; ms *= 2) {
    std::atomic<std::thread::id> slow{};
    std::atomic<int> parts_of_slow = 0;
    expect_order(200, 2, [&](int64_t step, int64_t part) {
      std::thread::id self = std::this_thread::get_id();
      if (step == 5 && part == 1) {
        slow = self;
        sleep_for_ms(ms);
      }
      parts_of_slow += step > 5 && self == slow.load();
    });
    if (parts_of_slow == 0) break;
    ASSERT_LT(ms, 1000);
  }
}

TEST_F(LockstepTest, LeavesAPlaceForOthersToBeWokenWhileItIsAlone) {
  // The pool wakes those who sleep between two chunks only.
  std::vector<int64_t> steps_at_end;
  static std::atomic<int64_t>* steps;
  static std::vector<int64_t>* ends;
  std::atomic<int64_t> seen = 0;
  steps = &seen, ends = &steps_at_end;
  run_chunks = [](int64_t n, const Chunk& run) {
    for (int64_t c = 0; c < n; ++c) run(c), ends->push_back(*steps);
  };
  expect_order(20, 2, [&](int64_t step, int64_t) {
    seen = step + 1;
    sleep_for_ms(1);
  });
  ASSERT_EQ(steps_at_end.size(), 3u);
  EXPECT_LT(steps_at_end[0], 20);
  EXPECT_EQ(steps_at_end[1], 20);
}

}  // namespace
}  // namespace inductor
