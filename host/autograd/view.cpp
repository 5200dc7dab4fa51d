// Views on the tape.
//
// Problem: after `v = x[0]; v.mul_(2)` gradients of x must know of the write, and so must those of
// other views of x.
// Model: every view knows its base, the tensor that is not a view, and where it lies in the base's
// memory. The history of all of them is that of the base.
// Method: a write to a view makes a node of the base that cuts the view's part out of the base's
// gradient, sends it through the op's node, and puts the result back. Other views find, by the
// version of the storage, that it was written, and then read from the base by a node of their own.
// Gradients are laid out like the base for that, so that the view's strides fit. Source: PyTorch's
// CopySlices. Cost: a copy of the base's gradient for each write to a view.
#include "autograd/view.h"

#include "autograd/collector.h"
#include "autograd/grad_state.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/tensor/owner_thread.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"
#include "ops/shapes.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

#include <bit>
#include <optional>

namespace tenon::autograd {

namespace {

SymInt cells_of(SymIntList sizes, SymIntList strides) {
  SymInt last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) last = last + sym_max(sizes[d] - 1, 0) * strides[d];
  return last + 1;
}

/// Whether offsets from the first element of `t` are offsets in its memory. What a recorded pass is
/// given, by its caller, a hook or an earlier piece, may begin elsewhere than its stand-in.
bool begins_its_memory(const Tensor& t) {
  SymInt first = sym_offset_of(t);
  if (first.is_symbolic() || first.word() != 0) return false;
  if (!stand_ins) return true;
  GraphRecorder& recorder = recorder_of_thread();
  const Graph& graph = recorder.graph();
  const GraphValue& made = graph.value(view_root(recorder, recorder.value_of(t)).value);
  return made.source == ValueSource::node && !entry_of(graph.node(made.source_index).op).def->view;
}

/// Where a view lies in the memory of its base.
struct ViewPlace {
  Dims base_sizes, base_strides, sizes, strides;
  SymInt offset;  ///< from the first element of the base
  bool base_is_contiguous;
  Dtype base_dtype;
  /// Where the dtypes differ, strides and offset count the real numbers of the two: a view of parts
  /// lies in the pairs of its base, and one that is complex is laid out as pairs itself.
  enum class Numbers : uint8_t { same, parts, pairs } numbers = Numbers::same;
  /// As of what `expand` gives: several elements of the view are one number of the base.
  bool shares_places;

  ViewPlace(const Tensor& base, const Tensor& view)
      : base_sizes(dims_of(base.sizes())),
        base_strides(dims_of(base.strides())),
        sizes(dims_of(view.sizes())),
        strides(dims_of(view.strides())),
        offset(sym_offset_of(view) - sym_offset_of(base)),
        base_is_contiguous(base.is_contiguous()),
        base_dtype(base.dtype()),
        shares_places(!view.is_contiguous() && may_show_twice(view.sizes(), view.strides())) {
    if (view.dtype() == base.dtype()) return;
    numbers = is_complex(base.dtype()) ? Numbers::parts : Numbers::pairs;
    if (numbers == Numbers::parts) {
      offset = sym_offset_of(view) - sym_offset_of(base) * 2;
      return;
    }
    offset = sym_offset_of(view) * 2 - sym_offset_of(base);
    for (SymInt& s : strides) s = s * 2;
    sizes.push_back(2);
    strides.push_back(1);
  }

