// The wrapper around a lowered graph: write-backs, outputs that alias inputs, the original
// numbering.
#include "aot/functional_outputs.h"
#include "aot/lower.h"
#include "aot/saved_plan.h"
#include "autograd/grad_state.h"
#include "autograd/saved/saved_tensor.h"
#include "autograd/view.h"
#include "core/arguments.h"
#include "core/error.h"
#include "core/sym/sym_eval.h"
#include "graph/symbol_use.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <tenon/autograd.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon {

namespace {

// Of a joint graph: without gradients.
size_t n_results(const Lowered& lowered) {
  return lowered.derivative ? lowered.derivative->n_results : lowered.graph->outputs().size();
}

class InferenceWrapper final : public Artifact {
 public:
  InferenceWrapper(Lowered lowered, std::shared_ptr<Artifact> inner)
      : lowered_(std::move(lowered)),
        inner_(std::move(inner)),
        copy_(&entry_of(OpId::aten_copy__default)) {
    guards = inner_->guards;
    auto reads_inputs = [](const OutputRecipe& r) {
      return r.kind == OutputRecipe::Kind::input || r.kind == OutputRecipe::Kind::view_of_input;
    };
    for (const OutputRecipe& r : lowered_.outputs)
      if (r.detached != no_value) n_detached_ = std::max<size_t>(n_detached_, r.detached + 1);
    done_with_inputs_ = lowered_.shared.empty() && lowered_.write_backs.empty() &&
                        lowered_.restrides.empty() &&
                        std::ranges::none_of(lowered_.outputs, reads_inputs);
    for (const SymbolBinding& b : lowered_.graph->symbols) symbols_.push_back(b.symbol);
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    Stolen stolen{inputs, steal};
    std::vector<Tensor> results(n_results(lowered_)), shared;
    std::vector<detail::TensorHead*> own;
    std::span<detail::TensorHead*> memories = inputs;
    if (!lowered_.shared.empty()) {
      for (const SharedInput& s : lowered_.shared) shared.push_back(span_of_overlapping(s, inputs));
      for (const Tensor& t : shared) own.push_back(t.head());
      for (uint32_t i : lowered_.kept) own.push_back(inputs[i]);
      memories = own;
    }
    call_inner(inputs, memories, syms, results, steal && done_with_inputs_);
    SymbolsOfCall symbols{*this, syms, results};
    for (const Lowered::WriteBack& w : lowered_.write_backs)
      write_back(w, memories[w.input], results[w.output]);
    for (const SharedInput& s : lowered_.shared) bump_version(share(inputs[s.members[0]]));
    std::vector<Tensor> detached = make_detached(inputs, symbols, results);
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = lowered_.outputs[i].kind == OutputRecipe::Kind::output
                       ? outputs[lowered_.outputs[i].index]
                       : make_output(lowered_.outputs[i], inputs, symbols, results, detached);
    for (const Lowered::Restride& r : lowered_.restrides)
      restride(r, share(inputs[r.input]), symbols);
  }

  std::string describe(int32_t what) const override { return inner_->describe(what); }

  SavedArtifact save() const override {
    SavedArtifact out{.kind = SavedArtifact::Kind::functional, .graph = lowered_.graph};
    out.bytes = plan_text(lowered_);
    out.parts.push_back({inner_->save()});
    return out;
  }

 private:
  // What a caller that gave its inputs away has left in them.
  struct Stolen {
    std::span<detail::TensorHead*> inputs;
    bool owned;
    ~Stolen() {
      for (detail::TensorHead*& head : inputs)
        if (owned && head) Tensor::adopt(std::exchange(head, nullptr));
    }
  };

  // What will have other sizes and strides is given as it lies now: the code may keep it for its
  // backward, which the change of the caller's own tensor must not reach.
  void call_inner(std::span<detail::TensorHead* const> inputs,
                  std::span<detail::TensorHead*> memories, std::span<const int64_t> syms,
                  std::span<Tensor> results, bool steal) const {
    if (lowered_.restrides.empty()) return inner_->call(memories, syms, results, steal);
    std::vector<Tensor> before;
    std::vector<detail::TensorHead*> given(memories.begin(), memories.end());
    for (const Lowered::Restride& r : lowered_.restrides) {
      before.push_back(as_it_lies(share(inputs[r.input])));
      std::ranges::replace(given, inputs[r.input], before.back().head());
      bump_version(before.back());
    }
    inner_->call(given, syms, results, false);
  }

  static Tensor as_it_lies(const Tensor& input) {
    Tensor out = autograd::bare_alias(input);
    if (!input.requires_grad()) return out;
    autograd::Edge edge = autograd::edge_of(input);
    autograd::set_history(out, edge.node, edge.input);
    return out;
  }

