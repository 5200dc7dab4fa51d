// Which values deserve a warning.
#include "config/flag_warnings.h"

#include "core/error.h"

namespace tenon::config {

static std::string user_folder_text() {
  for (const auto& [layer, folder] : config_folders()) {
    if (layer == Layer::user) return folder;
  }
  return "~/.config/tenon";
}

void FlagWarnings::add(const std::string& about, std::string text) {
  if (said_.insert(about).second) unsaid_.push_back(std::move(text));
}

void FlagWarnings::add_unknown(const Reading& reading, const std::string& problem) {
  add(reading.key, message("{} (set by {})", problem, reading.origin.text));
}

void FlagWarnings::add_refused(const FlagDef& def, const Origin& origin) {
  add("project " + def.key(),
      message(
          "{} in the project file {} is ignored: a folder that somebody sent you must not "
          "choose paths, files, backends or caches; set it in {}.toml of the user's folder ({}), "
          "with --config or as {}",
          def.key(), origin.text, def.module, user_folder_text(),
          variable_name("TENON_", def.module, def.name)));
}

void FlagWarnings::look_at(const FlagDef& def, const LayerValue& value) {
  std::string setting =
      message("{} = {} (set by {})", def.key(), value_text(value.value), value.origin);
  if (!def.deprecated.empty())
    add("deprecated " + def.key(), message("{} is deprecated: {}", setting, def.deprecated));
  if (def.status == Status::active || value.value == default_of(def)) return;
  if (def.status == Status::pending)
    add(def.key(), message("{} is accepted, but has no effect yet: it comes with {}", setting,
                           def.why.empty() ? "a later version" : def.why));
  else
    add(def.key(), message("{} has no effect: {}", setting, def.why));
}

void FlagWarnings::look_at_combinations(const FlagTable& table) {
  auto value = [&](std::string_view key) {
    return table.layers_of(table.find(key, {}), {}).back();
  };
  constexpr std::string_view needs = "functorch.generate_fake_kernels_from_real_mismatches";
  constexpr std::string_view needed = "functorch.fake_tensor_propagate_real_tensors";
  LayerValue dependent = value(needs);
  if (dependent.value != Value(true) || value(needed).value == Value(true)) return;
  add(message("{} without", needs), message("{} = true (set by {}) does nothing without {} = true",
                                            needs, dependent.origin, needed));
}

}  // namespace tenon::config
