// Pages with a forbidden one behind them.
#include "debug/minify/edge_memory.h"

#include "core/tensor/allocator.h"
#include "core/tensor/tensor_impl.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace tenon {

namespace {

struct Pages {
  void* begin;
  size_t bytes;
};

void release_pages(void* p) {
  auto* pages = static_cast<Pages*>(p);
  ::munmap(pages->begin, pages->bytes);
  delete pages;
}

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Tensor at_the_edge(const Tensor& t) {
  if (!t.defined() || t.numel().guard_int() == 0) return t;
  Extent extent = extent_of(t);
  auto bytes = static_cast<size_t>(span_of(extent.sizes, extent.strides) * extent.itemsize);
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t readable = rounded(rounded(bytes, host_alignment), page);
  void* begin =
      ::mmap(nullptr, readable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return t;
  auto* edge = static_cast<char*>(begin) + readable;
  if (::mprotect(edge, page, PROT_NONE) != 0) return ::munmap(begin, readable + page), t;
  char* data = edge - rounded(bytes, host_alignment);
  std::memset(data, 0xFF, rounded(bytes, host_alignment));
  std::memcpy(data, t.head()->data, bytes);
  return from_memory(data, extent.sizes, t.dtype(), OptIntList(extent.strides), release_pages,
                     new Pages{begin, readable + page});
}

}  // namespace tenon