  // With the strides of the base, so that those of the view fit.
  Tensor laid_out(const Tensor& grad) const {
    if (base_is_contiguous) {
      Tensor dense = grad.contiguous();
      return begins_its_memory(dense) ? dense : dense.clone();
    }
    Tensor out = grad.new_empty_strided(list_of(base_sizes), list_of(base_strides));
    out.copy_(grad);
    return out;
  }
  Tensor cut(const Tensor& laid) const {
    Tensor real = numbers == Numbers::parts ? view_as_real(laid) : laid;
    Tensor part = real.as_strided(list_of(sizes), list_of(strides), offset);
    return numbers == Numbers::pairs ? view_as_complex(part) : part;
  }
  Tensor put(const Tensor& laid, const Tensor& part) const {
    Tensor real = numbers == Numbers::parts ? view_as_real(laid) : laid;
    Tensor content = numbers == Numbers::pairs ? view_as_real(part) : part;
    Tensor out = real.as_strided_scatter(content, list_of(sizes), list_of(strides), offset);
    return numbers == Numbers::parts ? view_as_complex(out.contiguous()) : out;
  }
  // The gradient of a base of which nothing but the view is used.
  Tensor of_base(const Tensor& grad) const {
    return shares_places ? sum(grad) : put(zeros(grad), grad);
  }
  void collect(Collector& collector) const {
    size_t count = 1;
    collector.key(uint64_t{shares_places} << 16 | static_cast<uint64_t>(numbers) << 8 |
                  static_cast<uint64_t>(base_dtype));
    for (const Dims* dims : {&base_sizes, &base_strides, &sizes, &strides}) {
      collector.key(dims->size() << 1 | uint64_t{base_is_contiguous});
      count += dims->size();
    }
    collector.list_of(this, count);
    for (const Dims* dims : {&base_sizes, &base_strides, &sizes, &strides})
      for (SymInt n : *dims) collector.number(n.word());
    collector.number(offset.word());
  }
  /// On a thread that records a pass: over the symbols of the recording.
  std::optional<ViewPlace> recorded() const {
    if (!stand_ins) return std::nullopt;
    auto known = stand_ins->lists.find(this);
    if (known == stand_ins->lists.end()) return std::nullopt;
    ViewPlace out = *this;
    const uint64_t* word = known->second.data();
    for (Dims* dims : {&out.base_sizes, &out.base_strides, &out.sizes, &out.strides})
      for (SymInt& n : *dims) n = std::bit_cast<SymInt>(*word++);
    out.offset = std::bit_cast<SymInt>(*word);
    return out;
  }

 private:
  Tensor zeros(const Tensor& like) const {
    return laid_out(like.new_zeros(list_of(base_sizes), base_dtype));
  }
  // What several elements of the view get for one number of the base is added up by its place.
  Tensor sum(const Tensor& part) const {
    SymInt cells = cells_of(list_of(base_sizes), list_of(base_strides));
    if (numbers == Numbers::parts) cells = cells * 2;
    Tensor content = numbers == Numbers::pairs ? view_as_real(part) : part;
    Tensor places = arange(Number(cells), Dtype::i64, std::nullopt, part.device());
    Tensor memory = ops::added_by_cell(
        content, places.as_strided(list_of(sizes), list_of(strides), offset), cells);
    if (numbers == Numbers::parts) memory = view_as_complex(memory.view({-1, 2}));
    return memory.as_strided(list_of(base_sizes), list_of(base_strides), 0);
  }
};

/// A view read from its base.
class ViewOfBase final : public Node {
 public:
  ViewOfBase(const Tensor& base, const Tensor& view) : place_(base, view) {
    add_input(view);
    next.push_back(edge_of(base));
  }
  ViewOfBase(ViewPlace place, GradMeta view, Edge base) : place_(std::move(place)) {
    inputs.push_back(std::move(view));
    next.push_back(std::move(base));
  }
  std::string name() const override { return "AsStridedBackward"; }
  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
    if (!grads[0].defined()) return {Tensor()};
    std::optional<ViewPlace> recorded = place_.recorded();
    const ViewPlace& place = recorded ? *recorded : place_;
    return {place.of_base(grads[0])};
  }
  bool collect(Collector& collector) const override {
    place_.collect(collector);
    return true;
  }

 private:
  ViewPlace place_;
};

/// A write to a view, as seen by the base.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, std::shared_ptr<Node> inner, size_t self)
      : place_(base, view), inner_(std::move(inner)), self_(self) {
    add_input(base);
    next = inner_->next;
    next[self_] = edge_of(base);
  }
  std::string name() const override { return "CopySlices"; }
  std::string origin() const override { return inner_->origin(); }
  void release() override { inner_->release(); }
  bool collect(Collector& collector) const override {
    place_.collect(collector);
    collector.key(self_);
    return inner_->collect(collector);
  }
  std::vector<Tensor> apply(std::vector<Tensor> grads) override {
    std::vector<Tensor> out(next.size());
    if (!grads[0].defined()) return out;
    std::optional<ViewPlace> recorded = place_.recorded();
    const ViewPlace& place = recorded ? *recorded : place_;
    Tensor laid = place.laid_out(grads[0]);
    Tensor part = place.cut(laid);
    std::vector<Tensor> inner = inner_->apply({part.clone()});
    inner.resize(next.size());
    Tensor written = inner[self_].defined() ? inner[self_] : part.zeros_like();
    for (size_t i = 0; i < inner.size(); ++i)
      if (i != self_) out[i] = std::move(inner[i]);
    if (next[self_]) out[self_] = place.put(laid, written.expand(part.sizes()).to(part.dtype()));
    return out;
  }
  /// To the view as it has been since the write.
  Edge edge_of_view() {
    return {std::make_shared<ViewOfBase>(place_, inner_->inputs[0], Edge{shared_from_this(), 0}),
            0};
  }

 private:
  ViewPlace place_;
  std::shared_ptr<Node> inner_;
  const size_t self_;  // the edge of what is written
};

