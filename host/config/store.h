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

#include "config/flag_table.h"
#include "config/flag_warnings.h"
#include "config/reading.h"
#include "core/threads/cancellation_off.h"

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tenon::config {

namespace detail {
/// Declares the options of all backends if the module of `key` is not known.
void know_module_of(std::string_view key);
}  // namespace detail

class Store {
 public:
  static Store& instance();

  /// The table, locked for as long as this lives. Warnings are handed out afterwards, since the
  /// sink may read flags; a store that could not be loaded keeps them for later.
  class Access {
   public:
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    const FlagTable* operator->() const { return &store_.table_; }

   private:
    friend Store;
    enum class State : uint8_t { loaded, as_it_is };
    explicit Access(Store& store, State state = State::loaded);
    CancellationOff until_done_;
    Store& store_;
    std::unique_lock<std::mutex> lock_;
  };
  /// With the values of files and environment; reads them and publishes the first snapshot unless
  /// that has been done.
  Access look() { return Access(*this); }
  /// Maybe without them: for questions about the rows.
  Access look_at_rows() { return Access(*this, Access::State::as_it_is); }

  void reload();
  void forget();
  void use_file(const std::string& path);
  /// The files of use_file().
  std::vector<std::string> files_of_command_line() {
    Access access(*this, Access::State::as_it_is);
    return files_;
  }

  void apply(Reading reading);
  void apply_all(std::vector<Reading> readings);
  void unset(std::string_view key);
  /// The settings with their slots; throws for the first wrong one.
  std::vector<Assignment> check(std::span<const Setting> settings, Layer layer,
                                std::string_view origin);

  void declare_options(std::string_view backend, std::span<const FlagDef> options);
  /// Throws for a variable TENON_<BACKEND>_<...> that names no option; to be called once all
  /// backends are declared, since the name of one may begin with that of another.
  void check_option_names();
  /// Whether that was found right since the last reload.
  bool option_names_checked();
  /// Whether a file or --set speaks of a backend that was not declared.
  bool has_unknown();
  /// Throws if so.
  void require_all_known();

 private:
  Store() = default;
  void load();
  void put(Reading reading);
  bool wait_for_backend(Reading& reading);
  void publish();

  std::mutex store_mutex_;
  bool loaded_ = false;
  bool option_names_checked_ = false;
  bool published_anew_ = false;
  FlagTable table_;
  FlagWarnings warnings_;
  std::vector<Reading> waiting_;    // for backends that are not known yet
  std::vector<std::string> files_;  // of --config
  std::map<std::string, std::unique_ptr<const Flags>> published_;  // by their text
};

/// The patches of a thread, innermost last. Never changes; threads may share it.
class PatchState {
 public:
  /// `fixed`: the values, whatever the process sets; they are those of `owner`, or of the process.
  explicit PatchState(std::vector<std::shared_ptr<const PatchEntry>> entries,
                      const Flags* fixed = nullptr,
                      std::shared_ptr<const PatchState> owner = nullptr)
      : entries_(std::move(entries)), fixed_(fixed), owner_(std::move(owner)) {}
  ~PatchState();
  PatchState(const PatchState&) = delete;
  PatchState& operator=(const PatchState&) = delete;

  PatchEntries entries() const { return entries_; }
  const Flags& flags(const Flags& process) const;

 private:
  struct Built;
  std::vector<std::shared_ptr<const PatchEntry>> entries_;
  const Flags* fixed_;
  std::shared_ptr<const PatchState> owner_;
  mutable std::atomic<const Built*> newest_{nullptr};
  mutable std::mutex build_mutex_;
};

}  // namespace tenon::config
