// The layers of every flag, and the snapshots made from them.
#include "config/store.h"

#include "config/config.h"
#include "core/error.h"

#include <algorithm>

namespace tenon::config {

namespace detail {
constinit std::atomic<const Flags*> process_flags{nullptr};
}

void (*published_slot)(const Flags&) = nullptr;

namespace {

void print_warning(std::string_view text) {
  std::fprintf(stderr, "tenon warning: [config] %.*s\n", static_cast<int>(text.size()),
               text.data());
}

std::atomic<WarningSink> warning_sink{&print_warning};

}  // namespace

WarningSink set_warning_sink(WarningSink sink) {
  return warning_sink.exchange(sink ? sink : &print_warning);
}

Store::Access::~Access() {
  std::vector<std::string> warnings;
  if (store_.loaded_) warnings.swap(store_.warnings_);
  bool published = std::exchange(store_.published_anew_, false);
  lock_.unlock();
  if (published && published_slot) published_slot(*detail::process_flags.load());
  for (const std::string& text : warnings) warning_sink.load()(text);
}

Store& Store::instance() {
  static Store& store = *new Store();
  return store;
}

Store::Store() {
  for (const FlagDef& def : flag_defs()) add_slot(def);
}

void Store::add_slot(const FlagDef& def) {
  size_t slot = slots_.size();
  slots_.push_back({&def, {}});
  index_[def.key()] = slot;
  modules_.emplace(def.module);
  for (const std::string& alias : split(def.aliases, ' ')) {
    bool other_module = alias.find('.') != std::string::npos;
    std::string key = other_module ? alias : std::string(def.module) + "." + alias;
    ensure(index_.emplace(key, slot).second, "two flags share a name or alias: " + key);
  }
}

void Store::ensure_loaded() {
  Access access(*this);
  if (!loaded_) load();
}

void Store::reload() {
  Access access(*this);
  load();
}

void Store::forget() {
  Access access(*this);
  for (Slot& slot : slots_) slot.layers.clear();
  waiting_.clear();
  files_.clear();
  warned_.clear();
  load();
}

// Everything but set() and --set is read anew; on an error all stays as it was.
void Store::load() {
  std::vector<Slot> before = slots_;
  option_names_checked_ = false;
  auto lasting = [](Layer layer) {
    return layer == Layer::program || layer == Layer::set || layer == Layer::command_line;
  };
  try {
    for (Slot& slot : slots_)
      std::erase_if(slot.layers, [&](const LayerValue& value) { return !lasting(value.layer); });
    std::erase_if(waiting_, [&](const Reading& reading) { return !lasting(reading.layer); });
    std::vector<FlagDef> defs;
    for (const Slot& slot : slots_) defs.push_back(*slot.def);
    check_variable_names();
    std::vector<Reading> readings = read_folders({modules_.begin(), modules_.end()}, warnings_);
    auto add = [&](std::vector<Reading> more) {
      std::move(more.begin(), more.end(), std::back_inserter(readings));
    };
    for (const std::string& file : files_) add(read_file(file, Layer::file));
    add(read_environment(defs, warnings_));
    for (Reading& reading : readings) put(std::move(reading));
    publish();
    loaded_ = true;
  } catch (...) {
    slots_ = std::move(before);
    throw;
  }
}

void Store::use_file(const std::string& path) {
  Access access(*this);
  files_.push_back(path);
  try {
    load();
  } catch (...) {
    files_.pop_back();
    throw;
  }
}

void Store::apply(Reading reading) {
  std::vector<Reading> one;
  one.push_back(std::move(reading));
  apply_all(std::move(one));
}

void Store::apply_all(std::vector<Reading> readings) {
  Access access(*this);
  if (!loaded_) load();
  std::vector<Slot> before = slots_;
  try {
    for (Reading& reading : readings) put(std::move(reading));
  } catch (...) {
    slots_ = std::move(before);
    throw;
  }
  publish();
}

void Store::unset(std::string_view key) {
  Access access(*this);
  if (!loaded_) load();
  size_t slot = find(key, {.text = "config::unset"});
  std::erase_if(slots_[slot].layers,
                [](const LayerValue& value) { return value.layer == Layer::set; });
  publish();
}

size_t Store::find(std::string_view key, const Origin& origin) const {
  auto found = index_.find(key);
  if (found == index_.end()) fail_at(origin, unknown_key(key));
  return found->second;
}

std::string Store::unknown_key(std::string_view key) const {
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

void Store::put(Reading reading) {
  if (wait_for_backend(reading)) return;
  auto found = index_.find(reading.key);
  if (found == index_.end() && reading.layer == Layer::program) return;
  if (found == index_.end() && reading.tolerate_unknown) {
    if (warned_.insert(reading.key).second)
      warnings_.push_back(message("{} (set by {})", unknown_key(reading.key), reading.origin.text));
    return;
  }
  size_t slot = find(reading.key, reading.origin);
  put_value(slot, {reading.layer, fitted(slot, reading), std::move(reading.origin.text)});
}

Value Store::fitted(size_t slot, const Reading& reading) const {
  const FlagDef& def = *slots_[slot].def;
  if (def.read_only) fail_at(reading.origin, message("{} is read-only; leave it out", def.key()));
  Value value = reading.value;
  if (reading.spelled) value = value_of_text(def, std::get<std::string>(value));
  std::string problem = fit_value(def, value);
  if (!problem.empty()) fail_at(reading.origin, problem);
  return value;
}

// Files and --set may come before the backends are known.
bool Store::wait_for_backend(Reading& reading) {
  bool early = reading.layer <= Layer::file || reading.layer == Layer::command_line;
  size_t dot = reading.key.find('.');
  if (!early || dot == std::string::npos || modules_.contains(reading.key.substr(0, dot)))
    return false;
  waiting_.push_back(std::move(reading));
  return true;
}

void Store::put_value(size_t slot, LayerValue value) {
  auto& layers = slots_[slot].layers;
  warn_about(*slots_[slot].def, value);
  auto at = std::lower_bound(layers.begin(), layers.end(), value.layer,
                             [](const LayerValue& a, Layer layer) { return a.layer < layer; });
  if (at != layers.end() && at->layer == value.layer)
    *at = std::move(value);
  else
    layers.insert(at, std::move(value));
}

void Store::warn_about(const FlagDef& def, const LayerValue& value) {
  std::string setting =
      message("{} = {} (set by {})", def.key(), value_text(value.value), value.origin);
  if (!def.deprecated.empty() && warned_.insert("deprecated " + def.key()).second)
    warnings_.push_back(message("{} is deprecated: {}", setting, def.deprecated));
  if (def.status == Status::active || value.value == default_of(def)) return;
  if (!warned_.insert(def.key()).second) return;
  if (def.status == Status::pending)
    warnings_.push_back(message("{} is accepted, but has no effect yet: it comes with {}", setting,
                                def.why.empty() ? "a later version" : def.why));
  else
    warnings_.push_back(message("{} has no effect: {}", setting, def.why));
}

// Combinations of values of which one takes the effect of the other.
void Store::warn_about_combinations() {
  auto value = [&](std::string_view key) { return layers_of(index_.find(key)->second, {}).back(); };
  constexpr std::string_view needs = "functorch.generate_fake_kernels_from_real_mismatches";
  constexpr std::string_view needed = "functorch.fake_tensor_propagate_real_tensors";
  LayerValue dependent = value(needs);
  if (dependent.value != Value(true) || value(needed).value == Value(true)) return;
  if (warned_.insert(message("{} without", needs)).second)
    warnings_.push_back(message("{} = true (set by {}) does nothing without {} = true", needs,
                                dependent.origin, needed));
}

Value Store::parse(std::string_view key, std::string_view text) {
  Access access(*this);
  Reading reading{.layer = Layer::set,
                  .key = std::string(key),
                  .value = std::string(text),
                  .spelled = true,
                  .origin = {.text = message("{}={}", key, text)}};
  return fitted(find(key, reading.origin), reading);
}

void Store::check_readings(std::vector<Reading> readings) {
  Access access(*this);
  if (!loaded_) load();
  for (const Reading& reading : readings) {
    if (!index_.contains(reading.key) && reading.tolerate_unknown) continue;
    fitted(find(reading.key, reading.origin), reading);
  }
}

std::vector<Assignment> Store::check(std::span<const Setting> settings, Layer layer) {
  Access access(*this);
  if (!loaded_) load();
  std::string_view origin = layer == Layer::patch ? "config::patch" : "the options of compile()";
  std::vector<Assignment> out;
  for (const Setting& setting : settings) {
    Reading reading{.layer = layer,
                    .key = std::string(setting.key),
                    .value = setting.value,
                    .origin = {.text = std::string(origin)}};
    size_t slot = find(reading.key, reading.origin);
    const FlagDef& def = *slots_[slot].def;
    if (def.scope == Scope::process)
      fail_at(reading.origin,
              message("{} has one value for the whole process; use config::set", def.key()));
    Value value = fitted(slot, reading);
    warn_about(def, {layer, value, reading.origin.text});
    out.push_back({slot, std::move(value)});
  }
  return out;
}

LayerValue Store::default_value(size_t slot, PatchEntries patches) const {
  const FlagDef& def = *slots_[slot].def;
  if (!def.seed.empty()) {
    size_t compat = index_.find("compiler.compat")->second;
    if (layers_of(compat, patches).back().value == Value("seed"))
      return {Layer::default_, value_of_text(def, def.seed),
              "default of compiler.compat = \"seed\""};
  }
  return {Layer::default_, default_of(def), "default"};
}

std::vector<LayerValue> Store::layers_of(size_t slot, PatchEntries patches) const {
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

std::unique_ptr<Flags> Store::build(PatchEntries patches) const {
  static std::atomic<uint64_t> next_serial{1};
  auto flags = std::make_unique<Flags>();
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const FlagDef& def = *slots_[slot].def;
    if (def.field) write_field(def, *flags, layers_of(slot, patches).back().value);
  }
  flags->serial = next_serial.fetch_add(1, std::memory_order_relaxed);
  return flags;
}

std::unique_ptr<const Flags> Store::make_flags(PatchEntries patches) {
  Access access(*this);
  return build(patches);
}

void Store::publish() {
  warn_about_combinations();
  std::unique_ptr<Flags> flags = build({});
  std::string text;
  for (const Slot& slot : slots_) {
    if (slot.def->field) text += value_text(read_field(*slot.def, *flags)) + "\n";
  }
  auto [kept, is_new] = published_.emplace(std::move(text), nullptr);
  if (is_new) kept->second = std::move(flags);
  detail::process_flags.store(kept->second.get(), std::memory_order_release);
  published_anew_ = true;
}

Value Store::get(std::string_view key, PatchEntries patches) {
  Access access(*this);
  if (!loaded_) load();
  return layers_of(find(key, {.text = "config::get"}), patches).back().value;
}

FlagInfo Store::info_of(size_t slot, PatchEntries patches) const {
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

FlagInfo Store::info(std::string_view key, PatchEntries patches) {
  Access access(*this);
  if (!loaded_) load();
  return info_of(find(key, {.text = "config::info"}), patches);
}

std::vector<FlagInfo> Store::list(PatchEntries patches) {
  Access access(*this);
  if (!loaded_) load();
  std::vector<FlagInfo> out;
  for (size_t slot = 0; slot < slots_.size(); ++slot) out.push_back(info_of(slot, patches));
  return out;
}

std::vector<Source> Store::explain(std::string_view key, PatchEntries patches) {
  Access access(*this);
  if (!loaded_) load();
  std::vector<Source> out;
  for (LayerValue& value : layers_of(find(key, {.text = "config::explain"}), patches))
    out.push_back({std::string(name_of(value.layer)), value.origin, std::move(value.value)});
  return out;
}

}  // namespace tenon::config
