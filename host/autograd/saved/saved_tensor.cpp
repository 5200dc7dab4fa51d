// Tensors that nodes keep.
#include "autograd/saved/saved_tensor.h"

#include "autograd/collector.h"
#include "autograd/grad_state.h"
#include "autograd/saved/saved_tensor_hooks.h"
#include "autograd/view.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/stand_in.h"

namespace tenon::autograd {

Tensor bare_alias(const Tensor& t) {
  Tensor out = make_view(t, t.sizes(), t.strides(), sym_offset_of(t));
  if (const TensorExtra* extra = impl_of(t)->extra.get(); extra && extra->trace_id) {
    TensorExtra& own = impl_of(out)->ensure_extra();
    own.trace_id = extra->trace_id;
    own.trace_value = extra->trace_value;
  }
  return out;
}

// A view is kept without its base: a base that is written later has a history that may lead here,
// and would keep itself alive.
SavedTensor::SavedTensor(const Tensor& given, bool is_result, uint32_t result_input)
    : result_input_(result_input), is_result_(is_result), defined_(given.defined()) {
  if (!defined_) return;
  const Tensor* object = stands_for(given);  // `given` may be a fake again when the pass comes
  const Tensor& t = object ? *object : given;
  version_ = version_of(t);
  bool is_view = impl_of(t)->base.defined();
  tensor_ = is_result || is_view ? bare_alias(t) : t;
  std::shared_ptr<const PackedTensor> packed = pack(is_result ? tensor_ : t);
  if (!packed && !is_view) return;
  if (packed) tensor_ = Tensor();
  apart_ = std::make_unique<Apart>(Apart{std::move(packed), is_result ? Edge() : edge_of(t)});
}

void fail_released(const Node& node) {
  fail(
      "backward through {} a second time: what it had kept was freed by the first pass; pass "
      "retain_graph = true to that one",
      node.name());
}

static void fail_written(const Unpacked& saved, const Node& owner, std::string_view what) {
  const Tensor& t = saved.tensor;
  std::string origin = owner.origin();
  fail(
      "{}: {} of shape {}, which its backward needs, was modified in place: it is at version {}, "
      "expected version {}; write to a clone, or do it before ({})",
      owner.name(), what, t.sizes(), version_of(t), saved.version,
      origin.empty() ? "a DetectAnomalyGuard around the forward pass tells where it was recorded"
                     : "recorded at " + origin);
}

Tensor SavedTensor::unpack(const std::shared_ptr<Node>& owner, std::string_view what) const {
  if (!defined_) return {};
  if (stand_ins)
    if (auto known = stand_ins->tensors.find(this); known != stand_ins->tensors.end())
      return known->second;
  if (released_) fail_released(*owner);
  bool is_packed = apart_ && apart_->packed;
  Unpacked saved = is_packed ? apart_->packed->unpack() : Unpacked{tensor_, version_};
  if (saved.was_written()) fail_written(saved, *owner, what);
  const Tensor& t = saved.tensor;
  const bool has_none = is_result_ ? result_input_ == no_history : !apart_;
  if (has_none || !thread_modes.grad_enabled) return t;
  Edge edge = is_result_ ? edge_of_result(owner, result_input_) : apart_->edge;
  if (!edge) return t;
  Tensor with_history = bare_alias(t);
  set_history(with_history, edge.node, edge.input);
  return with_history;
}

// What the engine would refuse, it is left to refuse.
bool SavedTensor::collect(Collector& collector) const {
  if (defined_ && released_) collector.refuse("a tape that was freed");
  if (!defined_ || released_) return collector.key(uint64_t{0}), true;
  if (const PackedTensor* hooked = packed()) {
    if (!hooked->like.defined()) return false;
    return collector.packed(*this, hooked->like), true;
  }
  if (version_of(tensor_) != version_) collector.refuse("a saved tensor that was written");
  collector.saved(*this, tensor_);
  return true;
}

void SavedTensor::release() {
  released_ = true;
  tensor_ = Tensor();
  apart_.reset();
}

}  // namespace tenon::autograd
