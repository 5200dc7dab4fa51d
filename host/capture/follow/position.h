// Where a run of a body is along a path, and whether its next operation is the recorded one.
//
// A position compares operations with steps and answers them with fakes. It takes the captured
// tensors and the numbers that the body gives, and may go over to another path that has the same
// steps so far.
//
// Threads: belongs to the thread of the run.
#pragma once

#include "capture/follow/frame.h"
#include "capture/tape/grad_effects.h"
#include "core/dispatch.h"
#include "core/op_unit.h"
#include "guards/tensor_numbers.h"

#include <tenon/detail/compiled.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

/// What is asked of the tensor in a slot, after the one that a recording has met.
struct SlotGuard : TensorGuard {
  explicit SlotGuard(const ImplicitInput& met);
  bool holds(const Tensor& given) const;

  bool is_wrapped_number;
  std::vector<DenseStep> dense;
  std::optional<int64_t> offset;  ///< where it must begin in its memory
};
std::vector<SlotGuard> slot_guards(const Recording& recording);

/// A recorded version of a callable, for following.
struct PathVersion {
  const Path* path;
  const Recording* recording;
  std::span<const SlotGuard> slot_guards;
  void* owner;  ///< the caller's
};

class Position {
 public:
  /// `version` stays where it is.
  Position(const detail::Leaves& leaves, const PathVersion& version);
  ~Position();
  Position(const Position&) = delete;

  const PathVersion& version() const { return *version_; }
  const Path& path() const { return *version_->path; }
  Frame& frame() { return *frame_; }
  const Frame& frame() const { return *frame_; }
  const detail::Leaves& leaves() const { return leaves_; }
  size_t next_step() const { return next_; }
  /// What an object of the frame stands for; undefined before the segment that makes it has run.
  const Tensor& real_of(uint32_t object) const {
    const ValueOrigin& origin = path().objects()[object].origin;
    if (origin.kind == ValueOrigin::Kind::leaf) return *leaves_.tensors[origin.index];
    if (origin.kind == ValueOrigin::Kind::implicit) return frame_->slots[origin.index];
    return impl_of(frame_->objects[object])->extra->concrete;
  }
  /// False for a captured tensor that the body has yet to name.
  bool has_met(const ValueOrigin& origin) const {
    return origin.kind != ValueOrigin::Kind::implicit || origin.index < frame_->slots.size();
  }
  /// There is no frame from here on.
  void drop_frame() { frame_.reset(); }

  /// Whether an operation is the next step.
  bool fits_step(const CallArgs& call);
  /// Whether the body names a value of the path by this tensor.
  bool names(ValueId value, const Tensor& given) { return is_value(value, given); }
  /// Answers it, and goes on.
  void give_results(const CallArgs& call);
  /// Whether a unit is what comes next, see core/op_unit.h, and whether it may be taken as one.
  bool fits_unit(const OpUnit& unit);
  /// All of its steps are done; it gets what they have made.
  void pass_unit(OpUnit& unit);
  /// The objects that the body may have got, those of a range: all but what units that were passed
  /// have made for themselves.
  template <class F>
  void each_object_of_body(F f, uint32_t object, uint32_t end) const {
    for (const Path::Unit* unit : passed_units_) {
      if (unit->end_object <= object) continue;
      if (unit->first_object >= end) break;
      while (object < unit->first_object) f(object++);
      for (uint32_t given : unit->given) f(given);
      object = unit->end_object;
    }
    while (object < end) f(object++);
  }
  template <class F>
  void each_object_of_body(F f) const {
    each_object_of_body(f, 0, static_cast<uint32_t>(frame_->objects.size()));
  }
  /// The object of an argument or of a captured tensor that the body has named; no_object for others.
  uint32_t object_of_real(const Tensor& t) const;
  /// For people: what the operation is, and what was recorded in its place.
  std::string difference(const CallArgs& call);
  /// Whether tensors are the results of a body in one piece, where all steps are done, and
  /// `gradients` what it has left in leaves; null where it has no tape.
  bool fits_results(std::span<const Tensor> outputs, const TouchedGradients* gradients);

  /// Whether another path has the same steps so far, ended the same `n_parts` parts with results for
  /// all that the body holds of them, and takes the captured tensors and numbers that it has given.
  bool may_change_to(const PathVersion& other, size_t n_parts) const;
  /// The body goes on holding the tensors that it holds; they belong to the frame of the other path
  /// from here on.
  void change_to(const PathVersion& other);

 private:
  std::unique_ptr<Frame> lend(std::span<const int64_t> numbers) const;
  bool fits_arguments(const Path::Step& step, const CallArgs& call);
  bool fits(const Value& expected, const Value& given);
  bool is_value(ValueId value, const Tensor& given);
  void set_value(uint32_t object, ValueId value);
  bool is_output(const ValueOrigin& origin, const Tensor& given);
  bool takes_numbers(const Value& expected, const Value& given);
  void take_number(size_t index, int64_t word);
  bool given_numbers_hold() const;
  std::vector<int64_t> numbers_for(const Path& other) const;
  bool takes_slot(uint32_t slot, const Tensor& given);
  bool takes_sizes(uint32_t slot, const Tensor& given);
  void number_known_tensors();
  void drop_slots(size_t n);

  const detail::Leaves& leaves_;
  const PathVersion* version_;
  std::unique_ptr<Frame> frame_;
  TensorNumbers known_;                          // arguments and slots, once there is a slot
  size_t next_ = 0;                              // step
  bool has_new_numbers_ = false;                 // the next step has given some
  bool has_moved_ = false;                       // and other arguments depend on them
  std::vector<const Path::Unit*> passed_units_;  // of this path, in their order
};

}  // namespace tenon
