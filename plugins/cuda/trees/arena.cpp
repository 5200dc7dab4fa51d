// The book of an arena, and the pages behind it.
#include "arena.h"

#include "recording.h"

#include <tenon/plugin.hpp>

#include <algorithm>

namespace tenon::cuda::trees {

using plugin::error;
using plugin::text;

namespace {

constexpr size_t alignment = 512;
constexpr size_t least_chunk = size_t{2} << 20, largest_chunk = size_t{512} << 20;
constexpr size_t times_memory = 4;  // addresses per byte of the device

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// All arenas; they live as long as the process, as tensors may.
struct Arenas {
  std::mutex adding;  // guards all
  std::vector<std::pair<const Gpu*, Arena*>> all;
  // Beyond these no address is of an arena: most frees ask no further.
  std::atomic<api::Address> lowest{UINT64_MAX}, highest{0};
};

Arenas& arenas() {
  static auto* const instance = new Arenas;
  return *instance;
}

thread_local constinit Placement* placing = nullptr;

}  // namespace

Arena::Arena(Gpu& gpu, size_t first_bytes) : gpu_(gpu) {
  gpu.bind();
  api::MemoryProperties properties;
  properties.location_id = gpu.index();
  CU_TRY(gpu, "reserving addresses", cuMemGetAllocationGranularity, &page_bytes_, &properties,
         api::granularity_recommended);
  page_bytes_ = rounded(std::max(page_bytes_, size_t{1}), alignment);
  size_t total = 0;
  CU_TRY(gpu, "reserving addresses", cuDeviceTotalMem, &total, gpu.index());
  size_t bytes = rounded(total * times_memory, page_bytes_);
  CU_TRY(gpu, "reserving addresses", cuMemAddressReserve, &range_.begin, bytes, page_bytes_, 0, 0);
  range_.end = range_.begin + bytes;
  if (first_bytes) cover(range_.begin + std::min(first_bytes, bytes));
  Arenas& a = arenas();
  std::lock_guard lock(a.adding);
  a.all.emplace_back(&gpu, this);
  a.lowest = std::min(a.lowest.load(), range_.begin);
  a.highest = std::max(a.highest.load(), range_.end);
}

Arena* Arena::of(const Gpu& gpu, const void* memory) {
  auto address = reinterpret_cast<api::Address>(memory);
  Arenas& a = arenas();
  if (address < a.lowest.load(std::memory_order_acquire) ||
      address >= a.highest.load(std::memory_order_acquire))
    return nullptr;
  std::lock_guard lock(a.adding);
  for (auto [owner, arena] : a.all)
    if (owner == &gpu && arena->contains(memory)) return arena;
  return nullptr;
}

// ---- pages

void Arena::map_chunk(Chunk& chunk) {
  gpu_.bind();
  api::MemoryProperties properties;
  properties.location_id = gpu_.index();
  api::Result created = driver().cuMemCreate(&chunk.memory, chunk.range.bytes(), &properties, 0);
  if (created == api::error_out_of_memory)
    throw error(TN_OUT_OF_MEMORY, text("cuda:{} has no {} bytes left for recordings", gpu_.index(),
                                       chunk.range.bytes()));
  check(gpu_, created, "cuMemCreate", "growing the memory of recordings");
  auto map = [&] {
    CU_TRY(gpu_, "growing the memory of recordings", cuMemMap, chunk.range.begin,
           chunk.range.bytes(), 0, chunk.memory, 0);
    api::MemoryAccess access;
    access.location_id = gpu_.index();
    api::Result opened =
        driver().cuMemSetAccess(chunk.range.begin, chunk.range.bytes(), &access, 1);
    if (opened != api::success) driver().cuMemUnmap(chunk.range.begin, chunk.range.bytes());
    check(gpu_, opened, "cuMemSetAccess", "growing the memory of recordings");
  };
  try {
    map();
  } catch (...) {
    driver().cuMemRelease(chunk.memory);
    throw;
  }
  chunk.is_mapped = true;
}

// Chunks double with what there is, so that there are few of them.
void Arena::cover(api::Address end) {
  api::Address covered = chunks_.empty() ? range_.begin : chunks_.back().range.end;
  if (end <= covered) return;
  size_t grown = std::clamp<size_t>(covered - range_.begin, least_chunk, largest_chunk);
  size_t bytes = rounded(std::max<size_t>(end - covered, grown), page_bytes_);
  Chunk chunk{{covered, std::min(covered + bytes, range_.end)}, 0, false};
  try {
    map_chunk(chunk);
  } catch (const error& e) {
    if (e.code != TN_OUT_OF_MEMORY || chunk.range.end <= end + page_bytes_) throw;
    chunk.range.end = covered + rounded(end - covered, page_bytes_);  // no more than is wanted
    map_chunk(chunk);
  }
  chunks_.push_back(chunk);
  plugin::log(TN_LOG_INFO, "cudagraphs", "the arena of cuda:{} grows by {} bytes", gpu_.index(),
              chunk.range.bytes());
}

void Arena::map(std::span<const Range> ranges) {
  std::lock_guard lock(booking_);
  for (const Range& r : ranges) {
    cover(r.end);
    for (Chunk& c : chunks_)
      if (!c.is_mapped && c.range.begin < r.end && r.begin < c.range.end) map_chunk(c);
  }
}

void Arena::trim() {
  std::unique_lock alone(use, std::try_to_lock);
  if (!alone || mapped_bytes() == 0) return;
  gpu_.bind();
  auto unrecorded = no_recording(gpu_);
  CU_TRY(gpu_, "waiting for the device", cuCtxSynchronize, gpu_.context());
  std::lock_guard lock(booking_);
  for (Chunk& c : chunks_) {
    if (!c.is_mapped || !book_.is_free(c.range)) continue;
    CU_TRY(gpu_, "giving memory of recordings back", cuMemUnmap, c.range.begin, c.range.bytes());
    c.is_mapped = false;
    CU_TRY(gpu_, "giving memory of recordings back", cuMemRelease, c.memory);
  }
  ++trims_;
}

// ---- the book

void* Arena::allocate(size_t bytes) {
  std::lock_guard lock(booking_);
  if (bytes > range_.bytes())
    throw error(TN_OUT_OF_MEMORY,
                text("{} bytes are more than cuda:{} has addresses for", bytes, gpu_.index()));
  size_t wanted = rounded(std::max(bytes, size_t{1}), alignment);
  std::optional<api::Address> at = book_.room(range_, wanted, alignment);
  if (!at)
    throw error(TN_OUT_OF_MEMORY,
                text("the recordings of cuda:{} have used up their addresses", gpu_.index()));
  Range block{*at, *at + wanted};
  cover(block.end);
  for (Chunk& c : chunks_)
    if (!c.is_mapped && c.range.begin < block.end && block.begin < c.range.end) map_chunk(c);
  book_.add(block);
  return reinterpret_cast<void*>(block.begin);
}

void* Arena::place(Range range) {
  std::lock_guard lock(booking_);
  book_.add(range);
  return reinterpret_cast<void*>(range.begin);
}

bool Arena::release(const void* address) {
  std::lock_guard lock(booking_);
  return book_.remove(reinterpret_cast<api::Address>(address));
}

bool Arena::are_free(std::span<const Range> ranges) const {
  if (ranges.empty()) return true;
  std::lock_guard lock(booking_);
  return book_.are_free(ranges);
}

size_t Arena::mapped_bytes() const {
  std::lock_guard lock(booking_);
  size_t sum = 0;
  for (const Chunk& c : chunks_) sum += c.is_mapped ? c.range.bytes() : 0;
  return sum;
}

size_t Arena::live_bytes() const {
  std::lock_guard lock(booking_);
  return book_.held_bytes();
}

std::string_view Arena::fault(std::span<const Range> written) const {
  std::lock_guard lock(booking_);
  return book_.fault(written);
}

// ---- placing

Placement::Placement(Arena& arena, Range range)
    : arena_(arena), range_(range), outer_(std::exchange(placing, this)) {}

Placement::~Placement() { placing = outer_; }

void* Placement::take(size_t bytes) {
  Placement* p = placing;
  if (!p || bytes > p->range_.bytes()) return nullptr;
  placing = p->outer_;
  void* at = p->arena_.place(p->range_);
  p->outer_ = placing;
  return at;
}

void trim_arenas(Gpu& gpu) {
  std::vector<Arena*> mine;
  {
    std::lock_guard lock(arenas().adding);
    for (auto [owner, arena] : arenas().all)
      if (owner == &gpu) mine.push_back(arena);
  }
  for (Arena* arena : mine) arena->trim();
}

}  // namespace tenon::cuda::trees
