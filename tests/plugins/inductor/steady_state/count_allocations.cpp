// malloc and its kin, counted and passed on to glibc. What an executable defines comes before what
// libraries define, so operator new and plugins take these, too.
#include "plugins/inductor/steady_state/count_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

std::atomic<int64_t> count{0};

}  // namespace

int64_t allocations() { return count; }

extern "C" {

__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  ++count;
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(size_t n, size_t bytes) {
  ++count;
  return __libc_calloc(n, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* before, size_t bytes) {
  ++count;
  return __libc_realloc(before, bytes);
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment, size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) int posix_memalign(void** out, size_t alignment,
                                                          size_t bytes) {
  ++count;
  *out = __libc_memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
}