  // All that the members show, as one tensor; it keeps their storage alive.
  static Tensor span_of_overlapping(const SharedInput& shared,
                                    std::span<detail::TensorHead*> inputs) {
    char *first = nullptr, *last = nullptr, *widest = nullptr;
    const int64_t own_width = itemsize(shared.dtype);
    int64_t width = own_width;
    for (uint32_t m : shared.members) {
      const detail::TensorHead* h = inputs[m];
      auto rank = static_cast<size_t>(h->ndim);
      auto* begin = static_cast<char*>(h->data);
      int64_t element = itemsize(static_cast<Dtype>(h->dtype));
      char* end = begin + span_of({h->sizes, rank}, {h->strides, rank}) * element;
      first = first ? std::min(first, begin) : begin;
      last = std::max(last, end);
      if (element <= width) continue;
      width = element;
      widest = begin;
    }
    // As extent_of: from the beginning of a pair.
    if (widest) first = widest - (widest - first + width - 1) / width * width;
    Tensor member = share(inputs[shared.members[0]]);
    int64_t n = (last - first) / own_width;
    auto* owner = new StorageRef(impl_of(member)->storage_ref);
    return from_memory_on(
        member.device(), first, {n}, shared.dtype, std::nullopt,
        [](void* o) { delete static_cast<StorageRef*>(o); }, owner);
  }

  // A leaf that needs a gradient was written, or got other sizes, where the tape did not see it.
  static bool may_be_on_tape(const Tensor& input) {
    return !(input.requires_grad() && input.is_leaf());
  }

  // On the tape, where the call is on it.
  void write_back(const Lowered::WriteBack& w, detail::TensorHead* input,
                  const Tensor& value) const {
    Tensor self = share(input);
    NoGradGuard off;
    EnableGradGuard mode(!w.without_grad && may_be_on_tape(self));
    Value args[] = {Value::of(self), Value::of(value), Value::of(false)}, result[1];
    dispatch(*copy_, args, 3, result, 1);
    drop(result[0]);
  }

  // What the graph told, then what the arguments tell.
  struct SymbolsOfCall {
    const InferenceWrapper& wrapper;
    std::span<const int64_t> words;
    const std::vector<Tensor>& results;

    std::optional<SymValue> operator()(const Expr* symbol) const {
      for (const Lowered::ShownSymbol& s : wrapper.lowered_.shown_symbols)
        if (s.symbol == symbol) return value_in(results[s.output], symbol->kind);
      for (size_t i = 0; i < words.size(); ++i)
        if (wrapper.symbols_[i] == symbol) return SymValue{symbol->kind, words[i]};
      return std::nullopt;
    }
  };

  static int64_t size_at_call(SymInt size, const SymbolsOfCall& symbols) {
    if (!size.is_symbolic()) return size.word();
    auto value = evaluate(size.expr(), symbols);
    require(value.has_value(),
            "the size of an output cannot be computed from the sizes of the inputs");
    return value->integer();
  }

  static Dims sizes_at_call(const Dims& recorded, const SymbolsOfCall& symbols) {
    Dims out;
    for (SymInt s : recorded) out.push_back(size_at_call(s, symbols));
    return out;
  }

  static void restride(const Lowered::Restride& r, const Tensor& input,
                       const SymbolsOfCall& symbols) {
    Dims sizes = sizes_at_call(r.view.sizes, symbols);
    Dims strides = sizes_at_call(r.view.strides, symbols);
    int64_t offset = size_at_call(r.offset, symbols) + input.storage_offset();
    EnableGradGuard mode(thread_modes.grad_enabled && !r.without_grad && may_be_on_tape(input));
    if (!input.requires_grad())
      return replace_metadata(input, list_of(sizes), list_of(strides), offset);
    // What comes before knows the sizes that it had. The version has moved on before the run.
    input.as_strided_(list_of(sizes), list_of(strides), offset);
    TensorImpl* impl = impl_of(input);
    const bool is_up_to_date = impl->base_version == *impl->version;
    --impl->storage_ref->version;
    if (is_up_to_date) impl->base_version = *impl->version;
  }

  // What detach() gives and several outputs show, by its number; undefined where no output is it.
  std::vector<Tensor> make_detached(std::span<detail::TensorHead*> inputs,
                                    const SymbolsOfCall& symbols,
                                    const std::vector<Tensor>& results) const {
    std::vector<Tensor> detached(n_detached_);
    if (detached.empty()) return detached;
    for (const OutputRecipe& recipe : lowered_.outputs)
      if (recipe.is_detached)
        detached[recipe.detached] = make_output(recipe, inputs, symbols, results, detached);
    return detached;
  }

