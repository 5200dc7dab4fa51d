// Functionalisation: a graph with mutation and views becomes a pure one with the same observable
// effect.
//
// Problem: captured graphs write tensors in place, also through views; backends that fuse and
// reorder want pure values. Callers must still see every write to an input, and aliases among
// outputs. Model: each storage has one base tensor, whose value is the latest recorded one; each
// other tensor over it is a chain of view steps from the base, and is made anew when the base has
// moved on. Method: the nodes are recorded again in order on fakes. A node that writes calls its
// functional form; the new content goes up the chain of views by their inverses and becomes the
// base's value. Cost: one recording, and per write one scatter for each view step above it. Source:
// the scheme of PyTorch's FunctionalTensorWrapper (ATen), reduced to what a graph needs.
#include "aot/functional_outputs.h"
#include "aot/functionalizer.h"
#include "aot/joint.h"
#include "aot/shared_inputs.h"
#include "autograd/saved/saved_tensor_hooks.h"
#include "core/error.h"
#include "graph/control_flow.h"
#include "graph/copy.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"
#include "graph/passes/view_root.h"
#include "ops/custom_op.h"
#include "ops/decompose.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <tenon/ops/copy.h>

#include <algorithm>
#include <ranges>

namespace tenon {

namespace {

// A view that looks at a second tensor, maybe for a number (where it begins): what the graph needs
// to make such a view anew is seen in its parts only.
bool is_view_by_another(const OpEntry& op) {
  bool is_view = std::ranges::any_of(op.schema.returns, [](const SchemaReturn& r) {
    return !r.alias.empty() && !r.alias.mutated;
  });
  auto is_tensor = [](const SchemaArg& arg) { return arg.type.base == BaseType::tensor; };
  return is_view && !op.def->view && can_decompose(op) &&
         std::ranges::count_if(op.schema.args, is_tensor) > 1;
}

bool binds_symbols(const Graph& graph, const Node& node) {
  return std::ranges::any_of(graph.symbols, [&](const SymbolBinding& b) {
    return graph.value(b.value).source == ValueSource::node && b.value >= node.first_result &&
           b.value < node.first_result + node.n_results;
  });
}

// What the node writes while gradients are off, where that has a gradient; else no_value.
ValueId hidden_write(const Node& node, const FunctionalValues& values) {
  auto grad = node.facts.find("grad");
  bool is_off = grad != node.facts.end() && grad->second == "off";
  if (!is_off || !(entry_of(node.op).mutated_args & 1) || node.args[0].tag != Tag::ref)
    return no_value;
  auto written = static_cast<ValueId>(node.args[0].payload);
  const Base& base = values.base_of(values.alias(written));
  return base.current.requires_grad() ? written : no_value;
}

}  // namespace

// Members of a group are views of its one input from the start.
void Functionalizer::add_shared_inputs() {
  uint32_t position = 0;
  for (const SharedInput& shared : out_.shared) {
    SharedExtent extent = extent_of(graph_, shared);
    const TensorMeta& like = graph_.value(graph_.inputs()[shared.members[0]]).meta;
    Dims size{extent.size};
    Tensor fake = recorder_.add_input(contiguous_meta(list_of(size), shared.dtype, like.device), 0,
                                      GraphValue());
    values_.add_shared_memory(shared, position++, fake, extent.first);
  }
}

void Functionalizer::add_input(uint32_t index) {
  ValueId id = graph_.inputs()[index];
  const GraphValue& v = graph_.value(id);
  auto position = static_cast<uint32_t>(out_.shared.size() + out_.kept.size());
  out_.kept.push_back(index);
  if (v.kind != ValueKind::tensor) {
    values_.number(id) = v.scalar;
    recorder_.add_scalar_input(v.scalar, v.name);
    return;
  }
  GraphValue copy = v;
  Tensor fake = recorder_.add_input(v.meta, v.offset, std::move(copy));
  if (values_.is_known(id)) return;  // only its sizes are wanted
  values_.add_memory(id, {.current = fake, .input = index, .position = position, .made = fake});
}

void Functionalizer::add_inputs() {
  out_.shared = shared_inputs(graph_);
  for (const SharedInput& shared : out_.shared)
    for (uint32_t m : shared.members)
      require(!options_.training || !graph_.value(graph_.inputs()[m]).flags.requires_grad,
              ErrorCode::unsupported,
              "inputs that overlap in memory are written, and one of them needs a gradient");
  add_shared_inputs();
  for (uint32_t i = 0; i < graph_.inputs().size(); ++i) {
    ValueId id = graph_.inputs()[i];
    bool gives_symbol = std::any_of(graph_.symbols.begin(), graph_.symbols.end(),
                                    [id](const SymbolBinding& b) { return b.value == id; });
    if (!values_.is_known(id) || gives_symbol) add_input(i);
  }
}

void Functionalizer::add_constants() {
  for (ValueId id : graph_.constants()) {
    Tensor fake = recorder_.add_constant(graph_.constant(id), graph_.value(id).name);
    values_.add_memory(id, {.current = fake, .origin = id, .made = fake});
  }
}

void Functionalizer::call(const OpEntry& op, const Node& node, std::span<const Value> args,
                          ValueId written) {
  if (is_again_ && binds_symbols(graph_, node)) return copy_node(op, node, args);
  Value results[8];
  bool list = op.schema.returns_list();
  uint32_t n_results = list ? 1 : op.n_returns;
  dispatch(op, args.data(), static_cast<uint32_t>(args.size()), results, n_results);
  if (list) {
    std::vector<Tensor> parts = take<std::vector<Tensor>>(results[0]);
    require(parts.size() == node.n_results, ErrorCode::bad_file,
            "{} gives {} tensors, the graph has {} results for it", op.name, parts.size(),
            node.n_results);
    for (uint32_t r = 0; r < parts.size(); ++r)
      values_.add_result(node, op, node.first_result + r, r, parts[r]);
    return;
  }
  for (uint32_t r = 0; r < n_results; ++r) {
    ValueId id = node.first_result + r;
    if (results[r].is_number())
      values_.number(id) = results[r].number();
    else if (results[r].tag == Tag::tensor_owned) {
      Tensor value = take<Tensor>(results[r]);
      if (written == no_value) {
        values_.add_result(node, op, id, r, value);
        continue;
      }
      Tensor before = values_.current(written);
      if (value.dtype() != before.dtype()) value = value.to(before.dtype());
      values_.write(written, value);
      values_.join(id, written);
    }
  }
}

// Sizes that data decides keep their names: tangents and what the wrapper makes are told by them.
void Functionalizer::copy_node(const OpEntry& op, const Node& node, std::span<const Value> args) {
  ArgumentLists lists;
  std::vector<Value> refs(args.begin(), args.end());
  map_arguments(
      refs, lists, [this](const Tensor& t) { return recorder_.value_of(t); }, keep_numbers);
  std::vector<GraphValue> results;
  for (uint32_t r = 0; r < node.n_results; ++r) {
    results.push_back(graph_.value(node.first_result + r));
    results.back().alias_group = 0;
    results.back().flags.user_output = false;
  }
  Graph& graph = recorder_.graph();
  Node& copied = graph.node(graph.add_node(node.op, refs, std::move(results)));
  const ValueId first = copied.first_result;
  label_as(node, copied);
  for (uint32_t r = 0; r < node.n_results; ++r) {
    ValueId id = node.first_result + r;
    const GraphValue& value = graph_.value(id);
    values_.number(id) = value.scalar;
    if (value.kind != ValueKind::tensor) continue;
    Tensor fake = make_fake(value.meta, value.offset);
    if (value.flags.requires_grad) mark_requires_grad(fake, true);
    recorder_.rebind(fake, first + r);
    values_.add_result(node, op, id, r, fake);
  }
  for (SymbolBinding b : graph_.symbols)
    if (b.value >= node.first_result && b.value < node.first_result + node.n_results) {
      b.value = b.value - node.first_result + first;
      graph.symbols.push_back(b);
    }
}

// What gradients must know of a node: whether they were on, and what may be computed again.
void Functionalizer::follow_facts(const Node& node, std::optional<EnableGradGuard>& mode) {
  auto grad = node.facts.find("grad");
  if (grad != node.facts.end()) mode.emplace(grad->second == "on");
  if (node.is_backward) mode.emplace(false);
  recorder_.region = region_of(node);
}

void Functionalizer::lower_node(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  recorder_.where = node.where;
  recorder_.module_path = node.module_path;
  in_assertion_ = node.n_results == 0;
  std::optional<EnableGradGuard> mode;
  if (options_.is_differentiated()) follow_facts(node, mode);
  values_.note_grad_mode(is_grad_enabled_at(node, recorder_.grad_enabled()));
  std::vector<Value> args = values_.arguments(node);
  if (op.mutated_args)
    lower_write(node, op, args);
  else if (is_control_flow(op))
    lower_control_flow(node, op, std::move(args));
  else if (updates_statistics(graph_, node))
    lower_normalization(node, op, args);
  else
    call(op, node, args, no_value);
}

std::shared_ptr<Graph> Functionalizer::finish() {
  std::vector<ValueId> with_older_history;
  for (const Tensor& t : values_.with_older_history())
    with_older_history.push_back(recorder_.value_of(t));
  std::shared_ptr<Graph> graph = recorder_.finish(results_);
  for (ValueId v : with_older_history)
    if (const GraphValue& value = graph->value(v); value.source == ValueSource::node)
      graph->node(value.source_index).facts[older_history] = "yes";
  for (const SymbolBinding& b : graph_.symbols) {
    const GraphValue& v = graph_.value(b.value);
    if (v.source != ValueSource::input) continue;
    SymbolBinding copy = b;
    auto at = std::find(out_.kept.begin(), out_.kept.end(), v.source_index) - out_.kept.begin();
    copy.value = graph->inputs()[out_.shared.size() + static_cast<size_t>(at)];
    graph->symbols.push_back(copy);
  }
  std::stable_partition(graph->symbols.begin(), graph->symbols.end(), [&](const SymbolBinding& b) {
    return graph->value(b.value).source == ValueSource::input;
  });
  graph->name = graph_.name;
  for (uint32_t i : out_.mutated_inputs) graph->value(graph->inputs()[i]).flags.mutated = true;
  return graph;
}

namespace {

// By the captured nodes, whose order the functional graph loses where it merges expressions.
void rank_tangents(const Graph& captured, Lowered& lowered) {
  Derivative& d = *lowered.derivative;
  std::vector<uint32_t> by_result(d.n_results, 0);
  for (size_t i = 0; i < lowered.outputs.size(); ++i) {
    if (lowered.outputs[i].kind != OutputRecipe::Kind::result) continue;
    const GraphValue& made = captured.value(captured.outputs()[i]);
    if (made.source == ValueSource::node)
      by_result[lowered.outputs[i].index] = made.source_index + 1;
  }
  for (uint32_t result : d.tangents) d.ranks.push_back(by_result[result]);
}

}  // namespace

void Functionalizer::open_and_assert() {
  recorder_.opens = [this](const OpEntry& op) {
    const CustomOp* added = custom_op_of(op);
    // The view that a copy by place is made of is one to check.
    if (&op == &entry_of(OpId::aten_as_strided_copy_default)) return true;
    return (options_.decomposes && options_.decomposes(op)) || is_view_by_another(op) ||
           (added && added->seen_through);
  };
  recorder_.on_tape = options_.training;
  recorder_.lift = [this](const Tensor& real) {
    require(
        !options_.training || !thread_modes.grad_enabled || !real.requires_grad(),
        ErrorCode::unsupported,
        "the function of an added operation uses a tensor that needs a gradient ({}) and is not "
        "among its arguments, so no gradient reaches it; pass the tensor as an argument",
        symbolic_text(real));
    return recorder_.add_constant(real, "");
  };
  // Parts may take more for granted of what depends on data than the op that they come from, which
  // checks its arguments itself: narrow with a tensor slices at a number that is surely in range.
  asserts_.skip_new();
  auto assert_new = [this] { in_assertion_ ? asserts_.skip_new() : asserts_.emit(); };
  recorder_.before_node = assert_new;
  recorder_.on_node = [=](const CallArgs&, NodeId) { assert_new(); };
}

Lowered Functionalizer::run() {
  out_.n_original_outputs = graph_.outputs().size();
  open_and_assert();
  {
    RecordScope scope(recorder_);
    add_inputs();
    add_constants();
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      lower_node(graph_.node(n));
      values_.note_symbols(n);
    }
    FunctionalOutputs outputs(graph_, options_, recorder_, values_, out_);
    results_ = outputs.describe();
    recorder_.before_node = {}, recorder_.on_node = {};
    if (options_.training)
      out_.derivative = differentiate(recorder_, results_, options_.backward_autocast);
  }
  if (out_.derivative) rank_tangents(graph_, out_);
  out_.graph = finish();
  ShapeEnvScope symbols(*recorder_.shape_env());
  check_reach(*out_.graph, values_.written_inputs());
  remove_writes(out_, options_);
  return std::move(out_);
}

