// The shim of threads finds what kernels do wrong: races, accesses outside of memory, barriers that
// not all threads meet.
#include "simt_threads.h"
#include "shadow.h"

#include <gtest/gtest.h>

namespace simt {
namespace {

constexpr uint32_t threads = 64;

template <class T>
T& shared(SimtThread* t, size_t i, Use use) {
  return *static_cast<T*>(t->local(t, t->shared + i * sizeof(T), sizeof(T), uint32_t(use)));
}
int& global(SimtThread* t, void* base, size_t i, Use use) {
  return *static_cast<int*>(t->global(t, static_cast<int*>(base) + i, sizeof(int), uint32_t(use)));
}

/// Each thread gives its number to its neighbour.
template <bool has_barrier>
void pass_on(SimtThread* t, void* const* args) {
  shared<int>(t, t->thread, Use::write) = int(t->thread);
  if (has_barrier) t->barrier(t);
  int got = shared<int>(t, (t->thread + 1) % threads, Use::read);
  global(t, args[0], t->thread, Use::write) = got;
}

/// The same twice over one place each: the second write has to wait for the readers of the first.
template <bool has_barrier>
void pass_on_twice(SimtThread* t, void* const* args) {
  for (int round = 0; round < 2; ++round) {
    shared<int>(t, t->thread, Use::write) = round;
    t->barrier(t);
    global(t, args[0], t->thread, Use::write) =
        shared<int>(t, (t->thread + 1) % threads, Use::read);
    if (has_barrier) t->barrier(t);
  }
}

template <Use use>
void count(SimtThread* t, void* const* args) {
  ++global(t, args[0], 0, use);
}

void write_behind(SimtThread* t, void* const* args) {
  global(t, args[0], t->thread + 1, Use::write) = 1;
}
void write_behind_shared(SimtThread* t, void* const*) {
  shared<int>(t, t->thread + 1, Use::write) = 1;
}
void half_waits(SimtThread* t, void* const*) {
  if (t->thread < threads / 2) t->barrier(t);
}

std::string problem_of(SimtKernel kernel, uint32_t blocks = 1) {
  static int memory[threads];
  void* args[] = {memory};
  auto is_inside = [](const void* address, size_t bytes) {
    auto at = static_cast<const char*>(address), begin = reinterpret_cast<const char*>(memory);
    return at >= begin && at + bytes <= begin + sizeof memory;
  };
  return run(kernel, {blocks, threads, threads * sizeof(int), true}, args, is_inside);
}

TEST(SimtThreads, AMissingBarrierIsFound) {
  EXPECT_EQ(problem_of(pass_on<true>), "");
  EXPECT_NE(problem_of(pass_on<false>).find("races"), std::string::npos);
  EXPECT_EQ(problem_of(pass_on_twice<true>), "");
  EXPECT_NE(problem_of(pass_on_twice<false>).find("writes what another reads"), std::string::npos);
}

TEST(SimtThreads, ThreadsMeetAtOnePlaceByChangesOnly) {
  EXPECT_EQ(problem_of(count<Use::change>, 3), "");
  EXPECT_NE(problem_of(count<Use::write>).find("writes what another writes"), std::string::npos);
}

TEST(SimtThreads, BlocksShareOnlyWhatTheyRead) {
  EXPECT_NE(problem_of(pass_on<true>, 2).find("writes what another writes"), std::string::npos);
}

TEST(SimtThreads, AccessesOutsideOfMemoryAreFound) {
  EXPECT_NE(problem_of(write_behind).find("outside of every buffer"), std::string::npos);
  EXPECT_NE(problem_of(write_behind_shared).find("outside of every buffer"), std::string::npos);
}

TEST(SimtThreads, ABarrierThatNotAllMeetIsFound) {
  EXPECT_NE(problem_of(half_waits).find("wait at different places"), std::string::npos);
}

}  // namespace
}  // namespace simt
