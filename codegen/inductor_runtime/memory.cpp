#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

namespace inductor {

Memory::Memory(size_t bytes) : size_(bytes) {
  constexpr size_t huge = size_t{2} << 20;
  size_t align = bytes >= huge / 2 ? huge : 64;
  if (!bytes) return;
  data_ = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (!data_) throw std::bad_alloc();
  if (align == huge) madvise(data_, bytes, MADV_HUGEPAGE);
}
Memory::Memory(Memory&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
Memory& Memory::operator=(Memory&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  return *this;
}
Memory::~Memory() { std::free(data_); }

std::byte* thread_bytes(size_t bytes) {
  thread_local Memory memory;
  if (memory.size() < bytes) memory = Memory(bytes);
  return memory.data();
}

}  // namespace inductor
