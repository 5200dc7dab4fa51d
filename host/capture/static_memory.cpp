// Static memory by the program headers of the loaded objects.
#include "capture/static_memory.h"

#include <link.h>
#include <cstdint>

namespace tenon {

bool is_static_memory(const void* address) {
  struct Query {
    uintptr_t address;
  } query{reinterpret_cast<uintptr_t>(address)};
  return dl_iterate_phdr(
             [](dl_phdr_info* object, size_t, void* data) {
               uintptr_t wanted = static_cast<Query*>(data)->address;
               for (int i = 0; i < object->dlpi_phnum; ++i) {
                 const ElfW(Phdr)& segment = object->dlpi_phdr[i];
                 uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
                 if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) && wanted >= begin &&
                     wanted < begin + segment.p_memsz)
                   return 1;
               }
               return 0;
             },
             &query) != 0;
}

}  // namespace tenon
