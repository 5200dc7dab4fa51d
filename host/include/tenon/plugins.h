// SPDX-License-Identifier: Apache-2.0
// Plugins: which files there are, what became of them, loading one by hand, shutting all of them
// down.
//
//   for (const tenon::PluginInfo& p : tenon::plugins())
//     std::puts((p.path + ": " + p.state + " " + p.code + " " + p.reason).c_str());
//
// Backends by name are in compile.h: list_backends(), Options::backend, rescan_plugins().
// Threads: all functions may be called from any thread.
#pragma once

#include <tenon/error.h>

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// A plugin file. Where nothing could be read, name, version and backends are empty.
struct PluginInfo {
  std::string path;
  std::string source;  ///< "file", "option", "environment", "config" or "install"
  std::string name, version;
  std::vector<std::string> backends;  ///< also those that another plugin of that name shadows
  /// "found", "loaded", "ready", "draining", "down", "broken", "refused", "shadowed",
  /// "quarantined" or "faulty".
  std::string state;
  std::string code;  ///< "P14" and so on; empty when there is nothing to tell
  std::string reason, hint;
  std::vector<std::string> warnings;  ///< what is doubtful about the file, though it may be loaded

  /// "sha256:..." of the file as it is now, as plugins.allow takes it. Throws UserError bad_file.
  TENON_API std::string digest() const;
};

/// Every plugin file that was found, by precedence, after looking at the folders again. Nothing is
/// loaded. Throws UserError config when a flag of the module plugins is wrong.
TENON_API std::vector<PluginInfo> plugins();

/// Those of them that cannot be used: `reason` says why. list_backends() leaves theirs out.
TENON_API std::vector<PluginInfo> plugin_errors();
namespace compiler {
using tenon::plugin_errors;
}

/// Loads a file, which comes before all that were found by search from now on. Throws BackendError
/// plugin with the diagnosis when it cannot be used, and after shutdown().
TENON_API PluginInfo load_plugin(const std::string& path);

/// Ends the quarantine of a plugin, named by its name, a backend or its path. Throws UserError
/// invalid_argument when no such plugin is quarantined.
TENON_API void release_plugin(std::string_view name);

/// Shuts all plugins down, the last loaded one first, for good: later compiles with them and calls
/// of code that they made throw BackendError plugin or backend_call_failed with status
/// TN_FAILED_PRECONDITION; ops run on the host's own kernels, and so do compiled graphs of which a
/// plugin took nothing. Waits for calls that are running, at most 30 s. A plugin stays as it is
/// while a tensor lives in its memory, or when a call into it does not return; a warning says so.
/// Also done at the end of the process; never in a forked child. Throws UserError in a forked child
/// and when called from inside a plugin.
TENON_API void shutdown();

}  // namespace tenon
