// Objects that each thread has of its own, until and beyond its end.
#include <tenon/thread_object.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tenon {
namespace {

struct CountedOfThread {
  static inline std::atomic<int> made{0}, freed{0};
  CountedOfThread() { ++made; }
  ~CountedOfThread() { ++freed; }
  int value = 0;
};

TEST(ThreadObject, EachThreadHasItsOwnAndFreesIt) {
  ThreadObject<CountedOfThread>::get().value = 1;
  int made = CountedOfThread::made, freed = CountedOfThread::freed;
  std::thread([] {
    EXPECT_EQ(ThreadObject<CountedOfThread>::get().value, 0);
    ThreadObject<CountedOfThread>::get().value = 2;
    EXPECT_EQ(ThreadObject<CountedOfThread>::get().value, 2);
  }).join();
  EXPECT_EQ(ThreadObject<CountedOfThread>::get().value, 1);
  EXPECT_EQ(CountedOfThread::made - made, 1);
  EXPECT_EQ(CountedOfThread::freed - freed, 1);
}

struct KeptOfThread {
  int value = 0;
};
struct AsksAtItsEnd {
  std::atomic<int>* found = nullptr;
  ~AsksAtItsEnd() {
    if (found) *found = ThreadObject<KeptOfThread>::get().value;
  }
};

TEST(ThreadObject, WhoAsksBehindTheEndGetsAnother) {
  std::atomic<int> found{-1};
  std::thread([&] {
    thread_local AsksAtItsEnd late;  // made first, so it goes last
    late.found = &found;
    ThreadObject<KeptOfThread>::get().value = 7;
  }).join();
  EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace tenon
