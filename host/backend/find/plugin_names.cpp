// Claiming names, and what became of a plugin that came too late.
#include "backend/find/plugin_names.h"

#include "core/error.h"

#include <algorithm>

namespace tenon {

namespace {

constexpr std::string_view tenon_itself = "Tenon itself";

// What makes a name mean a plugin that came too late for it.
std::string way_to(const FoundPlugin& p, const std::string& all_from) {
  if (all_from == tenon_itself) return "give the plugin another name";
  if (!all_from.empty() && p.source == PluginSource::file) return "name it before the other file";
  if (!all_from.empty()) return message("--plugin {} takes this one", p.path);
  if (p.manifest.backends.empty()) return "";
  return message("\"{}/{}\" names this one", p.manifest.name, p.manifest.backends[0].name);
}

void describe(FoundPlugin& p, const std::string& all_from, bool anything_left) {
  std::string lost;
  p.shadowed = false;
  auto add = [&](std::string_view what, const std::string& name, const std::string& by) {
    if (!by.empty())
      lost += message("{}{} {} comes from {}", lost.empty() ? "" : ", ", what, name, by);
  };
  if (!all_from.empty())
    add("plugin", p.manifest.name, all_from);
  else {
    for (size_t i = 0; i < p.backend_shadowed_by.size(); ++i)
      add("backend", p.manifest.backends[i].name, p.backend_shadowed_by[i]);
    for (size_t i = 0; i < p.device_shadowed_by.size(); ++i)
      add("device", p.manifest.devices[i].type, p.device_shadowed_by[i]);
  }
  if (lost.empty()) return;
  p.shadowed = !anything_left || !all_from.empty();
  if (p.shadowed && p.state == PluginState::found) p.state = PluginState::shadowed;
  if (!p.diagnosis) p.diagnosis = {PluginFault::shadowed, p.path, lost, way_to(p, all_from)};
}

}  // namespace

void PluginNames::claim(FoundPlugin& p) {
  const PluginManifest& m = p.manifest;
  auto is_reserved = [&](const std::string& name) { return name == "eager" && !p.in_install_dir; };
  std::string all_from(is_reserved(m.name) ? tenon_itself : take(plugins_, m.name, p.path));
  bool anything_left = !m.kernels.empty() || !m.extensions.empty() || !m.ops.empty();
  p.backend_shadowed_by.clear();
  p.device_shadowed_by.assign(m.devices.size(), "");
  for (const BackendManifest& b : m.backends) {
    std::string by = !all_from.empty()     ? all_from
                     : is_reserved(b.name) ? std::string(tenon_itself)
                                           : owner_of(b, p.path);
    anything_left = anything_left || by.empty();
    p.backend_shadowed_by.push_back(std::move(by));
  }
  if (contradicts(p)) return;
  for (size_t i = 0; i < m.devices.size(); ++i) {
    std::string& by = p.device_shadowed_by[i];
    by = all_from.empty() ? take(devices_, m.devices[i].type, p.path) : all_from;
    anything_left = anything_left || by.empty();
  }
  describe(p, all_from, anything_left);
}

/// Empty when the key is free, and now is taken; else its owner.
std::string PluginNames::take(Owners& owners, const std::string& key, const std::string& path) {
  auto [owner, is_new] = owners.emplace(key, path);
  return is_new ? "" : owner->second;
}

/// Whoever serves all devices of the backend already; else it takes those that are free.
std::string PluginNames::owner_of(const BackendManifest& b, const std::string& path) {
  std::string any = backends_.contains(b.name + "/*") ? backends_[b.name + "/*"] : "";
  std::string owner;
  bool all = !b.devices.empty();
  for (const std::string& device : b.devices) {
    std::string by = any.empty() ? take(backends_, b.name + "/" + device, path) : any;
    all = all && !by.empty();
    if (owner.empty()) owner = by;
  }
  return all ? owner : "";
}

// A name means the same options on every device: a plugin that says otherwise is not taken.
bool PluginNames::contradicts(FoundPlugin& p) {
  std::string problem;
  bool is_judged = p.state == PluginState::found;  // what is loaded stays
  for (size_t i = 0; is_judged && i < p.manifest.backends.size() && problem.empty(); ++i)
    if (p.backend_shadowed_by[i].empty()) problem = contradiction(p.manifest.backends[i]);
  if (problem.empty()) {
    for (size_t i = 0; i < p.manifest.backends.size(); ++i)
      if (p.backend_shadowed_by[i].empty()) note_options(p.manifest.backends[i], p.path);
    return false;
  }
  for (Owners* owners : {&plugins_, &backends_})
    std::erase_if(*owners, [&](const auto& entry) { return entry.second == p.path; });
  p.usable = false;
  p.state = PluginState::broken;
  p.diagnosis = {PluginFault::bad_manifest, p.path, problem,
                 "give the option another name, or declare it alike in both manifests"};
  return true;
}

std::string PluginNames::contradiction(const BackendManifest& b) const {
  for (const BackendOption& option : b.options) {
    auto known = options_.find(b.name + "." + option.name);
    if (known == options_.end()) continue;
    const auto& [other, file] = known->second;
    bool same = other.type == option.type && other.choices == option.choices &&
                other.default_value == option.default_value;
    if (!same)
      return message(
          "option {} of backend {}: expected type {} with default {}, as {} declares it "
          "for another device, found type {} with default {}{}",
          option.name, b.name, name_of(other.type), to_text(other.default_value), file,
          name_of(option.type), to_text(option.default_value),
          other.choices == option.choices ? "" : " and other choices");
  }
  return "";
}

void PluginNames::note_options(const BackendManifest& b, const std::string& path) {
  for (const BackendOption& option : b.options)
    options_.try_emplace(b.name + "." + option.name, option, path);
}

}  // namespace tenon
