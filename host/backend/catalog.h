// The plugins of this process: where they were looked for, and what became of each file.
#pragma once

#include "backend/find/discover.h"
#include "graph/graph.h"

#include <string>
#include <vector>

namespace tenon {

/// Made at first use, from command line, environment and flags.
PluginCatalog& plugin_catalog();
/// What the flag plugins.trust says.
TrustMode trust_mode();

/// "cpu", "cuda": the type of device that a graph is for, as manifests name it.
std::string device_type_of(const Graph& graph);
/// The backend of the name for the device of a graph. Several plugins may offer one name for
/// different devices; where none does for this one, who serves another says so himself.
std::optional<BackendChoice> choice_for(const std::string& name, const Graph& graph);
/// The backends of the same name as `manifest` that plugins offer for other devices only.
std::vector<BackendChoice> siblings_of(const BackendManifest& manifest);

/// Files that could not be taken, for `tenon backends`.
struct RefusedPlugin {
  std::string file, code, reason, hint;
};
std::vector<RefusedPlugin> refused_plugins();
/// Folders searched, in order, with the verdict for each file (`--why`).
std::vector<std::string> plugin_search_report();
/// "device cuda: libcuda.so.1 is not found, so inductor (cuda) cannot run here": a sentence for each
/// device whose plugin says that it needs a library which is not there. Loads nothing.
std::vector<std::string> missing_device_libraries();
/// For the command line: --plugin FILE and --plugin-path DIRS; before the first lookup.
void set_plugin_search(std::vector<std::string> files, std::vector<std::string> folders);
/// Throws what load_plugin() throws for a file of --plugin that cannot be used. Loads nothing.
void require_named_plugins();

}  // namespace tenon
