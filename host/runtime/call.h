// A call site: the compiled versions of one callable, and what happens on each call.
//
// Model: entries in most-recently-hit order. A call walks them, the first whose guards hold serves
// it. A miss goes through `miss_slot` to compile.cpp, which records, compiles and adds an entry.
//
// Threads: lookups take no lock. Entries are only added, under `changing`; they are freed with the
// site, after a reset they just are no longer found. A hit behind the front moves its entry forward
// when nobody else is changing the list, and lets it be otherwise.
#pragma once

#include "backend/backend.h"
#include "capture/trace.h"
#include "config/config.h"
#include "guards/overlap.h"

#include <tenon/compile.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace tenon {

/// One version: guards and the code behind them.
struct Entry {
  GuardSet guards;
  std::string id;        ///< "0/1": site and attempt
  bool replays = false;  ///< the body runs on every call
  std::string replay_reason;
  std::shared_ptr<Artifact> artifact;  ///< null: nothing to compute
  std::shared_ptr<Graph> graph;        ///< as captured, for explain and verification
  std::vector<ValueOrigin> inputs, outputs;
  std::vector<LogCall> log_calls;  ///< run after the code
  std::vector<ReadMode> modes;     ///< of modules that the body has asked
  std::vector<ImplicitInput> implicit;
  std::vector<TensorGuard> implicit_guards;
  std::vector<Number> output_numbers;
  std::vector<int32_t> number_outputs;  ///< where the code computes them, see Trace
  SymProgram output_program;            ///< values of the symbolic output numbers
  size_t n_graph_outputs = 0;
  std::shared_ptr<const void> prototype;
  std::vector<detail::PlainLeaf> plain_outputs;
  std::vector<std::string> text_outputs;
  /// Of a body that calls backward(): what it leaves in leaves, which must have none before, and
  /// results whose own history the body has used up.
  bool has_backward = false;
  std::vector<GradEffect> grad_effects;
  std::vector<ValueOrigin> without_grad;
  std::vector<bool> needs_history;
  bool writes_inputs = false;              ///< the graph writes tensors in place
  std::vector<Overlap> recorded_overlaps;  ///< then: what the code takes for granted
  /// Older versions that go before this one: what they serve it does not.
  std::vector<const Entry*> excluded;
  std::atomic<uint32_t> hits{0};  ///< up to the next verification

  /// Runs the code for these arguments.
  void run(const detail::Leaves& leaves, detail::CallResult& result) const;
  /// Whether this version serves a call with these arguments.
  bool serves(const detail::Leaves& leaves) const;
  /// Why it does not, in one line.
  std::string why_not(const detail::Leaves& leaves) const;
  /// The tensors of a call that share elements, by place among the inputs of the graph.
  std::vector<Overlap> overlaps(const detail::Leaves& leaves) const;

 private:
  // Whether the tensors that the body captured are still those (or like those) that were recorded.
  bool captured_tensors_hold() const;
  bool excluded_serves(const detail::Leaves& leaves) const;
  bool modes_hold() const;
  bool gradients_are_missing(const detail::Leaves& leaves) const;
  void leave_gradients(const detail::Leaves& leaves, std::span<Tensor> made,
                       detail::CallResult& result) const;
  void run_logs(const detail::Leaves& leaves, std::span<const Tensor> made) const;
};

/// A compiled segment of bodies that are cut, found by structure.
struct SegmentCode {
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Artifact> artifact;
  SymProgram conditions;     ///< under which it holds, over graph->symbols
  AutocastOptions autocast;  ///< of its caller, which its backward may follow
};

/// What the calls so far have shown of each size, stride and number: unset, one value, or dynamic.
struct DynamicMemory {
  struct Cell {
    enum class State : uint8_t { unset, value, dynamic } state = State::unset;
    int64_t value = 0;
    void join(int64_t v);
  };
  struct TensorCells {
    std::vector<Cell> sizes, strides;
    bool rank_changed = false;
  };
  std::vector<TensorCells> tensors;
  std::vector<Cell> numbers;
  void join(const detail::Leaves& leaves);
};

namespace detail {

class Site {
 public:
  explicit Site(Options options);

  Options options;
  /// The flags among the options of compile(), such as "dynamo.recompile_limit"; null: none.
  config::CompileOptions flags;
  uint32_t number;  ///< first part of compile ids
  static constexpr size_t max_entries = 256;
  std::array<std::atomic<Entry*>, max_entries> order{};
  std::atomic<uint32_t> n_entries{0};
  std::atomic<bool> replay_for_good{false};

  std::mutex changing;                          ///< guards all below and changes of `order`
  std::vector<std::unique_ptr<Entry>> entries;  ///< all ever made
  std::map<uint64_t, std::vector<SegmentCode>> segments;  ///< by structural hash
  DynamicMemory memory;
  uint32_t attempts = 0;
  bool limit_reported = false, run_only = false;
  bool calls_backward = false;  ///< the body is recorded through the tape
  bool skipped = false;  ///< an error of its compilation was suppressed: it runs eagerly for good
  std::vector<std::string> recompile_reasons;
  std::optional<std::pair<std::string, bool>> takes_symbols;  ///< what the backend's manifest says

  struct alignas(64) Counters {
    std::atomic<int64_t> calls{0}, hits{0};
  };
  std::array<Counters, 8> counters;
  std::atomic<int64_t> compiles{0}, replays{0}, eager_calls{0}, graph_breaks{0};

  Counters& my_counters();
  void add(std::unique_ptr<Entry> entry);
  void move_to_front(size_t from);
  /// Drops the version that was hit longest ago.
  void evict_last();
  void reset();
};

}  // namespace detail

/// Serves a call that no entry serves; fills `result` or runs the body eagerly. Set by compile.cpp.
extern void (*miss_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                         detail::CallResult&);
/// Runs the body of a replaying entry. Set by compile.cpp.
extern void (*replay_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                           detail::CallResult&);
/// Decides after a hit whether to verify: every hit number that is a power of four, then every
/// `capture.retrace_check`. Set by compile.cpp.
extern bool (*verify_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                           detail::CallResult&);

}  // namespace tenon
