// Recording one call of a callable: fakes in, graph out, broken where the body looks at data.
//
// Model: the body runs on fakes; its operations go into the current segment's graph. When the body
// observes a value (a number, the truth of a tensor, data_ptr), the graph breaks: the segment ends,
// its outputs are the values that some handle can still reach, it is compiled and run on the real
// inputs, and every such fake learns its real tensor. Recording goes on with a fresh segment whose
// inputs are the earlier values that it uses. So the answer that the body sees is the eager one,
// and every operation runs exactly once. A body without such a point is one graph, which is
// returned without having run.
//
// Parts: inputs.h stands between real tensors and fakes, data_symbols.h knows the numbers that
// depend on data, grad_effects.h the gradients of bodies that call backward(), log_calls.h the log
// lines that wait. Threads: a Trace lives on one thread; ops of other threads are not recorded.
#pragma once

#include "autograd/tape.h"
#include "capture/data_symbols.h"
#include "capture/earlier_turns.h"
#include "capture/inputs.h"
#include "capture/op_units.h"
#include "capture/recording.h"
#include "capture/tape/aliases.h"
#include "capture/tape/grad_effects.h"
#include "capture/trace_policy.h"
#include "graph/record.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// Runs a finished segment on real inputs, and gives the code that did it; compiles it when its like
/// was not seen before.
using SegmentRunner = std::function<std::shared_ptr<const SegmentCode>(
    const Segment& segment, std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
    std::span<Tensor> outputs)>;

class Path;
struct Frame;

/// What running a body has given.
struct BodyResults {
  detail::ResultTensors tensors;
  detail::Leaves plain;
};

class Trace {
 public:
  Trace(const detail::Leaves& leaves, const TracePolicy& policy, SegmentRunner run_segment);
  ~Trace();
  Trace(const Trace&) = delete;

  /// Runs the body on fakes, once. Throws what it throws, after having run the pending segment. A
  /// body with graph breaks has run by the end. The rules of `shape_env` are left as they are.
  Recording run(const detail::Body& body);
  /// After run() has thrown: what was recorded of the last segment, with the op that failed.
  std::shared_ptr<Graph> execution_record();

  // ---- the parts of run(), within a TraceScope, for a body that runs already

  /// What has been recorded of a body that has returned.
  Recording finish(const BodyResults& results);
  /// The body has thrown, or an operation that it left behind: what came before is done.
  void failed();
  /// The body holds `held`, which becomes the fake `own` of the recording.
  void take_place(const Tensor& own, const Tensor& held);
  /// The body has run along the first parts of `path`, that of `left`, with the tensors of
  /// the frame.
  void resume(const Recording& left, const Path& path, size_t n_parts, const Frame& frame);

  // ---- called while the body runs

  /// The trace that this thread records, or null. A body that follows a path stops following.
  static Trace* current();
  bool is_on_tape() const { return recorder_.on_tape; }
  bool records(const GraphRecorder& recorder) const { return &recorder == &recorder_; }
  /// Whether a segment is recorded that may end here.
  bool may_end_segment() {
    return !fullgraph && !is_on_tape() && !recorder_.graph().nodes().empty();
  }
  const Recording& so_far() const { return recording_; }
  /// Whether an operation of the segment takes a tensor over memory that is lent as `lent`, too.
  bool has_used_memory_of(const Tensor& lent) const;
  /// The real tensor of a fake, breaking the graph if need be.
  const Tensor& observe(const Tensor& fake, std::string_view what, std::source_location where);
  struct BreakKind {
    bool is_announced = false;  ///< also where breaks are forbidden
    bool looks = false;         ///< at data
  };
  /// Ends the segment, because of `what`; `where` has no line where the place is not known.
  void graph_break(std::string_view what, std::source_location where, BreakKind kind);
  void graph_break(std::string_view what, std::source_location where = {}) {
    graph_break(what, where, {});
  }
  /// The element as a symbol. Only where symbols().captures_scalars().
  Number item_symbol(const Tensor& t, Dtype wanted);
  /// The body depends on the mode of a module.
  void note_mode(const std::shared_ptr<const bool>& mode) {
    for (const ReadMode& known : recording_.modes)
      if (known.mode == mode) return;
    recording_.modes.push_back({mode, *mode});
  }

  /// The body asks for gradients, and may do so again.
  void note_sought() { recording_.seeks_gradients = true; }
  void note_changed_need() { recording_.changes_needs = true; }
  /// What is compiled of this recording serves only while `guard` holds.
  void keep_guard(ProgramGuard guard) { recording_.program_guards.push_back(std::move(guard)); }