// A node of a lowered graph. What gradients do not see of it stays known to second derivatives.
void Functionalizer::lower_again(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  require(
      !op.mutated_args || !binds_symbols(graph_, node), ErrorCode::unsupported,
      "{} writes what only the run knows the sizes of, in a graph with parts that write; call the "
      "form that gives a new tensor",
      op.name);
  recorder_.is_backward = node.is_backward;
  ValueId hidden = options_.is_differentiated() ? hidden_write(node, values_) : no_value;
  lower_node(node);
  if (node.facts.contains(older_history)) hidden = node.first_result;
  if (hidden == no_value) return;
  Graph& graph = recorder_.graph();
  const Tensor& shown = values_.current(hidden);
  for (const Tensor& t : {shown, values_.base_of(values_.alias(hidden)).current})
    if (const GraphValue& value = graph.value(recorder_.value_of(t));
        value.source == ValueSource::node)
      graph.node(value.source_index).facts[older_history] = "yes";
}

// The graph's own copies into its inputs stay its end. Nobody looks at a tangent afterwards.
void Functionalizer::write_inputs_again(const Lowered& lowered) {
  bool writes_constant = false;
  for (const Base& base : values_.bases()) {
    if (base.generation == 0) continue;
    bool is_input = base.position != no_value;
    writes_constant |= !is_input && graph_.value(base.origin).source == ValueSource::constant;
    if (!is_input || graph_.value(graph_.inputs()[base.input]).flags.tangent) continue;
    bool is_meant = std::ranges::count(lowered.mutated_inputs, base.position);
    require(is_meant, ErrorCode::unsupported,
            "an argument of the compiled function is written by a part of an operation that the "
            "program has added, by its derivative or by the rule of a joint pass; these may write "
            "what they make themselves: let them write a clone of it");
    copy_(recorder_.input_fake(base.position), base.current);
  }
  require(
      !writes_constant, ErrorCode::unsupported,
      "a tensor of the program is written by a part of an operation that the program has added, "
      "by its derivative or by the rule of a joint pass; these may write what they make "
      "themselves: let them write a clone of it");
}

