// The catalog of the process, made of what command line, environment and flags say.
#include "backend/catalog.h"

#include "backend/backend.h"
#include "backend/find/link_diagnosis.h"
#include "backend/life/load.h"
#include "config/cache_folder.h"
#include "config/flags.h"
#include "core/device/provider.h"
#include "core/error.h"
#include "core/joined.h"
#include "report/log.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <sstream>

namespace tenon {

namespace {

/// Leaked; the one of the process.
struct Process {
  std::mutex making;  // guards all below
  std::vector<std::string> files, folders;
  std::unique_ptr<PluginCatalog> catalog;
};

Process& process() {
  static auto* instance = new Process;
  return *instance;
}

// Other threads may be looking plugins up while one forks.
void before_fork() {
  process().making.lock();
  if (process().catalog) process().catalog->lock_for_fork();
}
void after_fork() {
  if (process().catalog) process().catalog->unlock_after_fork();
  process().making.unlock();
}

void report_on(const FoundPlugin& p, std::vector<std::string>& out) {
  out.push_back(message("  {}: {}", p.file_name(),
                        p.diagnosis ? to_text(p.diagnosis) : std::string(name_of(p.state))));
  for (const Diagnosis& w : p.warnings) out.push_back("    doubtful: " + to_text(w));
}

// Before anything can be locked: a child of a fork in between would wait for ever. The newest
// handler runs first, so the locks are taken as plugin_catalog() takes them: its own, that of the
// flags, that of the log.
[[maybe_unused]] const int registered = [] {
  report::guard_forks();
  config::guard_forks();
  return ::pthread_atfork(before_fork, after_fork, after_fork);
}();

}  // namespace

TrustMode trust_mode() {
  Choice mode = config::flags().plugins.trust;
  return mode == "strict" ? TrustMode::strict : mode == "off" ? TrustMode::off : TrustMode::owner;
}

PluginCatalog& plugin_catalog() {
  Process& p = process();
  std::lock_guard lock(p.making);
  if (p.catalog) return *p.catalog;
  SearchSettings settings;
  settings.files = p.files;
  settings.option_path = p.folders;
  settings.environment = plugin_path_variable();
  settings.config_path = config::flags().plugins.path;
  settings.install_dir = plugin_install_dir();
  settings.secure = process_is_secure();
  settings.trust = trust_mode();
  const config::PluginsFlags& flags = config::flags().plugins;
  settings.allow = AllowList(flags.allow, flags.allow_only);
  if (std::string cache = config::cache_folder(); flags.quarantine && !cache.empty())
    settings.quarantine = cache + "/plugins/loading";
  p.catalog = std::make_unique<PluginCatalog>(std::move(settings));
  return *p.catalog;
}

std::vector<RefusedPlugin> refused_plugins() {
  std::vector<RefusedPlugin> out;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    if (!is_warning(plugin->diagnosis.fault))
      out.push_back({plugin->path, code_of(plugin->diagnosis.fault), plugin->diagnosis.reason,
                     plugin->diagnosis.hint});
  return out;
}

// Of a folder its own files, not those of /x/pab for /x/pa.
static bool lies_in(const FoundPlugin& plugin, const SearchPlace& place) {
  if (plugin.path == place.path) return true;
  return std::filesystem::path(plugin.path).parent_path() ==
         std::filesystem::path(place.path + "/").parent_path();
}

std::vector<std::string> plugin_search_report() {
  std::vector<std::string> out;
  std::vector<FoundPluginPtr> plugins = plugin_catalog().list();
  for (const SearchPlace& place : plugin_catalog().places()) {
    bool is_there = ::access(place.path.c_str(), F_OK) == 0;
    out.push_back(
        message("{} ({}{})", place.path, name_of(place.source), is_there ? "" : ", not there"));
    for (const FoundPluginPtr& p : plugins)
      if (p->source == place.source && lies_in(*p, place)) report_on(*p, out);
  }
  return out;
}

namespace {

bool is_there(const std::string& library) {
  std::istringstream folders(config::flags().plugins.library_path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && ::access((folder + "/" + library).c_str(), R_OK) == 0) return true;
  return library_is_found(library);
}

// Those that name the device, in the words of `tenon backends`.
std::vector<std::string> backends_of(const std::string& device) {
  std::vector<std::string> out;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    for (const BackendManifest& b : plugin->manifest.backends)
      if (plugin->usable && std::ranges::find(b.devices, device) != b.devices.end())
        out.push_back(message("{} ({})", b.name, device));
  return out;
}

}  // namespace

std::vector<std::string> missing_device_libraries() {
  std::vector<std::string> out;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    for (const DeviceManifest& d : plugin->manifest.devices)
      for (const std::string& library : plugin->manifest.needs_library) {
        if (!plugin->usable || plugin->shadowed || is_there(library)) continue;
        std::vector<std::string> backends = backends_of(d.type);
        std::string who = backends.empty() ? "there are no tensors on it"
                                           : joined(backends, ", ") + " cannot run here";
        out.push_back(message("device {}: {} is not found, so {}", d.type, library, who));
      }
  return out;
}

void set_plugin_search(std::vector<std::string> files, std::vector<std::string> folders) {
  std::lock_guard lock(process().making);
  process().files = std::move(files);
  process().folders = std::move(folders);
  process().catalog.reset();
}

void require_named_plugins() {
  PluginCatalog& catalog = plugin_catalog();
  catalog.list();  // reads the files
  for (const SearchPlace& place : catalog.places()) {
    if (place.source != PluginSource::file) continue;
    if (FoundPluginPtr plugin = catalog.find_path(place.path)) require_usable(*plugin);
  }
}

std::string device_type_of(const Graph& graph) {
  return type_name(device_of(graph).value_or(kCPU).type);
}

std::optional<BackendChoice> choice_for(const std::string& name, const Graph& graph) {
  if (auto fitting = plugin_catalog().find_backend(name, device_type_of(graph))) return fitting;
  return plugin_catalog().find_backend(name, "");
}

std::vector<BackendChoice> siblings_of(const BackendManifest& manifest) {
  std::vector<BackendChoice> out;
  for (const FoundPluginPtr& plugin : plugin_catalog().list())
    for (size_t i = 0; plugin->usable && i < plugin->manifest.backends.size(); ++i) {
      const BackendManifest& other = plugin->manifest.backends[i];
      bool shares_a_device = std::ranges::any_of(
          other.devices, [&](const std::string& d) { return d == "*" || manifest.serves(d); });
      if (other.name == manifest.name && !shares_a_device && plugin->backend_shadowed_by[i].empty())
        out.push_back({plugin, i});
    }
  return out;
}

}  // namespace tenon
