// Asks for a page the way code generators do: written first, executable afterwards.
#include "core/executable_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace tenon {

bool can_make_code() {
  auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return true;  // that is a lack of memory, which others report
  *static_cast<volatile char*>(page) = 0;
  bool can = ::mprotect(page, bytes, PROT_READ | PROT_EXEC) == 0;
  ::munmap(page, bytes);
  return can;
}

}  // namespace tenon