  Tensor make_output(const OutputRecipe& recipe, std::span<detail::TensorHead*> inputs,
                     const SymbolsOfCall& symbols, const std::vector<Tensor>& results,
                     std::span<Tensor> detached) const {
    switch (recipe.kind) {
      case OutputRecipe::Kind::result:
        return results[recipe.index];
      case OutputRecipe::Kind::input:
        return share(inputs[recipe.index]);
      case OutputRecipe::Kind::undefined:
        return Tensor();
      default:
        break;
    }
    if (recipe.is_detached && detached[recipe.detached].defined()) return detached[recipe.detached];
    Tensor base = recipe.kind == OutputRecipe::Kind::view_of_input ? share(inputs[recipe.index])
                                                                   : results[recipe.index];
    Dims sizes = sizes_at_call(recipe.view.sizes, symbols);
    Dims strides = sizes_at_call(recipe.view.strides, symbols);
    // The recorded offset counts from the input's own, which a guard does not fix.
    int64_t offset =
        size_at_call(recipe.offset, symbols) +
        in_elements_of(recipe.view.dtype, base.storage_offset(), base.dtype()).guard_int();
    if (recipe.requires_grad && base.requires_grad()) {
      if (Tensor view = replay(recipe, base, list_of(sizes), symbols); view.defined()) return view;
      return view_on_tape(base, recipe.view.dtype, std::move(sizes), std::move(strides), offset);
    }
    Tensor view = make_view_as(base, recipe.view.dtype, list_of(sizes), list_of(strides), offset);
    const bool is_of_detached = recipe.detached != no_value && !recipe.is_detached;
    if (!recipe.is_tracked && !is_of_detached) return view;
    if (is_of_detached) {
      Tensor& whole = detached[recipe.detached];
      if (!whole.defined()) whole = autograd::bare_alias(base);
      base = whole;
    }
    track_view(view, base);
    if (recipe.is_older) --impl_of(view)->base_version;
    autograd::note_view_without_grad(view, base);
    return view;
  }

  // By place; numbers of the base may be seen as parts of complex ones, or the other way round.
  static Tensor view_on_tape(const Tensor& base, Dtype dtype, Dims sizes, Dims strides,
                             int64_t offset) {
    if (is_complex(base.dtype()) == is_complex(dtype))
      return base.as_strided(list_of(sizes), list_of(strides), offset);
    if (is_complex(base.dtype()))
      return view_as_real(base).as_strided(list_of(sizes), list_of(strides), offset);
    for (SymInt& stride : strides) stride = stride * 2;
    sizes.push_back(2);
    strides.push_back(1);
    return view_as_complex(base.as_strided(list_of(sizes), list_of(strides), offset * 2));
  }

  static Tensor view_at_call(const ViewStep& step, const Tensor& base,
                             const SymbolsOfCall& symbols) {
    std::vector<Value> args(step.args.begin(), step.args.end());
    ArgumentLists lists;
    map_arguments(
        args, lists, [](ValueId) { return Value{}; },
        [&](Number n) { return Number(size_at_call(n.sym_int(), symbols)); });
    return apply_view({step.op, args, step.result}, base);
  }

  // The recorded views of the base, so that the tape shows them; undefined where they do not fit.
  static Tensor replay(const OutputRecipe& recipe, const Tensor& base, SymIntList sizes,
                       const SymbolsOfCall& symbols) {
    Tensor view = base;
    for (const ViewStep& step : recipe.replay) view = view_at_call(step, view, symbols);
    bool fits = !recipe.replay.empty() && view.dim() == static_cast<int64_t>(sizes.size());
    for (size_t d = 0; fits && d < sizes.size(); ++d)
      fits = view.sizes()[d].word() == sizes[d].word();
    return fits ? view : Tensor();
  }

  Lowered lowered_;
  bool done_with_inputs_ = false;  // once the code inside has run
  size_t n_detached_ = 0;
  std::shared_ptr<Artifact> inner_;
  const OpEntry* copy_;
  std::vector<const Expr*> symbols_;
};

// Nothing to put right: the functional graph's outputs are the original ones in order.
bool is_plain(const Lowered& lowered) {
  if (!lowered.shared.empty() || !lowered.write_backs.empty() || !lowered.restrides.empty() ||
      lowered.outputs.size() != n_results(lowered))
    return false;
  for (uint32_t i = 0; i < lowered.outputs.size(); ++i)
    if (lowered.outputs[i].kind != OutputRecipe::Kind::result || lowered.outputs[i].index != i)
      return false;
  return true;
}

}  // namespace

std::shared_ptr<Artifact> wrap_inference(Lowered lowered, std::shared_ptr<Artifact> inner) {
  if (is_plain(lowered)) return inner;
  return std::make_shared<InferenceWrapper>(std::move(lowered), std::move(inner));
}

}  // namespace tenon
