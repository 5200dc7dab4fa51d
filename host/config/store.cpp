// Fills the table of flags from files, environment and programs, and publishes its snapshots.
#include "config/store.h"

#include "config/config.h"
#include "core/error.h"

#include <pthread.h>

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

Store::Access::Access(Store& store, State state) : store_(store), lock_(store.store_mutex_) {
  if (state == State::loaded && !store.loaded_) store.load();
}

Store::Access::~Access() {
  std::vector<std::string> warnings;
  if (store_.loaded_) warnings.swap(store_.warnings_.unsaid());
  bool published = std::exchange(store_.published_anew_, false);
  lock_.unlock();
  if (published && published_slot) published_slot(*detail::process_flags.load());
  try {
    for (const std::string& text : warnings) warning_sink.load()(text);
  } catch (const std::exception&) {
    // A sink of the program, or one without memory: the flags are as they were set.
  }
}

Store& Store::instance() {
  static Store& store = *new Store();
  // A child must not find it locked by a thread that it lacks.
  [[maybe_unused]] static const int registered =
      ::pthread_atfork([] { store.store_mutex_.lock(); }, [] { store.store_mutex_.unlock(); },
                       [] { store.store_mutex_.unlock(); });
  return store;
}

void guard_forks() { Store::instance(); }

void Store::reload() {
  Access access(*this, Access::State::as_it_is);
  load();
}

void Store::forget() {
  Access access(*this, Access::State::as_it_is);
  table_.erase_values([](const LayerValue&) { return true; });
  waiting_.clear();
  files_.clear();
  warnings_.forget();
  load();
}

// Everything but set() and --set is read anew; on an error all stays as it was.
void Store::load() {
  std::vector<Slot> before = table_.slots();
  option_names_checked_ = false;
  auto lasting = [](Layer layer) {
    return layer == Layer::program || layer == Layer::set || layer == Layer::command_line;
  };
  try {
    table_.erase_values([&](const LayerValue& value) { return !lasting(value.layer); });
    std::erase_if(waiting_, [&](const Reading& reading) { return !lasting(reading.layer); });
    check_variable_names();
    std::vector<Reading> readings =
        read_folders({table_.modules().begin(), table_.modules().end()}, warnings_);
    auto add = [&](std::vector<Reading> more) {
      std::move(more.begin(), more.end(), std::back_inserter(readings));
    };
    for (const std::string& file : files_) add(read_file(file, Layer::file));
    add(read_environment(table_.defs(), warnings_.unsaid()));
    for (Reading& reading : readings) put(std::move(reading));
    publish();
    loaded_ = true;
  } catch (...) {
    table_.restore(std::move(before));
    throw;
  }
}

void Store::use_file(const std::string& path) {
  Access access(*this, Access::State::as_it_is);
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
  std::vector<Slot> before = table_.slots();
  try {
    for (Reading& reading : readings) put(std::move(reading));
  } catch (...) {
    table_.restore(std::move(before));
    throw;
  }
  publish();
}

void Store::unset(std::string_view key) {
  Access access(*this);
  table_.erase(table_.find(key, {.text = "config::unset"}), Layer::set);
  publish();
}

void Store::put(Reading reading) {
  if (wait_for_backend(reading)) return;
  bool is_known = table_.contains(reading.key);
  if (!is_known && reading.layer == Layer::program) return;
  if (!is_known && reading.tolerate_unknown)
    return warnings_.add_unknown(reading, table_.unknown_key(reading.key));
  size_t slot = table_.find(reading.key, reading.origin);
  if (reading.layer == Layer::project && !is_project_flag(table_.def(slot)))
    return warnings_.add_refused(table_.def(slot), reading.origin);
  Value value = table_.fitted(slot, reading);
  LayerValue given{reading.layer, std::move(value), std::move(reading.origin.text)};
  warnings_.look_at(table_.def(slot), given);
  table_.put(slot, std::move(given));
}

// Files and --set may come before the backends are known.
bool Store::wait_for_backend(Reading& reading) {
  bool early = reading.layer <= Layer::file || reading.layer == Layer::command_line;
  bool has_module = reading.key.find('.') != std::string::npos;
  if (!early || !has_module || table_.has_module_of(reading.key)) return false;
  waiting_.push_back(std::move(reading));
  return true;
}

std::vector<Assignment> Store::check(std::span<const Setting> settings, Layer layer,
                                     std::string_view origin) {
  Access access(*this);
  std::vector<Assignment> out;
  for (const Setting& setting : settings) {
    Reading reading{.layer = layer,
                    .key = std::string(setting.key),
                    .value = setting.value,
                    .origin = {.text = std::string(origin)}};
    size_t slot = table_.find(reading.key, reading.origin);
    const FlagDef& def = table_.def(slot);
    if (def.scope == Scope::process)
      fail_at(reading.origin,
              message("{} has one value for the whole process; use config::set", def.key()));
    Value value = table_.fitted(slot, reading);
    warnings_.look_at(def, {layer, value, reading.origin.text});
    out.push_back({slot, std::move(value)});
  }
  return out;
}

void Store::publish() {
  warnings_.look_at_combinations(table_);
  std::unique_ptr<const Flags> flags = table_.make_flags({});
  std::string text;
  for (const Slot& slot : table_.slots()) {
    if (slot.def->field) text += value_text(read_field(*slot.def, *flags)) + "\n";
  }
  auto [kept, is_new] = published_.emplace(std::move(text), nullptr);
  if (is_new) kept->second = std::move(flags);
  detail::process_flags.store(kept->second.get(), std::memory_order_release);
  published_anew_ = true;
}

void Store::check_option_names() {
  Access access(*this);
  std::vector<std::string> backends = table_.backends();
  std::vector<std::string> known;
  for (const Slot& slot : table_.slots()) {
    if (slot.def->field) continue;
    for (const char* prefix : {"TENON_", "TENON_FORCE_"})
      known.push_back(variable_name(prefix, slot.def->module, slot.def->name));
  }
  for (const std::string& backend : backends) check_variable_names(backend, known);
  option_names_checked_ = true;
}

bool Store::option_names_checked() {
  Access access(*this, Access::State::as_it_is);
  return option_names_checked_;
}

// What is wrong stays wrong: a backend that cannot be declared is not known afterwards, so that the
// next one who asks hears of it too.
void Store::declare_options(std::string_view backend, std::span<const FlagDef> options) {
  Access access(*this);
  bool is_new = !table_.modules().contains(backend);
  if (!is_new && table_.has_all(options)) return;
  FlagTable before = table_;
  std::vector<Reading> waiting = waiting_;
  try {
    std::vector<FlagDef> added = table_.add_options(backend, options);
    std::vector<Reading> readings = std::exchange(waiting_, {});
    for (Reading& reading : read_folders({std::string(backend)}, warnings_))
      readings.push_back(std::move(reading));
    for (Reading& reading : read_environment(added, warnings_.unsaid()))
      readings.push_back(std::move(reading));
    for (Reading& reading : readings) put(std::move(reading));
  } catch (...) {
    table_ = std::move(before);
    waiting_ = std::move(waiting);
    throw;
  }
}

bool Store::has_unknown() {
  Access access(*this, Access::State::as_it_is);
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const Reading& reading) { return !reading.tolerate_unknown; });
}

void Store::require_all_known() {
  Access access(*this);
  for (const Reading& reading : waiting_) {
    if (!reading.tolerate_unknown) fail_at(reading.origin, table_.unknown_key(reading.key));
  }
}

}  // namespace tenon::config
