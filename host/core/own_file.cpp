// Asks the loader, then the file system.
#include "core/own_file.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace tenon {

// A program that was found on the PATH knows itself by its bare name, one that changed its folder by
// a name that was.
std::string own_file() {
  Dl_info info{};
  bool is_told = ::dladdr(reinterpret_cast<void*>(&own_file), &info) != 0 && info.dli_fname &&
                 std::strchr(info.dli_fname, '/');
  auto without_links = [](const char* path) {
    std::unique_ptr<char, decltype(&std::free)> found(::realpath(path, nullptr), &std::free);
    if (!found && errno == ENOMEM) throw std::bad_alloc();
    return std::string(found ? found.get() : "");
  };
  std::string found = is_told ? without_links(info.dli_fname) : "";
  return found.empty() ? without_links("/proc/self/exe") : found;
}

}  // namespace tenon
