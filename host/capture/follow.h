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
// Cost: some 15 ns an operation, no allocation.
//
// Threads: a Follower lives on one thread.
#pragma once

#include "capture/path.h"
#include "capture/trace.h"
#include "core/function_ref.h"
#include "guards/overlap.h"

#include <tenon/detail/compiled.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

/// A recorded version of a callable, for following.
struct PathVersion {
  const Path* path;
  const Recording* recording;
  std::span<const TensorGuard> slot_guards;  ///< what is asked of the tensor in each slot
  void* owner;                               ///< the caller's
};

class Follower {
 public:
  struct Helpers {
    /// The other versions that serve a call with these arguments.
    FunctionRef<std::vector<PathVersion>()> others;
    /// Whether what is not asked operation by operation holds with these captured tensors.
    FunctionRef<bool(const PathVersion&, std::span<const Tensor> slots)> holds;
    /// The trace that goes on where the body leaves `path`, the last one that fits.
    FunctionRef<std::unique_ptr<Trace>(const Path& path, const std::string& difference)> record;
  };

  /// `first` serves a call with these arguments.
  Follower(const detail::Leaves& leaves, PathVersion first, Helpers helpers);
  ~Follower();
  Follower(const Follower&) = delete;

  /// Runs the body, once. Throws what it throws.
  void run(const detail::Body& body);

  // ---- after run()

  /// The version that the body has followed to its end; null: there is a recording.
  const PathVersion* version() const { return trace_ ? nullptr : current_; }
  Recording& recording() { return *recording_; }
  /// The captured tensors, by slot.
  std::span<const Tensor> slots() const { return frame_->slots; }
  /// The body's numbers that are symbols.
  std::span<const int64_t> numbers() const { return frame_->numbers; }
  BodyResults& results() { return results_; }

  // ---- called while the body runs

  /// Whether the operation is the next step; then the call has its results.
  bool takes(const CallArgs& call);
  /// Goes on as a recording.
  void stop_following();

 private:
  struct Running;
  const Path& path() const { return *current_->path; }
  std::unique_ptr<Frame> lend(std::span<const int64_t> numbers) const;
  bool fits_step(const CallArgs& call);
  bool fits(const Value& expected, const Value& given);
  bool is_value(ValueId value, const Tensor& given);
  bool takes_numbers(const Value& expected, const Value& given);
  bool takes_slot(uint32_t slot, const Tensor& given);
  void give_results(const CallArgs& call);
  bool switch_path(FunctionRef<bool()> fits);
  void move_frame(const PathVersion& to);
  bool is_at_end();
  bool is_output(const ValueOrigin& origin, const Tensor& given);
  bool has_escapes() const;
  std::string difference(const CallArgs& call);

  const detail::Leaves& leaves_;
  const Helpers helpers_;
  const PathVersion first_;
  std::vector<PathVersion> others_;
  bool asked_for_others_ = false;
  const PathVersion* current_ = &first_;
  std::unique_ptr<Frame> frame_;
  size_t next_ = 0;  // step
  std::string difference_ = "it does what is only recorded";
  BodyResults results_;
  const detail::Body* body_ = nullptr;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<TraceScope> trace_scope_;
  std::optional<Recording> recording_;
};

}  // namespace tenon