// A view that asks its base what it needs gets its node there, and the state that holds it.
bool is_own_leaf(const Tensor& t) {
  if (!t.requires_grad()) return false;
  const GradState* state = state_of(t);
  return !state || !state->node;
}

// What stands for another tensor is told when that has got a history by another way.
bool refresh_and_ask(const Tensor& view) {
  if (const Tensor* object = stands_for(view)) {
    bool needs = object->requires_grad();
    if (needs) mark_requires_grad(view, true);
    return needs;
  }
  const TensorImpl* impl = impl_of(view);
  if (!impl->base.defined() || impl->base_version == *impl->version) return false;
  refresh_view(view);
  return impl->flags & TN_T_REQUIRES_GRAD;
}

}  // namespace

void refresh_view(const Tensor& t) {
  TensorImpl* impl = impl_of(t);
  if (!impl->base.defined() || impl->base_version == *impl->version) return;
  bool base_needs = with_history_of(impl->base).requires_grad();  // may be such a view itself
  if (!base_needs && !impl->grad) return;  // it asks again: the base may need one later
  static std::mutex refreshing;            // threads may read one stale view
  std::lock_guard lock(refreshing);
  if (impl->base_version == *impl->version) return;
  GradState* state = state_of(t);
  if (!base_needs && !(state && state->node)) return;
  bool follows = !(state && state->from_no_grad) && base_needs;
  if (follows) set_history(t, std::make_shared<ViewOfBase>(impl->base, t), 0);
  impl->base_version = *impl->version;
}

void rebase_history(const Tensor& t, std::shared_ptr<Node> node, size_t self) {
  const Tensor base = impl_of(t)->base;
  if (!base.defined()) {
    if (!t.requires_grad()) impl_of(t)->storage_ref->stale_views = true;
    return set_history(t, std::move(node), 0);
  }
  if (!base.requires_grad()) impl_of(base)->storage_ref->stale_views = true;
  auto slices = std::make_shared<CopySlices>(base, t, node, self);
  node->write_to_view = slices;
  set_history(base, std::move(slices), 0);
  impl_of(t)->base_version = *impl_of(t)->version - 1;
}

Edge edge_of_result(const std::shared_ptr<Node>& node, uint32_t input) {
  std::shared_ptr<Node> slices = input == 0 ? node->write_to_view.lock() : nullptr;
  return slices ? static_cast<CopySlices&>(*slices).edge_of_view() : Edge{node, input};
}

void relay_history(const Tensor& t, std::shared_ptr<Node> node) {
  set_history(t, std::move(node), 0);
  impl_of(t)->base_version = *impl_of(t)->version;
}

namespace {

bool is_from_no_grad(const Tensor& t) {
  const GradState* state = state_of(t);
  return state && state->from_no_grad;
}

void check_whole(const Tensor& whole, std::string_view op) {
  require(!is_own_leaf(whole),
          "{}: a view of a leaf that needs a gradient (shape {}) is written in place; write to a "
          "view of a clone, or under NoGradGuard",
          op, whole.sizes());
}

void check_view(bool from_no_grad, std::string_view op) {
  require(
      !from_no_grad,
      "{}: a view that was made while gradients were off is written while they are on; make the "
      "view outside of NoGradGuard, or write inside of one",
      op);
}

}  // namespace

void check_write(const Tensor& t, std::string_view op) {
  require_own_thread(t, op);
  const Tensor& base = impl_of(t)->base;
  require(!is_own_leaf(t),
          "{}: a leaf that needs a gradient (shape {}) is written in place; write to a clone, or "
          "under NoGradGuard",
          op, t.sizes());
  if (!base.defined()) return;
  check_whole(base, op);
  check_view(is_from_no_grad(t), op);
}

void check_write_of_view(const Tensor& t, bool from_no_grad, std::string_view op) {
  if (!t.defined()) return check_view(from_no_grad, op);
  require_own_thread(t, op);
  const Tensor& base = impl_of(t)->base;
  check_whole(base.defined() ? base : t, op);
  check_view(from_no_grad || is_from_no_grad(t), op);
}

void note_view_without_grad(const Tensor& view, const Tensor& of) {
  if (!of.requires_grad() && !is_from_no_grad(of)) return;
  ensure_state(view).from_no_grad = true;
  impl_of(view)->keys |= bit(Key::autograd);
}

}  // namespace tenon::autograd

namespace tenon {

namespace {
const bool installed_views = [] {
  stale_view_slot = [](const Tensor& view) { return autograd::refresh_and_ask(view); };
  return true;
}();
}  // namespace

}  // namespace tenon
