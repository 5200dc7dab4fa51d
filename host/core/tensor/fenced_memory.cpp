// Pages with a forbidden one behind them.
#include "core/tensor/fenced_memory.h"

#include "core/tensor/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tenon {

namespace {

struct FencedSizes {
  size_t block, readable, whole;

  explicit FencedSizes(size_t bytes) {
    static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    auto rounded = [](size_t n, size_t unit) { return (n + unit - 1) / unit * unit; };
    block = rounded(std::max<size_t>(1, bytes), host_alignment);
    readable = rounded(block, page);
    whole = readable + page;
  }
};

}  // namespace

void* take_fenced(size_t bytes) noexcept {
  FencedSizes sizes(bytes);
  void* begin =
      ::mmap(nullptr, sizes.whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  char* fence = static_cast<char*>(begin) + sizes.readable;
  if (::mprotect(fence, sizes.whole - sizes.readable, PROT_NONE) != 0)
    return ::munmap(begin, sizes.whole), nullptr;
  // The system gives memory when it is written: what is only reserved stays so.
  constexpr size_t most_filled = size_t{64} << 20;
  return std::memset(fence - sizes.block, 0xFF, std::min(sizes.block, most_filled));
}

void give_fenced(void* block, size_t bytes) noexcept {
  FencedSizes sizes(bytes);
  ::munmap(static_cast<char*>(block) + sizes.block - sizes.readable, sizes.whole);
}

}  // namespace tenon
