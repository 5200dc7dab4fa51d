// Closures by their bytes, modules by the calls of the body, static memory by the program headers of
// the loaded objects.
#include "capture/locate.h"

#include <link.h>

#include <algorithm>
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

// Closures keep what they capture by value as its bytes, and by reference as a pointer to it; both GCC
// and Clang lay them out so.
class Closure {
 public:
  explicit Closure(const detail::Body& body)
      : begin_(static_cast<const std::byte*>(body.closure)), end_(begin_ + body.closure_bytes) {}

  bool holds(const void* address) const { return address >= begin_ && address < end_; }
  bool points_to(const void* address) const {
    for (const std::byte* word = begin_; word + sizeof(void*) <= end_; word += sizeof(void*))
      if (*reinterpret_cast<const void* const*>(word) == address) return true;
    return false;
  }
  /// Whether it lies in a module that the closure points to.
  bool reaches(const void* address, std::span<const ModuleMemory> modules) const {
    return std::ranges::any_of(modules, [&](const ModuleMemory& module) {
      return address >= module.data() && address < module.data() + module.size() &&
             points_to(module.data());
    });
  }

 private:
  const std::byte *begin_, *end_;
};

}  // namespace

void CalledModules::add(ModuleMemory module) {
  auto is_known = [&](const ModuleMemory& known) {
    return known.data() == module.data() && known.size() >= module.size();
  };
  if (std::ranges::none_of(all_, is_known)) all_.push_back(module);
}

// What is found nowhere is only held.
ImplicitInput locate(const Tensor& real, const detail::Body& body,
                     std::span<const ModuleMemory> modules) {
  Closure closure(body);
  bool stays = closure.holds(&real) || closure.points_to(&real) ||
               closure.reaches(&real, modules) || is_static_memory(&real);
  if (stays) return {.source = ImplicitInput::Source::address, .address = &real, .tensor = real};
  return {.tensor = real};
}

}  // namespace tenon
