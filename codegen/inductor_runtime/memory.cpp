// Blocks of memory; large ones lie in huge pages, of which those that stay share one.
//
// Weights are read in every call, most of them out of the second-level cache: spread over single
// pages they evict each other there, by chance up to 16 % of the time of a recurrent layer.
#include "memory.h"

#include <sys/mman.h>
#include <tenon/thread_object.hpp>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

namespace inductor {

namespace {

constexpr size_t huge = size_t{2} << 20, least_shared = size_t{64} << 10;

std::shared_ptr<std::byte> allocated(size_t bytes, size_t align) {
  size_t whole = (bytes + align - 1) / align * align;
  std::shared_ptr<std::byte> out(static_cast<std::byte*>(std::aligned_alloc(align, whole)),
                                 std::free);
  if (!out) throw std::bad_alloc();
  if (align == huge) madvise(out.get(), whole, MADV_HUGEPAGE);  // of a part it would be refused
  return out;
}

/// A part of a huge page that others have parts of, too; it goes with the last of them.
std::shared_ptr<std::byte> part_of_page(size_t bytes) {
  static std::mutex sharing;
  static auto& last = *new std::weak_ptr<std::byte>;
  static size_t used = 0;
  std::lock_guard lock(sharing);
  std::shared_ptr<std::byte> page = last.lock();
  if (!page || used + bytes > huge) last = page = allocated(huge, huge), used = 0;
  std::byte* at = page.get() + used;
  used += (bytes + 63) / 64 * 64;
  return {std::move(page), at};
}

}  // namespace

Memory::Memory(size_t bytes) : size_(bytes) {
  if (bytes) data_ = allocated(bytes, bytes >= huge / 2 ? huge : 64);
}

Memory Memory::settled(Memory made) {
  if (made.size_ < least_shared || made.size_ >= huge / 2) return made;
  Memory out;
  out.data_ = part_of_page(made.size_);
  out.size_ = made.size_;
  std::memcpy(out.data(), made.data(), made.size_);
  return out;
}

std::byte* thread_bytes(size_t bytes) {
  Memory& memory = tenon::ThreadObject<Memory>::get();
  if (memory.size() < bytes) memory = Memory(bytes);
  return memory.data();
}

}  // namespace inductor