// Results of the forward are what they are before the backward begins.
void Functionalizer::run_again(Lowered& lowered) {
  is_again_ = true;
  open_and_assert();
  FunctionalOutputs outputs(graph_, options_, recorder_, values_, out_);
  results_.resize(graph_.outputs().size());
  auto take_results = [&](size_t end) {
    for (size_t i = 0; i < end; ++i)
      if (ValueId id = graph_.outputs()[i];
          id != no_value && values_.is_known(id) && !results_[i].defined())
        results_[i] = outputs.laid_out_as(graph_.value(id), values_.current(id));
  };
  {
    RecordScope scope(recorder_);
    add_inputs();
    add_constants();
    ensure(out_.shared.empty(), "inputs of a lowered graph overlap");
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      if (graph_.node(n).is_backward && !recorder_.is_backward && lowered.derivative)
        take_results(results_.size() - lowered.derivative->gradients.size());
      lower_again(graph_.node(n));
    }
    take_results(results_.size());
    write_inputs_again(lowered);
    recorder_.before_node = {}, recorder_.on_node = {};
  }
  out_.mutated_inputs = lowered.mutated_inputs;
  replace_graph(lowered, finish());
}

void simplify_lowered(Graph& graph, const LowerOptions& options) {
  fold_constants(graph);
  bool keeps = options.is_differentiated();
  canonicalize(graph, {.keep_forward_copies = keeps, .keep_ends_of_gradients = keeps});
  if (options.merge_expressions) merge_common_subexpressions(graph);
  if (options.remove_dead_code) remove_dead_code(graph, {.keep_random = true});
}

