// The public functions about plugins.
#include <tenon/plugins.h>

#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/find/quarantine.h"
#include "backend/life/load.h"
#include "core/error.h"

#include <tenon/compile.h>
#include <tenon/plugin.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace tenon {

namespace {

PluginInfo info_of(const FoundPlugin& p) {
  PluginInfo out;
  out.path = p.path;
  out.source = name_of(p.source);
  out.name = p.manifest.name;
  if (!out.name.empty()) out.version = to_text(p.manifest.version);
  for (const BackendManifest& b : p.manifest.backends) out.backends.push_back(b.name);
  out.state = name_of(p.state);
  out.code = code_of(p.diagnosis.fault);
  out.reason = p.diagnosis.reason;
  out.hint = p.diagnosis.hint;
  for (const Diagnosis& w : p.warnings)
    out.warnings.push_back(w.hint.empty() ? w.reason : w.reason + "; " + w.hint);
  return out;
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

// A link to a file that is known already means that one: loaded once more, its entry would run twice.
std::string listed_path(PluginCatalog& catalog, const std::string& file) {
  std::error_code error;
  for (const FoundPluginPtr& p : catalog.list())
    if (std::filesystem::equivalent(p->path, file, error)) return p->path;
  return file;
}

bool is_meant(const FoundPlugin& p, const std::string& name) {
  return p.manifest.name == name || p.path == absolute(name) || p.manifest.find_backend(name);
}

}  // namespace

void rescan_plugins() {
  plugin_catalog().rescan();
  forget_single_ops();
}

std::string PluginInfo::digest() const { return digest_of(path); }

std::vector<PluginInfo> plugins() {
  std::vector<PluginInfo> out;
  for (const FoundPluginPtr& p : plugin_catalog().list()) out.push_back(info_of(*p));
  return out;
}

std::vector<PluginInfo> plugin_errors() {
  constexpr std::string_view unusable[] = {"broken", "refused", "quarantined", "faulty"};
  std::vector<PluginInfo> out = plugins();
  std::erase_if(out, [&](const PluginInfo& p) { return !std::ranges::count(unusable, p.state); });
  return out;
}

PluginInfo load_plugin(const std::string& path) {
  require(!path.empty(), "load_plugin: expected the path of a plugin, found an empty one");
  PluginCatalog& catalog = plugin_catalog();
  std::string file = listed_path(catalog, absolute(path));
  catalog.add_file(file);
  FoundPluginPtr found = catalog.find_path(file);
  if (!found)
    throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION,
                       message("{} is not loaded: a program with more rights than its user loads "
                               "installed plugins only",
                               file));
  load_plugin(catalog, found);
  found = catalog.find_path(file);
  ensure(found != nullptr, "a plugin is gone right after it was loaded");
  return info_of(*found);
}

void release_plugin(std::string_view name) {
  PluginCatalog& catalog = plugin_catalog();
  std::vector<std::string> known;
  bool released = false;
  std::vector<CrashRecord> records = crash_records(catalog.settings().quarantine);
  for (const FoundPluginPtr& p : catalog.list()) {
    if (p->state != PluginState::quarantined) continue;
    known.push_back(p->manifest.name);
    if (!is_meant(*p, std::string(name))) continue;
    for (const CrashRecord& r : records)
      if (r.file == p->path) ::unlink(r.breadcrumb.c_str());
    released = true;
  }
  require(released, "release_plugin: '{}' is not quarantined; {}", name,
          known.empty() ? "no plugin is"
                        : "the nearest that are: " + nearest_names(std::string(name), known));
  catalog.rescan();
}

}  // namespace tenon
