// The real tensors that a recording meets, and the fakes that stand for them: arguments, captured
// tensors, and what calls outside of the graph have made.
//
// Each segment has inputs of its own: arguments and captured tensors that it uses, and values of
// earlier segments, whose real tensors are known by then.
#pragma once

#include "capture/host_writes.h"
#include "capture/locate.h"
#include "capture/memory_of_inputs.h"
#include "capture/recording.h"
#include "capture/trace_policy.h"
#include "core/function_ref.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"

#include <tenon/detail/compiled.h>

#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon {

/// The tensor that a fake stands for, undefined before its segment has run.
const Tensor& concrete_of(const Tensor& fake);
/// `t`, or what stands behind it where it is a fake.
Tensor real_of(const Tensor& t);

/// Somebody keeps a fake beyond the body: it becomes the tensor that it stands for, with its
/// history. `made_here`: the program has no other handle of that tensor.
void escape(const Tensor& fake, const Tensor& real, bool made_here);

class TraceInputs {
 public:
  TraceInputs(const detail::Leaves& leaves, GraphRecorder& recorder,
              std::shared_ptr<const std::vector<Tensor>> state);

  /// Makes fakes and symbols of the arguments.
  void add_arguments(const TracePolicy& policy);
  std::span<const Tensor> argument_fakes() const { return argument_fakes_; }
  std::span<const Number> argument_numbers() const { return argument_numbers_; }
  /// What is known of the call, for its guards.
  GuardedCall recorded_call() const;

  /// What the offset of an input, where it begins in its memory, is in the graph.
  using NamedOffset = FunctionRef<SymInt(SymInt)>;
  /// What a captured tensor is in the graph.
  struct InGraph {
    FunctionRef<Dims(const Tensor& real, uint32_t slot)> sizes;
    NamedOffset offset;
  };
  /// The fake for a captured tensor; `real` is the caller's own handle.
  Tensor lift(const Tensor& real, const detail::Body& body, InGraph in_graph);
  /// The fake for a tensor that an operation outside of the graph has made.
  Tensor fake_for_result(const Tensor& real);
  /// A value of an earlier segment becomes an input of this one, as the tensor of these sizes.
  void adopt(const Tensor& fake, const Dims& sizes, NamedOffset named);
  /// Where later runs find a fake that outlives its segment.
  void set_origin(const Tensor& fake, ValueOrigin origin);
  /// The fake for a captured tensor that the body has named in an earlier segment.
  void add_known(const Tensor& real, const Tensor& fake, const ImplicitInput& met);
  /// `held` is the fake from here on that `own` was.
  void take_place(const Tensor& own, const Tensor& held);
  /// Whether the call brings a tensor over memory that another one lies in, with other storage: the
  /// recording takes them for apart.
  bool meets_lent_memory(const CallArgs& call) const;
  /// Throws where the call writes captured tensors that may not be written.
  void check_writes(const CallArgs& call) const;
  /// The fakes of captured tensors that an op gives other sizes or strides, which the body will look
  /// at.
  std::vector<Tensor> captured_changed_by(const CallArgs& call) const;
  /// The one number in an integer argument, as a symbol: a guard may decide about it. Nothing for
  /// other tensors. Only before anything was written.
  std::optional<SymInt> item_of_argument(const Tensor& fake, Dtype wanted);

  /// A new segment begins.
  void restart();
  /// The real inputs of the segment, `n` with those that are numbers.
  std::vector<detail::TensorHead*> segment_heads(size_t n) const;
  std::span<const Tensor> segment_inputs() const { return segment_inputs_; }
  const std::vector<ValueOrigin>& segment_origins() const { return segment_origins_; }
  std::vector<Overlap> segment_overlaps() const;
  /// Where an input of the segment is found after a run, also one that was written since.
  ValueOrigin origin_of(const Tensor& fake) const;
  /// Of a fake that outlives its segment; null where that is not known.
  const ValueOrigin* known_origin(const Tensor& fake) const {
    auto known = origins_.find(impl_of(fake));
    return known == origins_.end() ? nullptr : &known->second;
  }
  /// Whether a segment has made the tensor that the fake stands for.
  bool is_made_here(const Tensor& fake) const {
    const ValueOrigin* origin = known_origin(fake);
    return origin && origin->kind == ValueOrigin::Kind::graph;
  }
  /// How many references to the fake are held here.
  int32_t references(const Tensor& fake) const;

  std::vector<ImplicitInput> implicit;  ///< the captured tensors, in the order of their origins
  std::vector<SameTensor> same_tensors;
  CalledModules modules;
  HostWrites host_writes;
  bool lends_twice = false;  ///< two tensors lie in the same memory of the program's
  StandIns stand_ins;
  WrittenMemory written;  ///< by the segment
  ShownChanges shown;
  std::vector<uint32_t>
      by_place;  ///< tensor leaves that the body looks at by their place in memory

  /// The gradient that a leaf had before becomes an input.
  void lift_gradient(const Tensor& leaf, const Tensor& gradient);

 private:
  Tensor add_argument(size_t index, const TracePolicy& policy);
  Tensor add_input(const Tensor& real, const TensorMeta& meta, SymInt offset, StorageRef storage,
                   ValueOrigin origin);
  void watch_lent(const Tensor& real);
  void note_same(const Tensor& real, const Tensor& fake, const detail::Body& body);
  void share_memory(const Tensor& fake, const Tensor& real);
  void check_write(const Tensor& written) const;

  const detail::Leaves& leaves_;
  GraphRecorder& recorder_;
  ShapeEnv& env_;
  std::shared_ptr<const std::vector<Tensor>> state_;  // what may be written; null: anything
  bool any_grad_;  // requires_grad does not count: gradients are off, and guards need not be strict
  std::vector<Tensor> argument_fakes_;
  std::vector<TensorMeta> argument_metas_;  // as they came in; in-place ops change the fakes'
  std::vector<bool> arguments_need_grad_;   // likewise
  std::vector<Number> argument_numbers_;
  std::map<size_t, SymInt> argument_items_;  // by tensor leaf
  std::vector<Tensor> segment_inputs_;       // real, parallel to the graph's inputs
  std::vector<ValueOrigin> segment_origins_;
  std::vector<StorageRef> segment_storages_;  // of the fakes
  // By fake; of those that are gone it does not matter.
  std::unordered_map<const TensorImpl*, ValueOrigin> origins_;
};

/// A tensor that the body has met, real or fake, needs a gradient from the next segment on, or none.
void set_need(const TraceInputs& inputs, const Tensor& met, bool needs_grad);

}  // namespace tenon
