// The host allocator: alignment, reuse, blocks that change threads, statistics, failure.
#include "core/tensor/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "core/error.h"

namespace tenon {
namespace {

// Every block comes from the C library under the address sanitizer.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool caches = false;
#elif defined(__has_feature)
constexpr bool caches = !__has_feature(address_sanitizer);
#else
constexpr bool caches = true;
#endif

struct Block {
  unsigned char* data;
  size_t bytes;
};

Block filled(size_t bytes, unsigned char value) {
  auto* data = static_cast<unsigned char*>(allocate(bytes));
  std::memset(data, value, bytes);
  return {data, bytes};
}

bool holds(const Block& b, unsigned char value) {
  for (size_t i = 0; i < b.bytes; ++i)
    if (b.data[i] != value) return false;
  return true;
}

TEST(Allocator, EveryBlockIsAlignedToACacheLine) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{4095},
                       size_t{4096}, size_t{4097}, size_t{100000}, size_t{5} << 20}) {
    void* block = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % host_alignment, 0u) << bytes;
    deallocate(block, bytes);
  }
}

TEST(Allocator, HugeBlocksBeginOnAHugePage) {
  if (!caches) GTEST_SKIP() << "blocks come from the C library under the address sanitizer";
  const size_t bytes = size_t{9} << 20;
  void* block = allocate(bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % (size_t{2} << 20), 0u);
  std::memset(block, 1, bytes);
  deallocate(block, bytes);
}

TEST(Allocator, TheLastFreedBlockIsReusedFirst) {
  if (!caches) GTEST_SKIP() << "no reuse under the address sanitizer";
  for (size_t bytes : {size_t{100}, size_t{50000}, size_t{6} << 20}) {
    void* first = allocate(bytes);
    deallocate(first, bytes);
    void* second = allocate(bytes);
    EXPECT_EQ(first, second) << bytes;
    deallocate(second, bytes);
  }
}

TEST(Allocator, LiveBlocksNeverOverlap) {
  std::mt19937 random(1);
  std::vector<Block> live;
  for (int step = 0; step < 20000; ++step) {
    if (live.size() < 300 && random() % 2) {
      const size_t bytes = random() % (random() % 50 ? 5000 : 300000);
      live.push_back(filled(bytes, static_cast<unsigned char>(bytes)));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(holds(live.back(), static_cast<unsigned char>(live.back().bytes)));
      deallocate(live.back().data, live.back().bytes);
      live.pop_back();
    }
  }
  for (const Block& b : live) deallocate(b.data, b.bytes);
}

TEST(Allocator, BlocksFreedOnAnotherThreadAreReused) {
  if (!caches) GTEST_SKIP() << "no reuse under the address sanitizer";
  // One thread allocates, another frees: memory in use must not grow with the number of rounds.
  reset_allocator_peak();
  const int64_t before = allocator_stats().current_bytes;
  for (int round = 0; round < 50; ++round) {
    std::vector<Block> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(filled(256, 7));
    std::thread([&] {
      for (const Block& b : blocks) deallocate(b.data, b.bytes);
    }).join();
  }
  const AllocatorStats after = allocator_stats();
  EXPECT_EQ(after.current_bytes, before);
  EXPECT_LT(after.peak_bytes, before + 4 * 1000 * 256);
}

TEST(Allocator, ThreadsPassBlocksAround) {
  std::mutex exchange_lock;
  std::vector<Block> exchange;
  auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 5000; ++i) {
      const size_t bytes = random() % 9000;
      Block mine = filled(bytes, static_cast<unsigned char>(bytes));
      std::lock_guard guard(exchange_lock);
      exchange.push_back(mine);
      std::swap(exchange[random() % exchange.size()], exchange.back());
      if (exchange.size() < 64) continue;
      ASSERT_TRUE(holds(exchange.back(), static_cast<unsigned char>(exchange.back().bytes)));
      deallocate(exchange.back().data, exchange.back().bytes);
      exchange.pop_back();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  for (const Block& b : exchange) deallocate(b.data, b.bytes);
}

// Allocates when its thread is past the end of the allocator's own thread state.
struct LateUser {
  Block block{nullptr, 0};
  ~LateUser() {
    deallocate(block.data, block.bytes);
    Block b = filled(128, 3);
    EXPECT_TRUE(holds(b, 3));
    deallocate(b.data, b.bytes);
  }
};

TEST(Allocator, DestructorsOfAnEndingThreadMayAllocate) {
  const int64_t before = allocator_stats().current_bytes;
  std::thread([] {
    thread_local LateUser user;  // constructed before the first block, so destroyed after
    user.block = filled(200, 1);
  }).join();
  EXPECT_EQ(allocator_stats().current_bytes, before);
}

TEST(Allocator, CountsBytesPeakAndCalls) {
  reset_allocator_peak();
  const AllocatorStats before = allocator_stats();
  void* small = allocate(1000);
  void* large = allocate(1 << 20);
  const AllocatorStats during = allocator_stats();
  EXPECT_EQ(during.allocations, before.allocations + 2);
  EXPECT_EQ(during.current_bytes, before.current_bytes + 1024 + (1 << 20));
  EXPECT_GE(during.peak_bytes, during.current_bytes);
  deallocate(small, 1000);
  deallocate(large, 1 << 20);
  const AllocatorStats after = allocator_stats();
  EXPECT_EQ(after.current_bytes, before.current_bytes);
  EXPECT_GE(after.peak_bytes, during.current_bytes);
}

TEST(Allocator, TrimGivesCachedBlocksBack) {
  void* large = allocate(3 << 20);
  deallocate(large, 3 << 20);
  if (caches) {
    EXPECT_GE(allocator_stats().cached_bytes, 3 << 20);
  }
  trim_allocator();
  EXPECT_EQ(allocator_stats().cached_bytes, 0);
}

TEST(Allocator, FailureNamesTheSize) {
  try {
    allocate(size_t{1} << 60);
    FAIL() << "expected UserError";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(deallocate(allocate(64), 64));
}

}  // namespace
}  // namespace tenon
