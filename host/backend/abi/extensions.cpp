// The list of extensions; small, so a vector under a lock.
#include "backend/abi/extensions.h"

#include <mutex>
#include <string>
#include <vector>

namespace tenon {

namespace {

struct Extension {
  std::string id;
  uint32_t version;
  const void* table;
};
std::mutex extensions_lock;
std::vector<Extension>& extensions() {
  static auto* list = new std::vector<Extension>;
  return *list;
}

}  // namespace

const void* find_extension(const char* id, uint32_t min_version, uint32_t index) {
  std::lock_guard lock(extensions_lock);
  for (const Extension& e : extensions())
    if (id && e.id == id && e.version >= min_version && index-- == 0) return e.table;
  return nullptr;
}

void add_extension(const char* id, uint32_t version, const void* table) {
  std::lock_guard lock(extensions_lock);
  extensions().push_back({id, version, table});
}

}  // namespace tenon
