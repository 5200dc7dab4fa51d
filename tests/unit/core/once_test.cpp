#include "core/threads/once.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace tenon {
namespace {

TEST(Once, RunsForWhoComesFirstAndTheOthersWait) {
  Once once;
  int runs = 0;
  std::atomic<int> saw_it{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      once.run([&] {
        std::this_thread::yield();
        ++runs;
      });
      saw_it += runs == 1;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(saw_it, 8);
}

TEST(Once, RunsAgainWhatThrew) {
  Once once;
  int runs = 0;
  auto throw_first = [&] {
    if (++runs == 1) throw std::runtime_error("first");
  };
  EXPECT_THROW(once.run(throw_first), std::runtime_error);
  once.run(throw_first);
  once.run(throw_first);
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace tenon
