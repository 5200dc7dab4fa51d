// Patches: values that count for one thread, and how other threads take them over.
#include "config/config.h"
#include "config/store.h"

#include <algorithm>

namespace tenon::config {

namespace detail {
constinit thread_local bool patched = false;
}

namespace {

thread_local ThreadPatches current_patches;
// A patch may outlive the locals of its thread, where the program calls exit() within its scope.
struct EndOfThread {
  ~EndOfThread() { detail::patched = false; }
};

ThreadPatches exchange_patches(ThreadPatches patches) {
  thread_local const EndOfThread end;
  static_cast<void>(end);
  detail::patched = patches != nullptr;
  return std::exchange(current_patches, std::move(patches));
}

std::vector<std::shared_ptr<const PatchEntry>> entries_now() {
  if (!detail::patched) return {};
  PatchEntries entries = current_patches->entries();
  return {entries.begin(), entries.end()};
}

ThreadPatches state_of(std::vector<std::shared_ptr<const PatchEntry>> entries) {
  return entries.empty() ? nullptr : std::make_shared<const PatchState>(std::move(entries));
}

ThreadPatches with_entry(std::shared_ptr<const PatchEntry> entry) {
  auto entries = entries_now();
  entries.push_back(std::move(entry));
  return state_of(std::move(entries));
}

PatchEntries patches_now() { return detail::patched ? current_patches->entries() : PatchEntries(); }

}  // namespace

struct PatchState::Built {
  const Flags* process;
  std::unique_ptr<const Flags> flags;
  const Built* older;
};

PatchState::~PatchState() {
  for (const Built* built = newest_; built != nullptr;) delete std::exchange(built, built->older);
}

// One snapshot for each process snapshot met: references handed out stay good.
const Flags& PatchState::flags(const Flags& process) const {
  if (fixed_) return *fixed_;
  const Built* newest = newest_.load(std::memory_order_acquire);
  if (newest != nullptr && newest->process == &process) return *newest->flags;
  std::lock_guard lock(build_mutex_);
  newest = newest_.load(std::memory_order_relaxed);
  if (newest == nullptr || newest->process != &process) {
    newest = new Built{&process, Store::instance().look()->make_flags(entries_), newest};
    newest_.store(newest, std::memory_order_release);
  }
  return *newest->flags;
}

const Flags& detail::slow_flags() {
  if (process_flags.load(std::memory_order_acquire) == nullptr) Store::instance().look();
  const Flags& process = *process_flags.load(std::memory_order_acquire);
  return detail::patched ? current_patches->flags(process) : process;
}

namespace {
void know_modules_of(std::span<const Setting> settings) {
  for (const Setting& setting : settings) detail::know_module_of(setting.key);
}
}  // namespace

Patch::Patch(std::vector<Setting> settings) {
  know_modules_of(settings);
  auto entry = std::make_shared<const PatchEntry>(
      PatchEntry{Layer::patch, Store::instance().check(settings, Layer::patch, "config::patch")});
  exchange_patches(with_entry(entry));
  entry_ = entry;
}

// Also right when patches end in another order than they began.
Patch::~Patch() {
  if (!entry_) return;
  auto entries = entries_now();
  std::erase_if(entries, [&](const auto& entry) { return entry == entry_; });
  exchange_patches(state_of(std::move(entries)));
}

static CompileOptions options_of(std::span<const Setting> settings, std::string_view source) {
  if (settings.empty()) return nullptr;
  know_modules_of(settings);
  return std::make_shared<const PatchEntry>(
      PatchEntry{Layer::options, Store::instance().check(settings, Layer::options, source)});
}

CompileOptions check_options(std::span<const Setting> settings) {
  return options_of(settings, "the options of compile()");
}

CompileOptions check_options(std::string_view toml, std::string_view source) {
  std::vector<Reading> readings = read_text(toml, source, Layer::options);
  std::vector<Setting> settings;
  for (Reading& reading : readings) settings.push_back({reading.key, std::move(reading.value)});
  return options_of(settings, source);
}

OptionScope::OptionScope(const CompileOptions& options) : entry_(options) {
  if (!entry_) return;
  before_ = current_patches;
  exchange_patches(mine_ = with_entry(entry_));
}

// A recording that begins in the middle of a body outlives patches of the body that began before.
OptionScope::~OptionScope() {
  if (!entry_) return;
  if (current_patches == mine_) {
    exchange_patches(std::move(before_));
    return;
  }
  auto entries = entries_now();
  if (auto mine = std::find(entries.rbegin(), entries.rend(), entry_); mine != entries.rend())
    entries.erase(std::next(mine).base());
  exchange_patches(state_of(std::move(entries)));
}

ThreadPatches thread_patches() { return current_patches; }
ThreadPatches flags_as_they_are() {
  const Flags& now = flags();
  return std::make_shared<const PatchState>(entries_now(), &now, current_patches);
}
InheritPatches::InheritPatches(ThreadPatches patches)
    : before_(exchange_patches(std::move(patches))) {}
InheritPatches::~InheritPatches() { exchange_patches(std::move(before_)); }

Value get(std::string_view key) {
  detail::know_module_of(key);
  return Store::instance().look()->get(key, patches_now());
}

FlagInfo info(std::string_view key) {
  detail::know_module_of(key);
  return Store::instance().look()->info(key, patches_now());
}

std::vector<FlagInfo> list() { return Store::instance().look()->list(patches_now()); }

std::vector<Source> explain(std::string_view key) {
  detail::know_module_of(key);
  return Store::instance().look()->explain(key, patches_now());
}

}  // namespace tenon::config
