// Who has which name among the plugins that were found.
#pragma once

#include "backend/find/discover.h"

#include <map>
#include <string>
#include <utility>

namespace tenon {

/// Names of plugins, backends and devices, filled in the order of precedence. A plugin that comes too
/// late for a name is shadowed there; one that declares an option of a backend otherwise than who
/// offers the backend for another device is broken (P04). Threads: one.
class PluginNames {
 public:
  /// Says in `p` which of its names are somebody else's.
  void claim(FoundPlugin& p);

 private:
  using Owners = std::map<std::string, std::string>;

  std::string take(Owners& owners, const std::string& key, const std::string& path);
  std::string owner_of(const BackendManifest& b, const std::string& path);
  bool contradicts(FoundPlugin& p);
  std::string contradiction(const BackendManifest& b) const;
  void note_options(const BackendManifest& b, const std::string& path);

  Owners plugins_, backends_, devices_;
  std::map<std::string, std::pair<BackendOption, std::string>> options_;  // by "backend.option"
};

}  // namespace tenon
