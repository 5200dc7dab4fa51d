// The folder of caches, by environment.
#include "config/cache_folder.h"

#include <cstdlib>

namespace tenon::config {

static std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

std::string cache_folder() {
  if (std::string own = variable("TENON_CACHE_DIR"); !own.empty()) return own;
  if (std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/tenon";
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tenon";
}

}  // namespace tenon::config
