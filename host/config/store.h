// Where the values of all flags are kept: a list of layers each, from which snapshots are made.
//
// Problem. A flag can be set in eleven places, low to high: default, install, user, project,
// --config, environment, config::set, --set, patch, compile options, TENON_FORCE_. Readers want one
// plain struct, at the price of a load; `tenon config doc` wants to know what each layer said.
//
// Model. The store holds, for each flag, the values of the layers of the process. A change makes a
// new snapshot (Flags) and publishes its address; snapshots that were published are kept, equal
// ones once, so a reference to one never dangles. Patches and compile options belong to a thread: a
// PatchState is an immutable list of them and makes snapshots of its own, one for each process
// snapshot that it meets. Its `patch` entries count first, its `options` entries over them, and
// what TENON_FORCE_ says over both.
//
// Options of backends have no field in Flags. They become known when a manifest is read
// (declare_options); until then values for them wait, and require_all_known() reports those that
// nobody claimed.
//
// Cost. flags(): two loads outside a patch, a lock-free lookup inside. A change: some 50 us.
//
// Threads: every function may be called from any thread; one lock guards the store. Warnings go to
// the sink after it is released, since the sink may read flags.
#pragma once

#include "config/flag_def.h"
#include "config/reading.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tenon::config {

struct LayerValue {
  Layer layer;
  Value value;
  std::string origin;
};

struct Slot {
  const FlagDef* def;
  std::vector<LayerValue> layers;  // without the default; sorted by layer
};

/// A value of one flag inside a patch or a set of compile options.
struct Assignment {
  size_t slot;
  Value value;
};

struct PatchEntry {
  Layer layer;  // patch or options
  std::vector<Assignment> values;
};

using PatchEntries = std::span<const std::shared_ptr<const PatchEntry>>;

namespace detail {
/// Declares the options of all backends if the module of `key` is not known.
void know_module_of(std::string_view key);
}  // namespace detail

class Store {
 public:
  static Store& instance();

  /// Reads files and environment unless that has been done, and publishes the first snapshot.
  void ensure_loaded();
  void reload();
  void forget();

  void apply(Reading reading);
  void apply_all(std::vector<Reading> readings);
  void unset(std::string_view key);
  void use_file(const std::string& path);
  void declare_options(std::string_view backend, std::span<const FlagDef> options);
  void require_all_known();
  /// Throws for a variable TENON_<BACKEND>_<...> that names no option; to be called once all
  /// backends are declared, since the name of one may begin with that of another.
  void check_option_names();
  /// Whether that was found right since the last reload.
  bool option_names_checked();
  /// Whether the module of `key` is one of flags or a backend that was declared.
  bool knows_module_of(std::string_view key);
  /// Whether a file or --set speaks of a backend that was not declared.
  bool has_unknown();
  /// The rows of a module, of flags or of a backend.
  std::vector<const FlagDef*> defs_of(std::string_view module);
  /// The backends that were declared with options, sorted.
  std::vector<std::string> backends();

  /// The value that `text` spells for the flag; throws if it spells none.
  Value parse(std::string_view key, std::string_view text);
  /// Throws for the first reading that apply_all() would not take.
  void check_readings(std::vector<Reading> readings);
  /// The settings with their slots; throws for the first wrong one.
  std::vector<Assignment> check(std::span<const Setting> settings, Layer layer);

  Value get(std::string_view key, PatchEntries patches);
  FlagInfo info(std::string_view key, PatchEntries patches);
  std::vector<FlagInfo> list(PatchEntries patches);
  std::vector<Source> explain(std::string_view key, PatchEntries patches);
  /// A snapshot with `patches` over the values of the process.
  std::unique_ptr<const Flags> make_flags(PatchEntries patches);

 private:
  // Holds the lock and hands the warnings out once it is released: the sink may read flags. A store
  // that could not be loaded keeps them for later.
  class Access {
   public:
    explicit Access(Store& store) : store_(store), lock_(store.store_mutex_) {}
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    Store& store_;
    std::unique_lock<std::mutex> lock_;
  };

  Store();
  void load();
  size_t find(std::string_view key, const Origin& origin) const;
  std::string unknown_key(std::string_view key) const;
  void put(Reading reading);
  Value fitted(size_t slot, const Reading& reading) const;
  void put_value(size_t slot, LayerValue value);
  bool wait_for_backend(Reading& reading);
  void warn_about(const FlagDef& def, const LayerValue& value);
  void warn_about_combinations();
  void add_slot(const FlagDef& def);
  std::vector<FlagDef> add_options(std::string_view backend, std::span<const FlagDef> options);
  void publish();
  std::vector<LayerValue> layers_of(size_t slot, PatchEntries patches) const;
  LayerValue default_value(size_t slot, PatchEntries patches) const;
  FlagInfo info_of(size_t slot, PatchEntries patches) const;
  std::unique_ptr<Flags> build(PatchEntries patches) const;

  std::mutex store_mutex_;
  bool loaded_ = false;
  bool option_names_checked_ = false;
  bool published_anew_ = false;
  std::vector<Slot> slots_;
  std::map<std::string, size_t, std::less<>> index_;  // keys and aliases
  std::set<std::string, std::less<>> modules_;        // with those of backends
  std::vector<Reading> waiting_;                      // for backends that are not known yet
  std::vector<std::string> files_;                    // of --config
  std::map<std::string, std::unique_ptr<const Flags>> published_;  // by their text
  std::vector<std::string> warnings_;
  std::set<std::string> warned_;
};

/// The patches of a thread, innermost last. Never changes; threads may share it.
class PatchState {
 public:
  explicit PatchState(std::vector<std::shared_ptr<const PatchEntry>> entries)
      : entries_(std::move(entries)) {}
  ~PatchState();
  PatchState(const PatchState&) = delete;
  PatchState& operator=(const PatchState&) = delete;

  PatchEntries entries() const { return entries_; }
  const Flags& flags(const Flags& process) const;

 private:
  struct Built;
  std::vector<std::shared_ptr<const PatchEntry>> entries_;
  mutable std::atomic<const Built*> newest_{nullptr};
  mutable std::mutex build_mutex_;
};

}  // namespace tenon::config
