// The list of checks of a plugin, and which of them the settings ask for.
#include "core/error.h"
#include "debug/plugin_kit/bench.h"

#include <set>

namespace tenon::kit {

std::vector<Check> all_checks(const FoundPlugin& plugin, const KitSettings& settings) {
  std::vector<Check> checks;
  add_load_checks(checks, plugin);
  for (const BackendManifest& backend : plugin.manifest.backends) {
    add_correct_checks(checks, backend);
    add_dynamic_checks(checks, backend);
    add_robust_checks(checks, backend);
  }
  add_kernel_checks(checks, plugin);
  add_op_checks(checks, plugin);
  add_device_checks(checks, plugin);
  add_recorded_checks(checks, plugin, settings);
  return checks;
}

namespace {

std::vector<std::string> listed(const std::set<std::string>& names) {
  return std::vector<std::string>(names.begin(), names.end());
}

void require_known(const std::vector<Check>& checks, const KitSettings& settings) {
  std::set<std::string> names, backends;
  for (const Check& c : checks) {
    names.insert(c.name);
    if (!c.backend.empty()) backends.insert(c.backend);
  }
  require(settings.backend.empty() || backends.contains(settings.backend),
          ErrorCode::invalid_backend, "the plugin has no backend '{}'; the nearest are {}",
          settings.backend, nearest_names(settings.backend, listed(backends)));
  require(settings.only.empty() || names.contains(settings.only), ErrorCode::invalid_argument,
          "the kit has no check '{}' for this plugin; the nearest are {}", settings.only,
          nearest_names(settings.only, listed(names)));
}

void require_device(const FoundPlugin& plugin, const std::string& device) {
  std::set<std::string> types;
  for (const DeviceManifest& d : plugin.manifest.devices) types.insert(d.type);
  require(device.empty() || types.contains(device), ErrorCode::invalid_argument,
          "the plugin offers no device '{}'; it offers {}", device,
          types.empty() ? "none" : nearest_names(device, listed(types)));
}

bool is_of_other_device(const Check& check, const std::string& device) {
  return !device.empty() && check.name.starts_with("device.") &&
         !check.name.starts_with(message("device.{}.", device));
}

}  // namespace

std::vector<Check> wanted_checks(const FoundPlugin& plugin, const KitSettings& settings) {
  std::vector<Check> checks = all_checks(plugin, settings);
  require_known(checks, settings);
  require_device(plugin, settings.device);
  std::string needed;
  for (const Check& c : checks)
    if (c.name == settings.only) needed = c.needs;
  std::erase_if(checks, [&](const Check& c) {
    bool other_backend =
        !settings.backend.empty() && !c.backend.empty() && c.backend != settings.backend;
    bool other_name = !settings.only.empty() && c.name != settings.only && c.name != needed;
    return c.level > settings.level || other_backend || other_name ||
           is_of_other_device(c, settings.device);
  });
  return checks;
}

}  // namespace tenon::kit
