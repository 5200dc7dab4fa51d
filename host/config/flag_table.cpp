// Flags by key, their values by layer, and the snapshots made from them.
#include "config/flag_table.h"

#include "core/error.h"

#include <algorithm>
#include <atomic>
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

FlagTable::FlagTable() {
  for (const FlagDef& def : flag_defs()) add(def);
}

void FlagTable::add(const FlagDef& def) {
  size_t slot = slots_.size();
  slots_.push_back({&def, {}});
  modules_.emplace(def.module);
  for (const std::string& key : keys_of(def))
    ensure(index_.emplace(key, slot).second, "two flags share a name or alias: " + key);
}

bool FlagTable::has_all(std::span<const FlagDef> options) const {
  return std::all_of(options.begin(), options.end(),
                     [&](const FlagDef& option) { return index_.contains(option.key()); });
}

std::vector<FlagDef> FlagTable::add_options(std::string_view backend,
                                            std::span<const FlagDef> options) {
  modules_.emplace(backend);
  std::vector<FlagDef> added;
  for (const FlagDef& option : options) {
    if (index_.contains(option.key())) continue;
    const FlagDef& kept = keep(option);
    add(kept);
    added.push_back(kept);
  }
  return added;
}

std::vector<FlagDef> FlagTable::defs() const {
  std::vector<FlagDef> out;
  for (const Slot& slot : slots_) out.push_back(*slot.def);
  return out;
}

std::vector<const FlagDef*> FlagTable::defs_of(std::string_view module) const {
  std::vector<const FlagDef*> out;
  for (const Slot& slot : slots_) {
    if (slot.def->module == module) out.push_back(slot.def);
  }
  return out;
}

std::vector<std::string> FlagTable::backends() const {
  std::set<std::string> out;
  for (const Slot& slot : slots_) {
    if (!slot.def->field) out.emplace(slot.def->module);
  }
  return {out.begin(), out.end()};
}

size_t FlagTable::find(std::string_view key, const Origin& origin) const {
  auto found = index_.find(key);
  if (found == index_.end()) fail_at(origin, unknown_key(key));
  return found->second;
}

// Who reads a flag sets nothing that the message could blame.
size_t FlagTable::find_read(std::string_view key) const {
  auto found = index_.find(key);
  if (found == index_.end()) fail(ErrorCode::config, "{}", unknown_key(key));
  return found->second;
}

std::string FlagTable::unknown_key(std::string_view key) const {
  size_t dot = key.find('.');
  std::string_view module = key.substr(0, dot);
  std::vector<std::string> known;
  if (dot == std::string_view::npos) {
    for (const auto& [name, slot] : index_) {
      if (name.ends_with("." + std::string(key))) known.push_back(name);
    }
    if (known.empty()) {
      for (const auto& [name, slot] : index_) known.push_back(name);
    }
    return message("{} is not of the form module.flag; did you mean {}?", key,
                   nearest_names(key, known));
  }
  if (!modules_.contains(module)) {
    known.assign(modules_.begin(), modules_.end());
    return message("{} does not exist: there is no module and no backend {}; did you mean {}?", key,
                   module, nearest_names(module, known));
  }
  std::string prefix = std::string(module) + ".";
  for (const auto& [name, slot] : index_) {
    if (name.starts_with(prefix)) known.push_back(name.substr(prefix.size()));
  }
  if (known.empty()) return message("{} does not exist: backend {} has no options", key, module);
  return message("{} does not exist; did you mean {}?", key,
                 nearest_names(key.substr(dot + 1), known));
}

Value FlagTable::fitted(size_t slot, const Reading& reading) const {
  const FlagDef& def = *slots_[slot].def;
  if (def.read_only) fail_at(reading.origin, message("{} is read-only; leave it out", def.key()));
  Value value = reading.value;
  if (reading.spelled) value = value_of_text(def, std::get<std::string>(value));
  std::string problem = fit_value(def, value);
  if (!problem.empty()) fail_at(reading.origin, problem);
  return value;
}

