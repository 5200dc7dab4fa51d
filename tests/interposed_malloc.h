// malloc and its kin in front of glibc's, for one source file of a program or of a library that is
// loaded before all others: that file defines refuse_allocation(), which is asked before each call.
#pragma once

#include <malloc.h>

#include <cerrno>
#include <cstdlib>

/// Whether the allocation that is about to be made gets no memory. Allocates nothing itself.
bool refuse_allocation();

#pragma GCC visibility push(default)
extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) { return refuse_allocation() ? nullptr : __libc_malloc(n); }
void* calloc(size_t n, size_t each) {
  return refuse_allocation() ? nullptr : __libc_calloc(n, each);
}
void* realloc(void* p, size_t n) { return refuse_allocation() ? nullptr : __libc_realloc(p, n); }
void* memalign(size_t at, size_t n) {
  return refuse_allocation() ? nullptr : __libc_memalign(at, n);
}
void* aligned_alloc(size_t at, size_t n) {
  return refuse_allocation() ? nullptr : __libc_memalign(at, n);
}
int posix_memalign(void** out, size_t at, size_t n) {
  if (refuse_allocation()) return ENOMEM;
  *out = __libc_memalign(at, n);
  return *out ? 0 : ENOMEM;
}

}  // extern "C"
#pragma GCC visibility pop