namespace {

// Whether a node copies into the input as a whole; ops may have given that very input back. Of
// inputs without elements, several show one memory.
bool is_copy_into(const Graph& graph, const Node& node, uint32_t input) {
  if (node.op != OpId::aten_copy__default || node.args[0].tag != Tag::ref) return false;
  const GraphValue& written = graph.value(static_cast<ValueId>(node.args[0].payload));
  if (written.source == ValueSource::input) return written.source_index == input;
  const GraphValue& meant = graph.value(graph.inputs()[input]);
  return written.alias_group && meant.alias_group == written.alias_group &&
         same_meta(meant, written);
}

// The node is the last content of one of `known`, which is that no more.
bool takes_last_content(const Graph& graph, const Node& node, std::vector<uint32_t>& known) {
  auto input =
      std::ranges::find_if(known, [&](uint32_t i) { return is_copy_into(graph, node, i); });
  if (input == known.end()) return false;
  known.erase(input);
  return true;
}

// Whether a node writes anything but the last content of inputs that the graph is known to write.
bool writes(const Graph& graph, std::span<const uint32_t> mutated_inputs) {
  std::vector<uint32_t> known(mutated_inputs.begin(), mutated_inputs.end());
  return std::ranges::any_of(graph.nodes() | std::views::reverse, [&](const Node& node) {
    bool in_body =
        is_control_flow(entry_of(node.op)) && std::ranges::any_of(node.args, [](const Value& a) {
          return a.tag == Tag::graph && writes(*a.as<Graph>(), {});
        });
    bool writes_here = entry_of(node.op).mutated_args || updates_statistics(graph, node);
    return in_body || (writes_here && !takes_last_content(graph, node, known));
  });
}

}  // namespace

