// Loaded in front of a program (LD_PRELOAD), makes calls of the system fail.
//
//   FAIL_ALLOCATION=N       the Nth allocation has no memory, the others have
//   FAIL_ALLOCATIONS=N      neither it nor any after it
//   FAIL_THREADS=1          no thread can be started
//   COUNT_ALLOCATIONS=FILE  how many there were goes to this file at the end
#include "interposed_malloc.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<long> made{0};
long only = 0, from = 0;
bool no_threads = false;
std::atomic<bool> begun{false};  // objects of the program that are made before main() may have all
// So may objects of a library that is being loaded, and libraries that end the process where they
// have no memory to begin with: the C library and libcrypto.
thread_local int exempt = 0;
struct Exempt {
  Exempt() { ++exempt; }
  ~Exempt() { --exempt; }
};
int (*program)(int, char**, char**) = nullptr;

long number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atol(text) : 0;
}

struct Settings {
  Settings() {
    only = number("FAIL_ALLOCATION");
    from = number("FAIL_ALLOCATIONS");
    no_threads = number("FAIL_THREADS") != 0;
    made = 0;
  }
  ~Settings() {
    const char* path = std::getenv("COUNT_ALLOCATIONS");
    long n = made;
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    std::fprintf(file, "%ld\n", n);
    std::fclose(file);
  }
} settings;

int begin(int n, char** arguments, char** environment) {
  begun = true;
  return program(n, arguments, environment);
}

}  // namespace

bool refuse_allocation() {
  if (!begun || exempt > 0) return false;
  long n = ++made;
  bool now = (only != 0 && n == only) || (from != 0 && n >= from);
  if (now) errno = ENOMEM;
  return now;
}

#pragma GCC visibility push(default)
extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int n, char** arguments, void (*init)(),
                      void (*fini)(), void (*loader_fini)(), void* stack_end) {
  using Start = decltype(&__libc_start_main);
  program = main;
  auto* start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(begin, n, arguments, init, fini, loader_fini, stack_end);
}

void* dlopen(const char* file, int mode) {
  static auto* open = reinterpret_cast<decltype(&dlopen)>(::dlsym(RTLD_NEXT, "dlopen"));
  Exempt loading;
  return open(file, mode);
}

int __cxa_thread_atexit_impl(void (*destroy)(void*), void* object, void* library) {
  using Register = int (*)(void (*)(void*), void*, void*);
  static auto* note = reinterpret_cast<Register>(::dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl"));
  Exempt registering;
  return note(destroy, object, library);
}

// As openssl/evp.h has it.
void* EVP_MD_fetch(void* context, const char* name, const char* properties) {
  using Fetch = void* (*)(void*, const char*, const char*);
  static auto* fetch = reinterpret_cast<Fetch>(::dlsym(RTLD_NEXT, "EVP_MD_fetch"));
  Exempt beginning;
  return fetch(context, name, properties);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* with) {
  if (no_threads) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, how, run, with);
}

}  // extern "C"
