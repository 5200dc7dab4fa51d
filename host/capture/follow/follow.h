// Running a body along a recorded path: its operations are compared with the recorded ones, not
// carried out.
//
// Problem: what a body reads besides its arguments (captured tensors, members, counters, the time
// of day) cannot be seen from outside, so code may only be used again for what the body does this
// time. Model: the body runs on every call. Each operation is held against the step of the path at
// that place and answered with the step's fakes; when the body returns what the recording returned,
// the code of the path computes just what the body asked for. A captured tensor takes the slot
// where the path met one: any tensor with the same facts will do. Method: where an operation
// differs, another path of the same call that has the same steps so far and this operation next
// takes over. Where there is none, recording begins: the steps so far are put into the recording as
// the body performed them, the fakes that the body holds become those of the recording, and it goes
// on as if it had recorded from the start. So nothing runs twice and nothing is taken for granted.
// Where the body looks at data, the segment ends as it did in the recording: it runs, and the body
// goes on with what it gave.
//
// A body that calls backward() and must be one graph has been recorded through the tape: runs go
// through it, too, so that the passes and the user's hooks and functions run over fakes, and their
// operations are compared like all else; a pass without such things is compared as a whole
// (autograd/passes/pass_unit.h), mostly before the tape is made at all (late_tape.h). The gradients of leaves are the program's while the body
// runs, and get back what they had; the code leaves what the body asked for. A recording that takes
// over goes on with the tape as it is. Cost: bench/call_overhead, `followed`.
//
// Threads: a Follower lives on one thread.
#pragma once

#include "capture/follow/late_tape.h"
#include "capture/follow/walk.h"
#include "capture/host_writes.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct UncompiledChanges;

class Follower {
 public:
  struct Helpers {
    /// The other versions that serve a call with these arguments.
    FunctionRef<std::vector<PathVersion>()> others;
    /// Whether what is not asked operation by operation holds with these captured tensors.
    FunctionRef<bool(const PathVersion&, std::span<const Tensor> slots)> holds;
    SegmentCalls segments;
    /// The trace that goes on where the body leaves `path`, the last one that fits.
    FunctionRef<std::unique_ptr<Trace>(const Path& path, const std::string& difference)> record;
    const ThreadModes& modes;  ///< around the call
    bool captures_scalars;     ///< recordings take numbers of the data for symbols
    bool is_one_graph;         ///< recordings must not be cut
  };

  /// `first` serves a call with these arguments; it and `helpers` stay where they are.
  Follower(const detail::Leaves& leaves, const PathVersion& first, const Helpers& helpers);
  ~Follower();
  Follower(const Follower&) = delete;

  /// Runs the body, once. Throws what it throws.
  void run(const detail::Body& body);

  // ---- after run()

  /// The version that the body has followed to its end; null: there is a recording.
  const PathVersion* version() const { return trace_ ? nullptr : &walk_.at().version(); }
  Recording& recording() { return *recording_; }
  /// The captured tensors, by slot, and the body's numbers that are symbols.
  std::span<const Tensor> slots() const { return walk_.at().frame().slots; }
  std::span<const int64_t> numbers() const { return walk_.at().frame().numbers; }
  /// About values of the graph of a body in one piece; nothing: there are none.
  std::optional<autograd::TapeRequests> requests() const {
    return requests_to(walk_.path().parts()[0], walk_);
  }
  /// Real tensors where the body had graph breaks.
  BodyResults& results() { return results_; }

  // ---- called while the body runs

  /// The follower of this thread, or null.
  static Follower* current();
  /// Whether the operation is the next step; then the call has its results.
  bool takes(const CallArgs& call);
  /// Whether the unit is what comes next; then all of its steps are done. Otherwise it is open until it
  /// ends: a recording that begins within has it.
  bool takes_unit(OpUnit& unit);
  void end_unit() { open_unit_ = nullptr; }
  /// The body looks at data, or does `what`: whether a segment ends here, which has run then.
  bool passes_break(std::string_view what = "it looks at data");
  /// Code between two segments has run. It may have changed what tensors of the body are: then no step
  /// is taken any more where no path has the same.
  void leave_uncompiled(const UncompiledChanges& changes);
  /// The body changes whether a captured tensor needs gradients, where the recording has a break, too.
  bool changes_need(const Tensor& captured, bool value);
  /// The same in a body on a tape of its own, of what it has named or made.
  void change_need_on_tape(const Tensor& t, bool value);
  /// A hook that is registered on `t`, where the recording had one there, too.
  std::optional<autograd::HookHandle> takes_hook(const Tensor& t, const autograd::HookWish& wish);
  /// A function, whose forward has been followed, where the recording had it.
  bool takes_function(const autograd::FunctionCall& call, const autograd::FunctionTensors& tensors);
  const Walk& walk() const { return walk_; }
  /// Whether the body has a tape of its own.
  bool is_on_tape() const { return first_.recording->has_backward; }
  HostWrites host_writes;
  /// Also where there is no tape yet, of a body that must be one graph.
  TouchedGradients& gradients() { return gradients_; }
  bool captures_scalars() const { return helpers_.captures_scalars; }
  bool is_one_graph() const { return helpers_.is_one_graph; }
  /// Goes on as a recording.
  void stop_following();

 private:
  struct Running;
  struct EndsTrace;
  bool changes_path(FunctionRef<bool()> fits);
  bool ends_segment(std::string_view what);
  bool finds_next_part();
  void settle_needs();
  bool runs_outside(const CallArgs& call);
  void answer(const CallArgs& call);
  void count_write(const Tensor& captured);
  void leave_needs();
  void take(const CallArgs& call);
  void leave_tape();
  void finish();
  void finish_segments();
  bool has_done_nothing();

  const Helpers& helpers_;
  const PathVersion& first_;
  std::vector<PathVersion> others_;
  bool asked_for_others_ = false;
  Walk walk_;
  LateTape late_tape_{walk_};
  const detail::Leaves& leaves_;
  const detail::Body* body_ = nullptr;
  OpUnit* open_unit_ = nullptr;
  size_t open_unit_step_ = 0;
  BodyResults results_;
  TouchedGradients gradients_;
  std::vector<std::pair<Tensor, bool>> needs_of_arguments_;
  std::vector<std::pair<Tensor, uint64_t>> written_;  // captured tensors, with versions before
  bool has_passed_break_ = false;
  bool has_other_needs_ = false;  // uncompiled code or the body has changed what needs gradients
  bool has_unsettled_needs_ = false;  // what comes next has not been held against that
  bool has_changed_needs_ = false;    // on the tape
  bool is_off_path_ = false;          // it stops following at the next thing it is asked
  std::vector<Tensor> changed_;       // captured tensors, by uncompiled code
  std::string difference_;            // empty: it does what is only recorded
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<TraceScope> trace_scope_;
  std::unique_ptr<Recording> recording_;
};

}  // namespace tenon
