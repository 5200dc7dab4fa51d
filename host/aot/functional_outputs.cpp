// What callers see of a functional graph: results, outputs that alias, inputs that were written.
#include "aot/functional_outputs.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "graph/symbol_use.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"
#include "ops/shapes.h"

#include <tenon/autograd.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/plugin.h>

#include <algorithm>
#include <set>

namespace tenon {

namespace {

bool same_dims(const Dims& a, const Dims& b) {
  return std::ranges::equal(a, b, [](SymInt x, SymInt y) { return guard_or_false(x == y); });
}

}  // namespace

SymInt in_elements_of(Dtype dtype, SymInt offset, Dtype counted_in) {
  auto to = static_cast<int64_t>(itemsize(dtype)),
       from = static_cast<int64_t>(itemsize(counted_in));
  return from >= to ? offset * (from / to) : offset / (to / from);
}

std::vector<Tensor> FunctionalOutputs::describe() {
  find_shared_results();
  for (ValueId id : graph_.outputs()) {
    out_.outputs.push_back(output_recipe(id));
    describe_output(out_.outputs.back(), id);
  }
  number_detached();
  write_inputs_back();
  note_restrides();
  show_symbols();
  return std::move(results_);
}

// Outputs over one memory that the graph makes: the memory becomes a result, they its views.
void FunctionalOutputs::find_shared_results() {
  std::map<size_t, std::set<ValueId>> outputs_of;
  for (ValueId id : graph_.outputs())
    if (id != no_value && values_.is_known(id) &&
        values_.base_of(values_.alias(id)).input == no_value)
      outputs_of[values_.alias(id).base].insert(id);
  for (auto& [index, outputs] : outputs_of) {
    const Base& base = values_.bases()[index];
    if (outputs.size() > 1)
      result_of_base_[index] = add_result(base.current, graph_.value(base.origin));
  }
}

Tensor FunctionalOutputs::laid_out_as(const GraphValue& seen, Tensor value) const {
  Dims sizes, strides;
  for (SymInt s : seen.meta.sizes) sizes.push_back(values_.symbols().renewed(s));
  for (SymInt s : seen.meta.strides) strides.push_back(values_.symbols().renewed(s));
  bool same = true;
  for (size_t d = 0; d < strides.size(); ++d)
    same = same &&
           (guard_or_true(value.stride(static_cast<int64_t>(d)) == strides[d]) || is_one(sizes[d]));
  if (!same)
    value = copy(empty_strided(list_of(sizes), list_of(strides), value.dtype(), std::nullopt,
                               value.device()),
                 value);
  return value;
}

uint32_t FunctionalOutputs::add_result(Tensor value, const GraphValue& seen) {
  results_.push_back(laid_out_as(seen, std::move(value)));
  return static_cast<uint32_t>(results_.size() - 1);
}

// Where the views of `alias` lie in `memory`, counted from `start`. They are applied only to see
// that; nothing uses them.
OutputRecipe FunctionalOutputs::view_recipe(OutputRecipe::Kind kind, uint32_t index,
                                            const Alias& alias, const Tensor& memory,
                                            const Tensor& start) {
  Tensor view = memory;
  for (const ViewStep& step : alias.chain) {
    view = apply_view(step, view);
    require(
        shares_storage(view, memory), ErrorCode::bad_file,
        "the graph puts out what it says to share memory with another value, and {} makes a copy; "
        "leave out the alias",
        step.op->name);
  }
  SymInt own = in_elements_of(view.dtype(), sym_offset_of(start), start.dtype());
  return {kind, index, meta_of(view), sym_offset_of(view) - own};
}

OutputRecipe FunctionalOutputs::output_recipe(ValueId id) {
  if (id == no_value || graph_.value(id).kind == ValueKind::none) return {};
  if (graph_.value(id).kind != ValueKind::tensor) {
    // A number as an output: a 0-dim tensor that the graph makes.
    const Number& number = values_.number(id);
    results_.push_back(scalar_tensor(number, number.is_floating() ? Dtype::f64 : Dtype::i64));
    return {OutputRecipe::Kind::result, static_cast<uint32_t>(results_.size() - 1), {}, {}};
  }
  const Alias& alias = values_.alias(id);
  const Base& base = values_.base_of(alias);
  const GraphValue& seen = graph_.value(alias.restrided == no_value ? id : alias.restrided);
  if (alias.input != no_value) return {OutputRecipe::Kind::input, alias.input, {}, {}};
  auto [known, is_new] =
      output_of_.try_emplace(alias.identity, static_cast<uint32_t>(out_.outputs.size()));
  if (!is_new) return {OutputRecipe::Kind::output, known->second, {}, {}};
  if (base.input != no_value) {
    const Tensor& memory = recorder_.input_fake(base.position);
    return view_recipe(OutputRecipe::Kind::view_of_input, base.input, alias, memory, base.made);
  }
  auto shared = result_of_base_.find(alias.base);
  if (shared != result_of_base_.end() && alias.chain.empty())
    return {OutputRecipe::Kind::result, shared->second, {}, {}};
  if (shared != result_of_base_.end())
    return view_recipe(OutputRecipe::Kind::view_of_result, shared->second, alias,
                       results_[shared->second], results_[shared->second]);
  return {OutputRecipe::Kind::result, add_result(values_.current(id), seen), {}, {}};
}

namespace {

// What a plan in a file can hold.
bool is_replayable(const Value& argument) {
  switch (argument.tag) {
    case Tag::none:
    case Tag::integer:
    case Tag::dtype:
    case Tag::ints:
      return true;
    case Tag::boolean:
      return !argument.is_symbolic();
    default:
      return false;
  }
}

// Of views that take another tensor for its sizes: the view that takes the sizes.
const OpEntry* with_sizes(const OpEntry& op) {
  switch (op.id) {
    case OpId::aten_view_as_default:
    case OpId::aten_reshape_as_default:
      return &entry_of(OpId::aten_view_default);
    case OpId::aten_expand_as_default:
    case OpId::aten_broadcast_tensors_default:
      return &entry_of(OpId::aten_expand_default);
    default:
      return nullptr;
  }
}

// Of the others is detach().
bool is_view_on_tape(const ViewStep& step) { return step.op->def->vjp.kind != Vjp::Kind::none; }

}  // namespace

// The step with arguments that a call can give it; without an op where it has others.
ViewStep FunctionalOutputs::replayed(const ViewStep& step, const Tensor& view) {
  if (step.without_grad) return {};
  std::vector<Value> args(step.args.begin(), step.args.end());
  const OpEntry* op = step.op;
  uint32_t result = step.result;
  if (const OpEntry* sized = with_sizes(*op)) {
    op = sized;
    result = 0;
    args.assign(op->n_args, Value::of(false));
    args[1] = Value::of(view.sizes());
  }
  bool fits = gives_views(*op) && (op != step.op || step.viewed.element < 0);
  args[0] = Value();
  if (!fits || !std::ranges::all_of(args, is_replayable)) return {};
  return {op, recorder_.graph().intern_args(args), result};
}

// The views of an output are made again from its memory where a call can give their arguments.
std::vector<ViewStep> FunctionalOutputs::replayed(std::span<const ViewStep> chain, Tensor view) {
  std::vector<ViewStep> steps;
  for (const ViewStep& step : chain) {
    view = apply_view(step, view);
    steps.push_back(replayed(step, view));
    if (!steps.back().op) return {};
  }
  return steps;
}

void FunctionalOutputs::describe_output(OutputRecipe& recipe, ValueId id) {
  if (id == no_value || !values_.is_known(id)) return;
  const Alias& alias = values_.alias(id);
  const Base& base = values_.base_of(alias);
  recipe.is_view = !alias.chain.empty();
  recipe.is_part = recipe.is_view && alias.chain.back().op->schema.returns_list();
  recipe.requires_grad = options_.training && values_.current(id).requires_grad();
  recipe.is_tracked = std::ranges::all_of(alias.chain, is_view_on_tape);
  recipe.is_older = recipe.is_view && alias.made_in != base.generation;
  recipe.shows_all = recipe.is_view && same_dims(recipe.view.sizes, meta_of(base.made).sizes) &&
                     same_dims(recipe.view.strides, meta_of(base.made).strides);
  if (recipe.requires_grad && recipe.kind == OutputRecipe::Kind::view_of_input)
    add_replay(recipe, alias, recorder_.input_fake(base.position));
  else if (recipe.requires_grad && recipe.kind == OutputRecipe::Kind::view_of_result)
    add_replay(recipe, alias, results_[recipe.index]);
}

// What detach() gives is the base of its views, which a write to one of them gives a history. Nobody
// sees that of a single one.
void FunctionalOutputs::number_detached() {
  std::map<ValueId, std::vector<size_t>> shown;
  for (size_t i = 0; i < out_.outputs.size(); ++i) {
    const OutputRecipe::Kind kind = out_.outputs[i].kind;
    if (kind != OutputRecipe::Kind::view_of_input && kind != OutputRecipe::Kind::view_of_result)
      continue;
    ValueId detached = values_.alias(graph_.outputs()[i]).detached;
    if (detached != no_value) shown[detached].push_back(i);
  }
  uint32_t number = 0;
  for (const auto& [detached, outputs] : shown) {
    if (graph_.value(detached).source == ValueSource::input) {  // by detach_
      for (size_t i : outputs) out_.outputs[i].is_tracked = true;
      continue;
    }
    if (outputs.size() == 1) continue;
    for (size_t i : outputs) {
      out_.outputs[i].detached = number;
      out_.outputs[i].is_detached = values_.alias(graph_.outputs()[i]).identity == detached;
    }
    ++number;
  }
}

// A view by place gives elements that share a place one gradient between them, where a replayed one
// tells them apart. One that shows more than the view that it was made of leads there, until a write.
void FunctionalOutputs::add_replay(OutputRecipe& recipe, const Alias& alias, const Tensor& memory) {
  if (alias.shows_more && !recipe.is_older && alias.restrided == no_value) {
    recipe.replay = replayed(alias.made_by, memory);
    return require(
        !recipe.replay.empty(), ErrorCode::unsupported,
        "a result that needs a gradient is a view by place of a view, by {}, which cannot "
        "be made functional; call as_strided on the tensor that is viewed",
        alias.made_by.back().op->name);
  }
  const bool is_wanted =
      alias.restrided == no_value && config::flags().functorch.view_replay_for_aliased_outputs;
  if (is_wanted) recipe.replay = replayed(alias.chain, memory);
  if (!recipe.replay.empty() || !may_show_twice(memory.sizes(), memory.strides())) return;
  recipe.replay = replayed(alias.chain, memory);
  require(!recipe.replay.empty(), ErrorCode::unsupported,
          "a result that needs a gradient is a view, by {}, of an argument whose elements share "
          "memory, which cannot be made functional; clone the argument first",
          alias.chain.back().op->name);
}

// What is written back goes to an argument as a whole, with its history.
static void require_own_memory(const Base& base, const Tensor& input) {
  require(
      !has_internal_overlap(input), ErrorCode::unsupported,
      "an argument is written whose elements share memory, which cannot be made functional; clone "
      "it first");
  require(
      !base.is_shared || !base.current.requires_grad(), ErrorCode::unsupported,
      "a value that needs a gradient is written into memory that arguments share, which cannot be "
      "made functional; clone one of them first");
}

void FunctionalOutputs::write_inputs_back() {
  for (const Base& base : values_.bases()) {
    if (base.position == no_value || base.generation == 0) continue;
    require_own_memory(base, recorder_.input_fake(base.position));
    if (options_.keep_input_mutations) {
      EnableGradGuard mode(thread_modes.grad_enabled && base.written_with_grad);
      copy_(recorder_.input_fake(base.position), base.current);
      out_.mutated_inputs.push_back(base.position);
    } else {
      out_.write_backs.push_back(
          {static_cast<uint32_t>(results_.size()), base.position, !base.written_with_grad});
      results_.push_back(base.current);
    }
  }
}

void FunctionalOutputs::note_restrides() {
  for (uint32_t i = 0; i < graph_.inputs().size(); ++i) {
    const GraphValue& input = graph_.value(graph_.inputs()[i]);
    if (input.kind != ValueKind::tensor) continue;
    const Alias& alias = values_.alias(graph_.inputs()[i]);
    if (alias.restrided == no_value) continue;
    uint32_t position = values_.base_of(alias).position;
    const Tensor& memory = recorder_.input_fake(position);
    Tensor before =
        position < out_.shared.size() ? apply_view(alias.chain.front(), memory) : memory;
    OutputRecipe now = view_recipe(OutputRecipe::Kind::view_of_input, i, alias, memory, before);
    out_.restrides.push_back({i, now.view, now.offset, !alias.reshaped_with_grad});
  }
}

// Views that the wrapper makes may have sizes that only the run knows: the graph tells these
// numbers.
void FunctionalOutputs::show_symbols() {
  std::set<const Expr*> used;
  auto add = [&](SymInt v) {
    if (!v.is_symbolic()) return;
    for (const Expr* symbol : free_symbols(v.expr()))
      if (!recorder_.shape_env()->info(symbol).is_known_before_run()) used.insert(symbol);
  };
  auto add_view = [&](const TensorMeta& view, SymInt offset) {
    for (SymInt s : view.sizes) add(s);
    for (SymInt s : view.strides) add(s);
    add(offset);
  };
  auto add_arguments = [&](const ViewStep& step) {
    for (const Value& a : step.args) {
      if (a.tag == Tag::integer) add(a.number().sym_int());
      if (a.tag != Tag::ints) continue;
      for (SymInt n : arg_as<SymIntList>(a)) add(n);
    }
  };
  for (const OutputRecipe& recipe : out_.outputs) {
    add_view(recipe.view, recipe.offset);
    for (const ViewStep& step : recipe.replay) add_arguments(step);
  }
  for (const Lowered::Restride& r : out_.restrides) add_view(r.view, r.offset);
  for (const Expr* symbol : used) {
    out_.shown_symbols.push_back({symbol, static_cast<uint32_t>(results_.size())});
    results_.push_back(tensor_of_number(number_over(symbol)));
  }
}

}  // namespace tenon
