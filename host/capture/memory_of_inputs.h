// What the operations of a body do with the memory of arguments and captured tensors.
#pragma once

#include "core/dispatch.h"
#include "core/function_ref.h"
#include "core/tensor/storage.h"

#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon {

class GraphRecorder;
class TraceInputs;

/// The fakes that stand for the real tensors which a recording has met.
class StandIns {
 public:
  using Known = std::pair<Tensor, Tensor>;  ///< real, fake
  std::span<const Known> all() const { return all_; }
  void add(const Tensor& real, const Tensor& fake);
  /// `held` is the fake from here on that `own` was.
  void take_place(const Tensor& own, const Tensor& held);
  /// Those for which `is_gone`, which takes what it wants of the pair.
  void erase(FunctionRef<bool(Known&)> is_gone);
  /// Undefined for a tensor that the body has not named.
  Tensor fake_of(const Tensor& real) const;
  /// What the fake stands for; undefined where there is nothing.
  Tensor real_of(const Tensor& fake) const;
  /// Whether one that the body has named shares elements with it, and is another.
  bool any_overlaps(const Tensor& real) const;
  /// Where the body names these real tensors again, they are others.
  void forget(std::span<const Tensor> reals);

 private:
  using Places = std::unordered_map<const detail::TensorHead*, size_t>;
  void index(size_t place);
  void index_anew();
  std::vector<Known> all_;
  Places by_real_, by_fake_;  // the first one
};

/// Memory of real tensors that a segment writes when it runs: until then they are as they were.
class WrittenMemory {
 public:
  void note(const CallArgs& call, const StandIns& stand_ins);
  /// Whether the tensor lies in it.
  bool holds(const Tensor& real) const;
  void clear() { memory_.clear(); }

 private:
  void add(const Tensor& real);
  std::unordered_map<const Storage*, StorageRef> memory_;
};

/// Real tensors that operations of a body have turned or resized: arguments, and in one graph captured
/// tensors. Until the operations run, the body sees what they will be, whose handles it may have.
class ShownChanges {
 public:
  ShownChanges() = default;
  ~ShownChanges() { give_back(); }
  ShownChanges(const ShownChanges&) = delete;
  /// They stand for such tensors.
  void show(std::span<const Tensor> fakes, const StandIns& stand_ins);
  /// Those arguments that the call has changed.
  void show_arguments(const CallArgs& call, const TraceInputs& inputs);
  /// They are what they are again.
  void give_back();

 private:
  struct Before {
    Tensor real;
    Dims sizes, strides;
    int64_t offset;
  };
  std::vector<Before> before_;
};

/// Remembers the arguments and captured tensors that an op looks at by their place in memory, as
/// as_strided() with an offset does.
void note_places(TraceInputs& inputs, const CallArgs& call);
/// Those over the memory of `seen`.
void note_places_of(TraceInputs& inputs, const Tensor& seen);

/// Throws UserError where an op, not recorded yet, writes what must not be written with gradients on: a
/// leaf that needs a gradient, or a view that was made while they were off. On the tape, the tape asks.
void check_writes_to_tape(const TraceInputs& inputs, const GraphRecorder& recorder,
                          const CallArgs& call);

/// Whether it stands for an argument of the call.
bool is_argument(const TraceInputs& inputs, const Tensor& fake);

/// The fake begins there in its memory.
void put_at(const Tensor& fake, SymInt offset);
/// A fake that an earlier run has placed begins where its tensor does in this call, which may have been
/// let go of since.
void put_where_it_lies(const Tensor& fake);
/// Where the tensor begins that the fake stands for.
int64_t offset_of(const TraceInputs& inputs, const Tensor& fake);

/// How many elements later than `fake` a tensor of the call begins, where `of_call` is over the same
/// memory and is known to begin at `known`.
int64_t elements_beyond(const Tensor& fake, const Tensor& of_call, int64_t known);

/// Frees captured tensors that nobody else holds any more, which the body may have got from uncompiled
/// code; between two segments.
void let_go_of_captured(TraceInputs& inputs);

}  // namespace tenon