Value FlagTable::parse(std::string_view key, std::string_view text) const {
  Reading reading{.layer = Layer::set,
                  .key = std::string(key),
                  .value = std::string(text),
                  .spelled = true,
                  .origin = {.text = message("{}={}", key, text)}};
  return fitted(find(key, reading.origin), reading);
}

void FlagTable::check(std::span<const Reading> readings) const {
  for (const Reading& reading : readings) {
    if (!index_.contains(reading.key) && reading.tolerate_unknown) continue;
    fitted(find(reading.key, reading.origin), reading);
  }
}

void FlagTable::put(size_t slot, LayerValue value) {
  auto& layers = slots_[slot].layers;
  auto at = std::lower_bound(layers.begin(), layers.end(), value.layer,
                             [](const LayerValue& a, Layer layer) { return a.layer < layer; });
  if (at != layers.end() && at->layer == value.layer)
    *at = std::move(value);
  else
    layers.insert(at, std::move(value));
}

LayerValue FlagTable::default_value(size_t slot, PatchEntries patches) const {
  const FlagDef& def = *slots_[slot].def;
  if (!def.seed.empty()) {
    size_t compat = index_.find("compiler.compat")->second;
    if (layers_of(compat, patches).back().value == Value("seed"))
      return {Layer::default_, value_of_text(def, def.seed),
              "default of compiler.compat = \"seed\""};
  }
  return {Layer::default_, default_of(def), "default"};
}

std::vector<LayerValue> FlagTable::layers_of(size_t slot, PatchEntries patches) const {
  std::vector<LayerValue> out = {default_value(slot, patches)};
  const auto& layers = slots_[slot].layers;
  auto force = std::find_if(layers.begin(), layers.end(),
                            [](const LayerValue& value) { return value.layer == Layer::force; });
  out.insert(out.end(), layers.begin(), force);
  for (Layer layer : {Layer::patch, Layer::options}) {
    for (const auto& entry : patches) {
      for (const Assignment& assignment : entry->values) {
        if (entry->layer == layer && assignment.slot == slot)
          out.push_back({layer, assignment.value, std::string(name_of(layer))});
      }
    }
  }
  out.insert(out.end(), force, layers.end());
  return out;
}

std::unique_ptr<const Flags> FlagTable::make_flags(PatchEntries patches) const {
  static std::atomic<uint64_t> next_serial{1};
  auto flags = std::make_unique<Flags>();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const FlagDef& def = *slots_[slot].def;
    if (def.field) write_field(def, *flags, layers_of(slot, patches).back().value);
  }
  flags->serial = next_serial.fetch_add(1, std::memory_order_relaxed);
  return flags;
}

Value FlagTable::get(std::string_view key, PatchEntries patches) const {
  return layers_of(find_read(key), patches).back().value;
}

FlagInfo FlagTable::info_of(size_t slot, PatchEntries patches) const {
  const FlagDef& def = *slots_[slot].def;
  LayerValue last = layers_of(slot, patches).back();
  FlagInfo out{.key = def.key(),
               .type = std::string(name_of(def.type)),
               .doc = std::string(def.doc),
               .status = std::string(name_of(def.status)),
               .why = std::string(def.why),
               .environment = {},
               .choices = split(def.choices, '|'),
               .default_value = default_value(slot, patches).value,
               .value = last.value,
               .source = {std::string(name_of(last.layer)), last.origin, last.value}};
  for (const std::string& name : variables_of(def))
    out.environment += (out.environment.empty() ? "" : " ") + name;
  return out;
}

FlagInfo FlagTable::info(std::string_view key, PatchEntries patches) const {
  return info_of(find_read(key), patches);
}

std::vector<FlagInfo> FlagTable::list(PatchEntries patches) const {
  std::vector<FlagInfo> out;
  for (size_t slot = 0; slot < slots_.size(); ++slot) out.push_back(info_of(slot, patches));
  return out;
}

std::vector<Source> FlagTable::explain(std::string_view key, PatchEntries patches) const {
  std::vector<Source> out;
  for (LayerValue& value : layers_of(find_read(key), patches))
    out.push_back({std::string(name_of(value.layer)), value.origin, std::move(value.value)});
  return out;
}

}  // namespace tenon::config