  TraceInputs& inputs() { return inputs_; }
  const TraceInputs& inputs() const { return inputs_; }
  DataSymbols& symbols() { return symbols_; }
  TouchedGradients& gradients() { return gradients_; }
  /// Touched before there is a tape, in a body that must be one graph.
  TouchedGradients& early_gradients() { return early_gradients_; }
  TouchedGradients& gradients_so_far() { return is_on_tape() ? gradients_ : early_gradients_; }
  /// How many operations the body has called.
  uint32_t n_steps() const { return n_steps_; }
  AliasesOfTape& aliases() { return aliases_; }
  UnitsOfTrace& units() { return units_; }
  PendingLogCalls& log_calls() { return log_calls_; }
  /// About values of the graph that is being recorded.
  autograd::TapeRequests& requests() { return requests_; }
  /// Of all segments, which the body holds.
  std::vector<Tensor> held_fakes() const;

  const bool fullgraph;          ///< the body must be one graph
  bool leaves_body_out = false;  ///< later calls do without the body where they can
  const std::string callable;    ///< its name, for reports

 private:
  friend class TraceScope;
  friend void change_needs(Trace& trace, std::string_view what, std::source_location where);
  friend bool has_done_nothing(Trace& trace, std::span<const Tensor> results);
  friend void forget_named(Trace& trace, std::span<const Tensor> named);
  friend void start_tape(Trace& trace);
  void set_hooks();
  void run_outside(const CallArgs& call, bool is_between_segments = false);
  std::optional<SymValue> look_at(const Expr* expr);
  void break_because(std::string reason);
  void cut(std::string reason);
  void flush();
  std::vector<Tensor> escaped_of(std::vector<Tensor> fakes,
                                 std::span<const Tensor> body_outputs) const;
  void finish_escapes(std::span<const Tensor> body_outputs);
  void finish_pieces(std::span<const Tensor> body_outputs);
  void finish_graph(std::span<const Tensor> body_outputs);
  ValueOrigin origin_of(const Tensor& t, std::vector<Tensor>& results);

  const std::shared_ptr<ShapeEnv> env_;
  SegmentRunner run_segment_;
  GraphRecorder recorder_;
  TraceInputs inputs_;
  DataSymbols symbols_;
  EarlierTurns turns_;
  BodyNumbers numbers_;
  TouchedGradients gradients_, early_gradients_;
  AliasesOfTape aliases_;
  UnitsOfTrace units_;
  PendingLogCalls log_calls_;
  autograd::TapeRequests requests_;
  Recording recording_;
  std::shared_ptr<const ShapeEnv> earlier_env_;
  std::vector<const Expr*> earlier_conditions_;  // of segments that ran before, over that
  const detail::Body* body_ = nullptr;
  const bool keep_empty_;
  std::atomic<bool>* const calls_backward_;
  bool is_done_ = false;
  uint32_t n_steps_ = 0;      // operations so far
  uint32_t n_made_ = 0;       // outputs of segments so far
  bool mutates_ = false;      // in this segment
  bool has_mutated_ = false;  // in any
};

/// Ends the segment, since another tensor needs a gradient from here on: what was recorded before
/// knows nothing of it.
void begin_segment(Trace& trace, std::string_view what, std::source_location where);
/// The same where no later run can be held against the recording.
void change_needs(Trace& trace, std::string_view what, std::source_location where);
/// The body has thrown. Whether it may run once more: no segment has run, and nobody keeps a fake but
/// `results`.
bool has_done_nothing(Trace& trace, std::span<const Tensor> results);

/// Code of the program has changed what these real tensors are, which the body has named: where it
/// names them again they are others, and no later run is held against the recording.
void forget_named(Trace& trace, std::span<const Tensor> named);

/// Goes on through the tape, since the body asks for gradients. Throws WantsTape where the body has
/// to be run once more for that.
void start_tape(Trace& trace);

/// Sends this thread's operations, and what its code asks of a recording, to a trace.
class TraceScope {
 public:
  TraceScope(Trace& trace, const detail::Body& body);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;

 private:
  Trace& trace_;
  Trace* outer_;
  RecordScope ops_;
};

/// Throws UserError GraphBreakError within a compiler::ErrorOnGraphBreak of this thread.
void require_breaks_allowed(std::string_view what, std::source_location where);

/// Names what a recording needs from the user's code: file:line of the innermost user frame.
std::string user_location(std::source_location where);
/// " at FILE:LINE"; nothing where the program's line is not known.
std::string at_place(std::source_location where);
std::string at_place(const SourceLocation& where);

}  // namespace tenon
