// Closures by their bytes, static memory by the program headers of the loaded objects.
#include "capture/locate.h"

#include <link.h>

#include <cstdint>

namespace tenon {

namespace {

// Whether an address lies in the writable data of a loaded program or library: a global variable.
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

}  // namespace

// Closures keep a captured tensor as its handle (by value) or as a pointer to the handle (by
// reference); both GCC and Clang lay them out so. What is found nowhere is only held.
ImplicitInput locate(const Tensor& real, const detail::Body& body) {
  const auto* begin = static_cast<const char*>(body.closure);
  const auto* end = begin + body.closure_bytes;
  const auto* address = reinterpret_cast<const char*>(&real);
  bool stays = (address >= begin && address < end) || is_static_memory(address);
  for (const char* word = begin; !stays && word + sizeof(void*) <= end; word += sizeof(void*))
    stays = *reinterpret_cast<const Tensor* const*>(word) == &real;
  if (stays) return {.source = ImplicitInput::Source::address, .address = &real, .tensor = real};
  return {.tensor = real};
}

}  // namespace tenon
