// The thread pool: every chunk once, several callers, nesting, exceptions, resizing, fork.
#include "core/threads/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"

namespace tenon {
namespace {

// Sets the number of threads for a test and restores it.
struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

void spin_us(double us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(us);
  while (std::chrono::steady_clock::now() < end) continue;
}

TEST(ThreadPool, RunsEveryChunkOnceForAnyCountAndSize) {
  for (int threads : {1, 2, 3, 8}) {
    const Threads scope(threads);
    for (int64_t n : {0, 1, 2, 3, 7, 64, 1001}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
      parallel_chunks(n, [&](int64_t chunk, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        runs[static_cast<size_t>(chunk)].fetch_add(1);
      });
      for (auto& r : runs) ASSERT_EQ(r.load(), 1) << n << " chunks, " << threads << " threads";
    }
  }
}

TEST(ThreadPool, WritesOfBodiesAreVisibleToTheCaller) {
  const Threads scope(4);
  std::vector<int64_t> values(1000);  // plain memory: the thread sanitizer watches
  for (int round = 0; round < 500; ++round) {
    parallel_chunks(8, [&](int64_t chunk, int) {
      for (size_t i = static_cast<size_t>(chunk) * 125; i < (static_cast<size_t>(chunk) + 1) * 125;
           ++i)
        values[i] += static_cast<int64_t>(i);
    });
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], (round + 1) * static_cast<int64_t>(i));
  }
}

TEST(ThreadPool, AWorkerNumberBelongsToOneThreadDuringACall) {
  const Threads scope(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> scratch(4 * 16);  // unguarded: two threads with one number are a data race
    std::vector<std::atomic<bool>> taken(4);
    parallel_chunks(64, [&](int64_t, int worker) {
      EXPECT_FALSE(taken[static_cast<size_t>(worker)].exchange(true));
      ++scratch[static_cast<size_t>(worker) * 16];
      taken[static_cast<size_t>(worker)].store(false);
    });
    EXPECT_EQ(scratch[0] + scratch[16] + scratch[32] + scratch[48], 64);
  }
}

TEST(ThreadPool, WorkersTakePartInLongWork) {
  const Threads scope(2);
  // The back-off may make single calls serial, and a loaded machine may delay the worker.
  for (int attempt = 0; attempt < 200; ++attempt) {
    std::vector<std::atomic<int>> by_worker(2);
    parallel_chunks(64, [&](int64_t, int worker) {
      by_worker[static_cast<size_t>(worker)].fetch_add(1);
      spin_us(100);
      std::this_thread::yield();
    });
    EXPECT_EQ(by_worker[0] + by_worker[1], 64);
    if (by_worker[1] > 0) return;
  }
  FAIL() << "no chunk of 200 calls of 6.4 ms ran on a worker";
}

TEST(ThreadPool, NestedCallsRunInlineOnTheSameWorker) {
  const Threads scope(4);
  EXPECT_FALSE(in_parallel());
  std::atomic<int> inner_runs{0};
  parallel_chunks(16, [&](int64_t, int outer) {
    EXPECT_TRUE(in_parallel());
    const auto thread = std::this_thread::get_id();
    parallel_chunks(5, [&](int64_t, int inner) {
      EXPECT_EQ(inner, outer);
      EXPECT_EQ(std::this_thread::get_id(), thread);
      inner_runs.fetch_add(1);
    });
  });
  EXPECT_EQ(inner_runs.load(), 80);
  EXPECT_FALSE(in_parallel());
}

TEST(ThreadPool, OneChunkLeavesTheWorkersToItsBody) {
  parallel_chunks(1, [&](int64_t chunk, int worker) {
    EXPECT_EQ(chunk, 0);
    EXPECT_EQ(worker, 0);
    EXPECT_FALSE(in_parallel());
  });
}

TEST(ThreadPool, TheFirstExceptionReachesTheCallerAndEndsTheCall) {
  const Threads scope(4);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> runs{0};
    try {
      parallel_chunks(10000, [&](int64_t chunk, int) {
        runs.fetch_add(1);
        if (chunk % 3 == 1) throw std::runtime_error("chunk failed");
      });
      FAIL() << "expected the exception of a body";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "chunk failed");
    }
    EXPECT_LT(runs.load(), 10000);
    EXPECT_FALSE(in_parallel());
  }
  std::atomic<int> runs{0};
  parallel_chunks(10, [&](int64_t, int) { runs.fetch_add(1); });
  EXPECT_EQ(runs.load(), 10) << "the call after a failed one is whole";
}

