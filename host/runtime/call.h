// A call site: the compiled versions of one callable, and what happens on each call.
//
// Model: entries in most-recently-hit order. A call walks them, the first whose guards hold serves
// it. A miss goes through `miss_slot` to compile/compile.cpp, which records, compiles and adds an
// entry.
//
// Threads: lookups take no lock; an entry that was dropped is freed when the last call that may use
// it ends (version_list.h). A hit behind the front moves its entry forward when nobody else is
// changing the list, and lets it be otherwise.
#pragma once

#include "config/config.h"
#include "config/flags.h"
#include "core/function_ref.h"
#include "graph/artifact.h"
#include "ops/modes/autocast_state.h"
#include "report/unit.h"
#include "runtime/entry.h"
#include "runtime/size_policy.h"
#include "runtime/version_list.h"

#include <tenon/compile.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace tenon {

enum class Eager : uint8_t;

/// Options of compile() or load() as TOML: names with a point are flags, the others options of the
/// backend.
struct OptionTexts {
  std::string flags, backend;
};
OptionTexts option_texts(const std::map<std::string, std::string>& options);

/// A compiled segment of bodies with graph breaks, found by structure.
struct SegmentCode {
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Artifact> artifact;
  /// Under which it holds, over graph->symbols that are known before it runs; nothing: only once.
  std::optional<SymProgram> conditions;
  AutocastState autocast;         ///< of its caller, which its backward may follow
  std::vector<Overlap> overlaps;  ///< of its inputs, where it writes some
  Eager because{};                ///< it runs op by op, where it should have been compiled

  /// Whether it serves a call of its graph.
  bool serves(std::span<const int64_t> symbols, std::span<const Overlap> overlaps) const;
};

namespace detail {

class Site;

/// The lock of a site. It is held while a backend compiles, whose code may be the program's: where
/// that calls or resets the same callable, lock() throws UserError, as it would wait for itself.
class ChangeLock {
 public:
  explicit ChangeLock(const Site& site) : site_(site) {}
  void lock();
  bool try_lock();
  void unlock();
  bool is_mine() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  const Site& site_;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
};

class Site {
 public:
  explicit Site(Options options);

  Options options;
  /// The flags among the options of compile(), such as "dynamo.recompile_limit"; null: none.
  config::CompileOptions flags;
  uint32_t number;               ///< first part of compile ids
  report::Unit* unit = nullptr;  ///< what a report tells of it; null: none is wanted
  /// What the options of compile() say of flags that each call asks for: capture.mode, dynamo.disable
  /// and dynamo.compiled_autograd.
  std::optional<Choice> own_mode;
  std::optional<bool> own_disable, own_compiled_autograd;
  VersionList<Entry> versions;
  /// A body that is stated pure has done something else than when it was recorded.
  std::atomic<bool> was_stale{false};
  /// Misses run eagerly: a limit was reached, or an error of its compilation was suppressed.
  std::atomic<bool> run_only{false};

  ChangeLock changing{*this};  ///< guards all below and changes of `versions`
  /// By structural hash.
  std::map<uint64_t, std::vector<std::shared_ptr<const SegmentCode>>> segments;
  std::map<size_t, int64_t> segment_versions;  ///< by place: how many were compiled
  DynamicMemory memory;
  std::atomic<uint32_t> attempts{0};  ///< also read without the lock, for names of compiles
  std::atomic<bool> limit_reported{false};
  std::atomic<bool> calls_backward{false};  ///< the body is recorded through the tape
  std::vector<std::string> recompile_reasons, break_reasons;
  bool had_first_call = false;  ///< under a stance that compiles from the second one on
  std::optional<std::pair<std::string, bool>> takes_symbols;  ///< what the backend's manifest says

  mutable std::mutex others_lock;  ///< guards with_backend
  /// For calls with another backend than its own (stances), by backend.
  std::map<std::string, std::shared_ptr<Site>> with_backend;
  bool is_for_stance = false;  ///< one of these

  struct alignas(64) Counters {
    std::atomic<int64_t> calls{0}, hits{0};
    std::atomic<int64_t> unserved{0};        ///< calls whose arguments no version takes
    std::atomic<int64_t> guard_failures{0};  ///< versions that did not take a call's arguments
  };
  std::array<Counters, 8> counters;
  std::atomic<int64_t> compiles{0}, replays{0}, eager_calls{0}, graph_breaks{0};
  std::atomic<int64_t> eager_after_limit{0}, suppressed_errors{0};
  std::atomic<Eager> eager_because{};  ///< the latest reason

  Counters& my_counters();
  /// Whether hits do without the body: it is stated pure.
  bool skips_bodies(const config::Flags& flags = config::flags()) const;
  /// Unless somebody is changing the list.
  void move_to_front(uint32_t from);
  void reset();
  ~Site();

 private:
  void add_to_process();
};

/// Whether a version takes a call with such arguments: as they are, or by running the body along what
/// was recorded.
bool has_version_for(const Site& site, const Leaves& leaves);
/// Serves a call by the first one that does; false: there is none.
bool serve_by_version(Site& site, const Leaves& leaves, const Body& body, CallResult& result);

/// Each callable that there is, under a lock: `f` makes and drops none.
void each_site(FunctionRef<void(Site&)> f);

}  // namespace detail

/// Serves a call that no entry serves; fills `result` or runs the body eagerly. Set by
/// compile/compile.cpp.
extern void (*miss_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                         detail::CallResult&);
/// Runs the body along the path of an entry that accepts the arguments. Set by compile/follow.cpp.
extern void (*follow_entry_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                                 detail::CallResult&);
/// Runs the body of a replaying entry. Set by compile/replay.cpp.
extern void (*replay_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                           detail::CallResult&);
/// Records the body anew for a hit that is due for it, see verify.h; true when that recording has
/// given the results, since the entry's code would not. Set by compile/replay.cpp.
extern bool (*verify_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                           detail::CallResult&);

}  // namespace tenon
