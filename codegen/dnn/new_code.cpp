// Tries it with one page.
#include "new_code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace onednn {

namespace {

const char* try_one_page() {
  auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return "";  // no memory is another problem
  bool is_allowed = mprotect(page, bytes, PROT_READ | PROT_EXEC) == 0;
  int problem = errno;
  munmap(page, bytes);
  return is_allowed ? "" : strerrordesc_np(problem);
}

}  // namespace

const char* why_no_new_code() {
  static const char* const why = try_one_page();
  return why;
}

}  // namespace onednn