void replace_graph(Lowered& lowered, std::shared_ptr<Graph> graph) {
  for (OutputRecipe& recipe : lowered.outputs)
    for (ViewStep& step : recipe.replay) step.args = graph->intern_args(step.args);
  lowered.graph = std::move(graph);
}

bool remove_writes(Lowered& lowered, const LowerOptions& of_lowered) {
  if (!writes(*lowered.graph, lowered.mutated_inputs)) return false;
  LowerOptions options = of_lowered;
  options.is_body_of_training = options.is_differentiated() || lowered.derivative;
  options.training = options.keep_input_mutations = false;
  std::shared_ptr<const Graph> before = lowered.graph;
  Functionalizer(*before, options).run_again(lowered);
  ensure(!writes(*lowered.graph, lowered.mutated_inputs), "a functional graph writes");
  return true;
}

namespace {

Lowered lower(const Graph& captured, const LowerOptions& options) {
  Lowered lowered = Functionalizer(captured, options).run();
  simplify_lowered(*lowered.graph, options);
  return lowered;
}

}  // namespace

Lowered lower_inference(const Graph& captured, const LowerOptions& options) {
  return lower(captured, options);
}

Lowered lower_training(const Graph& captured, LowerOptions options) {
  autograd::WithoutSavedTensorHooks tape_of_the_graph;
  options.training = true;
  options.keep_input_mutations = false;
  return lower(captured, options);
}

}  // namespace tenon