// Of each of the threads that take part in a long call, from a thread with this rounding mode.
std::set<int> rounding_modes_under(int mode) {
  std::vector<std::atomic<int>> modes(64);
  std::fesetround(mode);
  parallel_chunks(64, [&](int64_t chunk, int) {
    modes[static_cast<size_t>(chunk)].store(std::fegetround());
    spin_us(100);
  });
  std::fesetround(FE_TONEAREST);
  return {modes.begin(), modes.end()};
}

TEST(ThreadPool, WorkersComputeAsTheThreadOfTheCallerDoes) {
  const Threads scope(3);
  for (int round = 0; round < 8; ++round)
    for (int mode : {FE_UPWARD, FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD})
      ASSERT_EQ(rounding_modes_under(mode), std::set<int>{mode});
}

TEST(ThreadPool, WorkersTakeNoSignalsButThoseThatTheyRaise) {
  const Threads scope(3);
  std::atomic<int> raised_blocked{0}, others_open{0};
  for (int round = 0; round < 8; ++round)
    parallel_chunks(64, [&](int64_t, int worker) {
      sigset_t blocked;
      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
        raised_blocked += sigismember(&blocked, signal);
      if (worker > 0) others_open += !sigismember(&blocked, SIGINT);
      spin_us(100);
    });
  EXPECT_EQ(raised_blocked, 0) << "a handler of the program would not see a fault";
  EXPECT_EQ(others_open, 0);
}

TEST(ThreadPool, ManyCallersAtOnceGetTheirOwnResults) {
  const Threads scope(3);
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([t] {
      for (int round = 0; round < 300; ++round) {
        std::atomic<int64_t> sum{0};
        parallel_chunks(20, [&](int64_t chunk, int) { sum.fetch_add(chunk * (t + 1)); });
        ASSERT_EQ(sum.load(), 190 * (t + 1));
      }
    });
  for (std::thread& c : callers) c.join();
}

TEST(ThreadPool, SizeMayChangeBetweenCallsOfOtherThreads) {
  const Threads scope(2);
  std::atomic<bool> stop{false};
  std::thread resizer([&] {
    for (int i = 0; i < 200; ++i) set_num_threads(1 + i % 6);
    stop.store(true);
  });
  while (!stop.load()) {
    std::atomic<int64_t> sum{0};
    parallel_chunks(30, [&](int64_t chunk, int) { sum.fetch_add(chunk); });
    ASSERT_EQ(sum.load(), 435);
  }
  resizer.join();
}

TEST(ThreadPool, SleepingWorkersDoNotLoseALaterJob) {
  const Threads scope(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // beyond the time workers spin
    std::atomic<int64_t> sum{0};
    parallel_chunks(
        40, [&](int64_t chunk, int) { spin_us(5), sum.fetch_add(chunk); }, 200);
    ASSERT_EQ(sum.load(), 780);
  }
}

TEST(ThreadPool, RangesOfParallelForCoverTheIntervalWithTheGrain) {
  const Threads scope(4);
  for (int64_t grain : {1, 10, 1000})
    for (int64_t n : {0, 1, 9, 100, 12345}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      parallel_for(5, 5 + n, grain, [&](int64_t lo, int64_t hi) {
        EXPECT_TRUE(hi - lo >= grain || hi == 5 + n);
        for (int64_t i = lo; i < hi; ++i) seen[static_cast<size_t>(i - 5)].fetch_add(1);
      });
      for (auto& s : seen) ASSERT_EQ(s.load(), 1);
    }
}

TEST(ThreadPool, RefusesSenselessSizes) {
  const int before = num_threads();
  EXPECT_THROW(set_num_threads(0), UserError);
  EXPECT_THROW(set_num_threads(max_threads + 1), UserError);
  parallel_chunks(2, [](int64_t, int) { EXPECT_THROW(set_num_threads(2), UserError); });
  EXPECT_EQ(num_threads(), before);
}

TEST(ThreadPool, AForkedChildRunsSerially) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow a fork of a process with threads";
#endif
  const Threads scope(3);
  parallel_chunks(30, [](int64_t, int) { spin_us(10); });  // the workers exist
  const pid_t child = fork();
  if (child == 0) {
    int64_t sum = 0;  // plain: one thread only
    const auto thread = std::this_thread::get_id();
    bool same = true;
    parallel_chunks(100, [&](int64_t chunk, int) {
      sum += chunk;
      same = same && std::this_thread::get_id() == thread;
    });
    _exit(sum == 4950 && same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tenon
