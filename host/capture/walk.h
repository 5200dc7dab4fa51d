// One run of a body along a path: where it is, and with which tensors and numbers.
//
// Threads: belongs to the thread of the run.
#pragma once

#include "capture/frame.h"
#include "capture/trace.h"
#include "core/function_ref.h"
#include "guards/tensor_numbers.h"

#include <tenon/detail/compiled.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// A recorded version of a callable, for following.
struct PathVersion {
  const Path* path;
  const Recording* recording;
  std::span<const TensorGuard> slot_guards;  ///< what is asked of the tensor in each slot
  void* owner;                               ///< the caller's
};

/// What a walk asks of the code of segments.
struct SegmentCalls {
  /// Code of the segment, or of one like it, that serves these symbols, or null.
  FunctionRef<std::shared_ptr<const SegmentCode>(const Segment&, std::span<const int64_t> symbols)>
      find;
  FunctionRef<void(const SegmentCode&, std::span<detail::TensorHead*> inputs,
                   std::span<const int64_t> symbols, std::span<Tensor> outputs)>
      run;
};

class Walk {
 public:
  /// `version` stays where it is.
  Walk(const detail::Leaves& leaves, const PathVersion& version);
  ~Walk();
  Walk(const Walk&) = delete;

  const PathVersion& version() const { return *version_; }
  const Path& path() const { return *version_->path; }
  const Frame& frame() const { return *frame_; }
  size_t next_step() const { return next_; }
  bool has_pending_steps() const { return next_ != begun_; }
  bool grad_enabled() const { return grad_; }  ///< around the call

  /// Whether an operation is the next step.
  bool fits_step(const CallArgs& call);
  /// Answers it, and goes on.
  void give_results(const CallArgs& call);
  /// For people: what the operation is, and what was recorded in its place.
  std::string difference(const CallArgs& call);

  /// Whether another path has the same steps so far, ended the same segments, and takes the captured
  /// tensors and numbers that the body has given.
  bool may_change_to(const PathVersion& other) const;
  /// The body goes on holding the tensors that it holds; they belong to the frame of the other path
  /// from here on.
  void change_to(const PathVersion& other);

  /// Whether a body in one piece ends here with these results, and nothing else of it is held.
  bool ends_whole(std::span<const Tensor> outputs);
  /// Whether somebody holds a fake besides the results.
  bool has_escapes(std::span<const Tensor> outputs) const;
  /// Whether a pending step writes, or draws random numbers.
  bool has_written() const;

  /// Whether the pending steps are a segment that gives all that the body holds, and has code.
  bool ends_segment(const SegmentCalls& calls);
  void run_segment(const SegmentCalls& calls);
  /// The tensor that a fake stands for; while no step is pending.
  const Tensor& real_of(const Tensor& fake) const;
  /// The number in an argument that the recording took for a symbol; nothing for other tensors.
  std::optional<Number> item_of_argument(const Tensor& fake) const;
  /// Fakes that somebody holds become what they stand for.
  void let_escape();

  /// The pending steps become the first ones of a recording, which begins here.
  void become_recording(Trace& trace);

 private:
  std::unique_ptr<Frame> lend(std::span<const int64_t> numbers) const;
  bool fits(const Value& expected, const Value& given);
  bool is_value(ValueId value, const Tensor& given);
  bool takes_numbers(const Value& expected, const Value& given);
  bool takes_slot(uint32_t slot, const Tensor& given);
  void number_known_tensors();
  void drop_slots(size_t n) {
    if (frame_->slots.size() == n) return;
    frame_->slots.resize(n);
    known_.restart(0);
  }
  bool is_output(const ValueOrigin& origin, const Tensor& given);
  bool gives_what_is_held(const Path::Part& part) const;
  std::vector<const Tensor*> inputs_of(const Path::Part& part) const;
  std::vector<int64_t> symbols_of(const Path::Part& part) const;

  const detail::Leaves& leaves_;
  const PathVersion* version_;
  std::unique_ptr<Frame> frame_;             // null: it has become a recording
  TensorNumbers known_;                      // arguments and slots, once there is a slot
  size_t next_ = 0;                          // step
  size_t begun_ = 0;                         // the first step of the part in progress
  size_t n_run_ = 0;                         // parts that have run
  std::shared_ptr<const SegmentCode> code_;  // of the pending steps, once they are a segment
  const bool grad_;                          // whether gradients are on around the call
  bool has_escaped_ = false;                 // a fake of the frame
};

}  // namespace tenon
