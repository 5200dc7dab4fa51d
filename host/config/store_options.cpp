// Options of backends in the store: they become known when a manifest is read.
#include "config/store.h"

#include "core/error.h"

#include <algorithm>
#include <deque>

namespace tenon::config {

namespace {

// Texts of options live as long as the process, like those of the .def files.
std::string_view keep(std::string_view text) {
  static auto& texts = *new std::set<std::string, std::less<>>();
  return *texts.emplace(text).first;
}

const FlagDef& keep(const FlagDef& def) {
  static auto& defs = *new std::deque<FlagDef>();
  FlagDef& kept = defs.emplace_back(def);
  for (std::string_view* text : {&kept.module, &kept.name, &kept.doc, &kept.choices, &kept.env,
                                 &kept.aliases, &kept.seed, &kept.why})
    *text = keep(*text);
  return kept;
}

}  // namespace

// The rows of `options` that were not known.
std::vector<FlagDef> Store::add_options(std::string_view backend,
                                        std::span<const FlagDef> options) {
  modules_.emplace(backend);
  std::vector<FlagDef> added;
  for (const FlagDef& option : options) {
    if (index_.contains(option.key())) continue;
    const FlagDef& kept = keep(option);
    add_slot(kept);
    added.push_back(kept);
  }
  return added;
}

void Store::check_option_names() {
  Access access(*this);
  if (!loaded_) load();
  std::set<std::string> backends;
  std::vector<std::string> known;
  for (const Slot& slot : slots_) {
    if (slot.def->field) continue;
    backends.emplace(slot.def->module);
    for (const char* prefix : {"TENON_", "TENON_FORCE_"})
      known.push_back(variable_name(prefix, slot.def->module, slot.def->name));
  }
  for (const std::string& backend : backends) check_variable_names(backend, known);
  option_names_checked_ = true;
}

bool Store::option_names_checked() {
  Access access(*this);
  return option_names_checked_;
}

// What is wrong stays wrong: a backend that cannot be declared is not known afterwards, so that the
// next one who asks hears of it too.
void Store::declare_options(std::string_view backend, std::span<const FlagDef> options) {
  Access access(*this);
  if (!loaded_) load();
  bool is_new = !modules_.contains(backend);
  std::vector<Slot> before = slots_;
  std::vector<Reading> waiting = waiting_;
  try {
    std::vector<FlagDef> added = add_options(backend, options);
    if (!is_new && added.empty()) return;
    std::vector<Reading> readings = std::exchange(waiting_, {});
    for (Reading& reading : read_folders({std::string(backend)}, warnings_))
      readings.push_back(std::move(reading));
    for (Reading& reading : read_environment(added, warnings_))
      readings.push_back(std::move(reading));
    for (Reading& reading : readings) put(std::move(reading));
  } catch (...) {
    std::erase_if(index_, [&](const auto& entry) { return entry.second >= before.size(); });
    if (is_new) modules_.erase(modules_.find(backend));
    slots_ = std::move(before);
    waiting_ = std::move(waiting);
    throw;
  }
}

bool Store::knows_module_of(std::string_view key) {
  Access access(*this);
  return modules_.contains(key.substr(0, key.find('.')));
}

bool Store::has_unknown() {
  Access access(*this);
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const Reading& reading) { return !reading.tolerate_unknown; });
}

void Store::require_all_known() {
  Access access(*this);
  if (!loaded_) load();
  for (const Reading& reading : waiting_) {
    if (!reading.tolerate_unknown) fail_at(reading.origin, unknown_key(reading.key));
  }
}

std::vector<const FlagDef*> Store::defs_of(std::string_view module) {
  Access access(*this);
  std::vector<const FlagDef*> out;
  for (const Slot& slot : slots_) {
    if (slot.def->module == module) out.push_back(slot.def);
  }
  return out;
}

std::vector<std::string> Store::backends() {
  Access access(*this);
  std::set<std::string> out;
  for (const Slot& slot : slots_) {
    if (!slot.def->field) out.emplace(slot.def->module);
  }
  return {out.begin(), out.end()};
}

}  // namespace tenon::config
