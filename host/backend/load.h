// Loading a plugin: dlopen through Boost.DLL, entry, negotiation, table checks.
#pragma once

#include "backend/discover.h"

#include <tenon/plugin.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// A plugin whose code is mapped. Never unloaded; its tables are full-length copies, so that no
/// reader tests sizes again.
struct LoadedPlugin {
  std::string name, path;
  FoundPluginPtr found;
  std::vector<tn_backend> backends;
  std::vector<tn_kernels> kernels;
  tn_plugin table{};
};

/// Loads the plugin (once a process; later calls give the same object). Throws BackendError with
/// the diagnosis when it cannot be used. Threads: one load at a time, under the loader's lock.
const LoadedPlugin& load_plugin(PluginCatalog& catalog, const FoundPluginPtr& plugin);

/// The plugin whose entry this thread runs or checks, if it does.
std::optional<std::string> plugin_being_loaded();

/// The folder of installed plugins, found beside the library (or the program that holds the host):
/// lib/tenon/plugins.
std::string plugin_install_dir();

/// How many plugins have been mapped so far.
size_t loaded_plugin_count();

}  // namespace tenon
