// Loading a plugin: dlopen through Boost.DLL, entry, negotiation, table checks.
#pragma once

#include "backend/abi/plugin_tables.h"
#include "backend/find/discover.h"
#include "backend/life/plugin_call.h"

#include <tenon/plugin.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// A plugin whose code is mapped. Lives as long as the process.
struct LoadedPlugin : PluginTables {
  explicit LoadedPlugin(const FoundPluginPtr& plugin)
      : name(plugin->manifest.name), path(plugin->path), found(plugin), net(name, path) {}

  std::string name, path;
  FoundPluginPtr found;
  mutable PluginNet net;       ///< under each of its functions
  const void* base = nullptr;  ///< where the library begins
  mutable std::atomic<bool> has_compiled{false};
};

/// Loads the plugin (once a process; later calls give the same object). Throws BackendError with
/// the diagnosis when it cannot be used, or when an exception has left it since, and after
/// shutdown(). Threads: one load at a time, under the loader's lock; what an entry needs is loaded
/// inside of it.
const LoadedPlugin& load_plugin(PluginCatalog& catalog, const FoundPluginPtr& plugin);

/// Whether this thread is loading the plugin. Waits for another thread that does.
bool is_being_loaded(const FoundPlugin& plugin);

/// Throws BackendError with the diagnosis of a plugin that was found and cannot be used.
void require_usable(const FoundPlugin& plugin);

/// The plugins that were loaded, in the order of their initialisation.
std::vector<const LoadedPlugin*> loaded_plugins();
/// Closes the library of a plugin that is down. Whether it goes is up to the dynamic linker.
void unmap(const LoadedPlugin& plugin);
/// The plugin whose entry this thread runs or checks, if it does.
std::optional<std::string> plugin_being_loaded();

/// The folder of installed plugins, found beside the library (or the program that holds the host):
/// lib/tenon/plugins.
std::string plugin_install_dir();

}  // namespace tenon
