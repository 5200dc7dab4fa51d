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
#include "aot/functionalizer.h"
#include "aot/shared_inputs.h"
#include "autograd/grad_state.h"
#include "autograd/saved_tensor.h"
#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/sym/sym_simplify.h"
#include "graph/control_flow.h"
#include "graph/passes/passes.h"
#include "graph/symbol_use.h"
#include "ops/decompose.h"
#include "ops/op_table.h"

#include <tenon/autograd.h>
#include <tenon/ops.h>

#include <algorithm>
#include <set>

namespace tenon {

namespace {

// Training updates running_mean and running_var in place, which not every schema says.
bool updates_statistics(const Node& node, const OpEntry& op) {
  static const std::set<std::string_view> names = {"aten.batch_norm.default",
                                                   "aten.native_batch_norm.default",
                                                   "aten._native_batch_norm_legit.default"};
  return names.contains(op.name) && node.args[3].tag == Tag::ref && node.args[4].tag == Tag::ref &&
         node.args[5].number().to_bool();
}

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

}  // namespace

bool tells_aliases(const Graph& graph) {
  return std::any_of(graph.values().begin(), graph.values().end(), [](const GraphValue& v) {
    return v.source == ValueSource::node && v.alias_group != 0;
  });
}

// Members of a group are views of its one input from the start.
void Functionalizer::add_shared_inputs() {
  const OpEntry& as_strided = entry_of(op_id("aten.as_strided.default"));
  for (const SharedInput& shared : out_.shared) {
    SharedExtent extent = extent_of(graph_, shared);
    const GraphValue& like = graph_.value(graph_.inputs()[shared.members[0]]);
    Dims size{extent.size};
    Tensor fake = recorder_.add_input(
        contiguous_meta(list_of(size), like.meta.dtype, like.meta.device), 0, GraphValue());
    auto position = static_cast<uint32_t>(bases_.size());
    bases_.push_back({fake, 0, shared.members[0], position, no_value, {}});
    for (uint32_t m : shared.members) {
      const GraphValue& v = graph_.value(graph_.inputs()[m]);
      auto& args = kept_arguments_.emplace_back(std::vector<Value>{
          Value{}, Value::of(list_of(v.meta.sizes)), Value::of(list_of(v.meta.strides)),
          Value::of(v.offset - extent.first)});
      ViewStep view{&as_strided, args};
      ValueId id = graph_.inputs()[m];
      aliases_[id] = Alias{position, {view}, apply_view(view, fake), 0, m, id};
    }
    bases_.back().made = aliases_[graph_.inputs()[shared.members[0]]]->value;
  }
}

void Functionalizer::add_input(uint32_t index) {
  ValueId id = graph_.inputs()[index];
  const GraphValue& v = graph_.value(id);
  auto position = static_cast<uint32_t>(out_.shared.size() + out_.kept.size());
  out_.kept.push_back(index);
  if (v.kind != ValueKind::tensor) {
    numbers_[id] = v.scalar;
    recorder_.add_scalar_input(v.scalar, v.name);
    return;
  }
  GraphValue copy = v;
  Tensor fake = recorder_.add_input(v.meta, v.offset, std::move(copy));
  if (aliases_[id]) return;  // only its sizes are wanted
  bases_.push_back({fake, 0, index, position, no_value, fake});
  aliases_[id] = Alias{bases_.size() - 1, {}, fake, 0, index, id};
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
    if (!aliases_[id] || gives_symbol) add_input(i);
  }
}

void Functionalizer::add_constants() {
  for (ValueId id : graph_.constants()) {
    Tensor fake = recorder_.add_constant(graph_.constant(id), graph_.value(id).name);
    bases_.push_back({fake, 0, no_value, no_value, id, fake});
    aliases_[id] = Alias{bases_.size() - 1, {}, fake, 0, no_value, id};
  }
}

// as_strided looks at memory, whatever the tensor's own strides are. A value shows that memory only
// when it lies row by row from the start, as it was made and as it is now.
void Functionalizer::check_strided(const Alias& alias) const {
  const Base& base = bases_[alias.base];
  auto row_by_row = [](const Tensor& t) {
    return t.is_contiguous() && guard_or_false(sym_offset_of(t) == 0);
  };
  size_t own = base.position < out_.shared.size() ? 1 : 0;  // that of a shared input is meant so
  for (size_t i = own; i < alias.chain.size(); ++i)
    require(alias.chain[i].op->schema.name != "as_strided" ||
                (row_by_row(base.made) && row_by_row(base.current)),
            ErrorCode::unsupported,
            "as_strided of a tensor that is written and does not lie row by row cannot be made "
            "functional; use slice, select or transpose");
}

Tensor& Functionalizer::current(ValueId id) {
  ensure(aliases_[id].has_value(), "a value is used before it is made");
  Alias& alias = *aliases_[id];
  Base& base = bases_[alias.base];
  if (alias.generation == base.generation) return alias.value;
  check_strided(alias);
  bool from_no_grad = std::ranges::any_of(alias.chain, &ViewStep::without_grad);
  require(!options_.training || !from_no_grad || alias.chain.size() == 1, ErrorCode::unsupported,
          "a view of a view that was made while gradients were off is used after a write");
  // Views follow the history of their base, whoever asks for them.
  EnableGradGuard on_tape(options_.training || thread_modes.grad_enabled);
  Tensor value = base.current;
  for (const ViewStep& step : alias.chain) value = apply_view(step, value);
  alias.value = value;
  alias.generation = base.generation;
  return alias.value;
}

// A data-dependent size gets a new symbol when its op is recorded again; arguments that are written
// over the old one follow.
SymInt Functionalizer::renewed(SymInt value) const {
  if (!value.is_symbolic() || symbols_.empty()) return value;
  return as_sym_int(substitute(value.expr(), [this](const Expr* symbol) -> const Expr* {
    auto found = symbols_.find(symbol);
    return found == symbols_.end() ? nullptr : found->second;
  }));
}

Number Functionalizer::renewed(Number value) const {
  if (!value.is_symbolic() || symbols_.empty()) return value;
  return number_over(substitute(expression_of(value), [this](const Expr* symbol) -> const Expr* {
    auto found = symbols_.find(symbol);
    return found == symbols_.end() ? nullptr : found->second;
  }));
}

void Functionalizer::renew_symbols(Value& v, std::deque<std::vector<SymInt>>& lists) const {
  if (v.is_number()) {
    v = Value::of(renewed(v.number()));
  } else if (v.tag == Tag::ints) {
    SymIntList list(List<SymInt>(v.as<SymInt>(), v.count));
    if (!list.is_symbolic()) return;
    auto& copy = lists.emplace_back();
    for (SymInt s : list) copy.push_back(renewed(s));
    v = Value::of(SymIntList(List<SymInt>(copy)));
  }
}

void Functionalizer::note_symbols(NodeId node) {
  for (const SymbolBinding& b : graph_.symbols) {
    const GraphValue& v = graph_.value(b.value);
    if (v.source != ValueSource::node || v.source_index != node) continue;
    if (b.dim < 0) {
      symbols_[b.symbol] = expression_of(numbers_[b.value]);
    } else if (aliases_[b.value]) {
      symbols_[b.symbol] = as_expr(aliases_[b.value]->value.size(b.dim));
    }
  }
}

std::vector<Value> Functionalizer::arguments(const Node& node) {
  lists_.clear();
  sizes_.clear();
  std::vector<Value> args(node.args.begin(), node.args.end());
  for (Value& a : args) {
    if (a.tag == Tag::ref) {
      auto id = static_cast<ValueId>(a.payload);
      ValueKind kind = graph_.value(id).kind;
      a = kind == ValueKind::tensor ? Value::of(current(id))
          : kind == ValueKind::none ? Value{}
                                    : Value::of(numbers_[id]);
    } else if (a.tag == Tag::refs) {
      auto& list = lists_.emplace_back();
      for (uint32_t i = 0; i < a.count; ++i) {
        ValueId id = a.as<ValueId>()[i];
        list.push_back(id == no_value ? Tensor() : current(id));
      }
      a = Value::of(TensorList(list));
    } else {
      renew_symbols(a, sizes_);
    }
  }
  return args;
}

// New content goes up the chain: each step's inverse gives the tensor that it viewed, up to the
// base.
void Functionalizer::write(ValueId id, Tensor content) {
  Alias& alias = *aliases_[id];
  Base& base = bases_[alias.base];
  check_strided(alias);
  Tensor whole = scatter_views(alias.chain, base.current, content);
  ++base.generation;
  if (options_.training && is_hidden_from_grad(alias)) {
    require(!thread_modes.grad_enabled || !content.requires_grad(), ErrorCode::unsupported,
            "a value that needs a gradient is written through detach(), which gives one memory two "
            "histories");
    base.current = with_history_of(base.current, whole);
    return;  // the alias is made anew, with its part of that history
  }
  base.written_with_grad = true;
  base.current = std::move(whole);
  alias.value = content;
  alias.generation = base.generation;
}

// Writes under NoGradGuard or through detach().
bool Functionalizer::is_hidden_from_grad(const Alias& alias) const {
  return !thread_modes.grad_enabled || std::ranges::any_of(alias.chain, [](const ViewStep& step) {
    return step.without_grad || step.op->name == "aten.detach.default";
  });
}

// The content of a write that gradients do not see, with the history that the memory had.
Tensor Functionalizer::with_history_of(const Tensor& before, const Tensor& content) {
  Tensor out = autograd::bare_alias(content);
  autograd::Edge edge = autograd::edge_of(before);
  if (edge) autograd::set_history(out, edge.node, edge.input);
  return out;
}

// Whether a result is a view is what the original graph says: a value here can be laid out
// otherwise than the original, so that a reshape copies that did not, or the other way round.
void Functionalizer::note_result(const Node& node, const OpEntry& op, ValueId id, uint32_t index,
                                 Tensor value) {
  bool shares = false;
  for (const Value& a : node.args) {
    if (a.tag != Tag::ref ||
        graph_.value(static_cast<ValueId>(a.payload)).kind != ValueKind::tensor)
      continue;
    Alias& viewed = *aliases_[a.payload];
    shares = shares || shares_storage(viewed.value, value);
    if (!is_alias(id, static_cast<ValueId>(a.payload), viewed, value)) continue;
    Alias alias = viewed;
    if (!value.is_same(viewed.value)) {
      alias.chain.push_back(view_step(node, op, index));
      // As on the tape: a view of what needs a gradient, made while gradients are off, has none.
      alias.chain.back().without_grad = !thread_modes.grad_enabled && viewed.value.requires_grad();
      alias.value = value;
      alias.identity = id;
      alias.input = alias.restrided = no_value;
    }
    aliases_[id] = std::move(alias);
    return;
  }
  if (shares) value = value.clone();
  bases_.push_back({value, 0, no_value, no_value, id, value});
  aliases_[id] = Alias{bases_.size() - 1, {}, value, 0, no_value, id};
}

// Views can be made anew long after their node: what they take besides the viewed tensor is kept as
// it is now.
ViewStep Functionalizer::view_step(const Node& node, const OpEntry& op, uint32_t index) {
  auto is_ref = [](const Value& a) { return a.tag == Tag::ref; };
  bool is_fixed = std::none_of(node.args.begin() + 1, node.args.end(), is_ref);
  if (is_fixed && symbols_.empty()) return {&op, node.args, index};
  auto& args = kept_arguments_.emplace_back(node.args.begin(), node.args.end());
  for (size_t i = 1; i < args.size(); ++i) {
    if (!is_ref(args[i])) {
      renew_symbols(args[i], kept_sizes_);
      continue;
    }
    auto id = static_cast<ValueId>(args[i].payload);
    ValueKind kind = graph_.value(id).kind;
    args[i] = kind == ValueKind::tensor ? Value::of(kept_tensors_.emplace_back(current(id)))
              : kind == ValueKind::none ? Value{}
                                        : Value::of(numbers_[id]);
  }
  return {&op, args, index};
}

bool Functionalizer::is_alias(ValueId id, ValueId argument, const Alias& viewed,
                              const Tensor& value) const {
  if (!knows_aliases_) return shares_storage(viewed.value, value);
  uint32_t group = graph_.value(id).alias_group;
  return group != 0 && group == graph_.value(argument).alias_group;
}

void Functionalizer::call(const OpEntry& op, const Node& node, std::span<const Value> args,
                          ValueId written) {
  Value results[8];
  bool list = op.schema.returns_list();
  uint32_t n_results = list ? 1 : op.n_returns;
  dispatch(op, args.data(), static_cast<uint32_t>(args.size()), results, n_results);
  if (list) {
    std::vector<Tensor> parts = take<std::vector<Tensor>>(results[0]);
    for (uint32_t r = 0; r < parts.size(); ++r)
      note_result(node, op, node.first_result + r, r, parts[r]);
    return;
  }
  for (uint32_t r = 0; r < n_results; ++r) {
    ValueId id = node.first_result + r;
    if (results[r].is_number())
      numbers_[id] = results[r].number();
    else if (results[r].tag == Tag::tensor_owned) {
      Tensor value = take<Tensor>(results[r]);
      if (written == no_value) {
        note_result(node, op, id, r, value);
        continue;
      }
      Tensor before = current(written);
      if (value.dtype() != before.dtype()) value = value.to(before.dtype());
      write(written, value);
      aliases_[id] = *aliases_[written];
    }
  }
}

// What gradients must know of a node: whether they were on, and what may be computed again.
void Functionalizer::follow_facts(const Node& node, std::optional<EnableGradGuard>& mode) {
  auto grad = node.facts.find("grad");
  if (grad != node.facts.end()) mode.emplace(grad->second == "on");
  recorder_.region = region_of(node);
}

void Functionalizer::lower_node(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  recorder_.where = node.where;
  recorder_.module_path = node.module_path;
  std::optional<EnableGradGuard> mode;
  if (options_.training) follow_facts(node, mode);
  std::vector<Value> args = arguments(node);
  if (updates_statistics(node, op))
    lower_batch_norm(node, op, args);
  else if (op.mutated_args)
    lower_write(node, op, args);
  else if (is_control_flow(op))
    lower_control_flow(node, op, std::move(args));
  else
    call(op, node, args, no_value);
}

Lowered Functionalizer::run() {
  out_.n_original_outputs = graph_.outputs().size();
  recorder_.opens = [this](const OpEntry& op) {
    return (options_.decomposes && options_.decomposes(op)) || is_view_by_another(op);
  };
  recorder_.on_tape = options_.training;
  {
    RecordScope scope(recorder_);
    add_inputs();
    add_constants();
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      lower_node(graph_.node(n));
      note_symbols(n);
    }
    find_shared_results();
    for (ValueId id : graph_.outputs()) {
      out_.outputs.push_back(output_recipe(id));
      describe_output(out_.outputs.back(), id);
    }
    write_inputs_back();
    note_restrides();
    show_symbols();
    if (options_.training) differentiate();
  }
  out_.graph = finish();
  return std::move(out_);
}

void simplify_lowered(Graph& graph, const LowerOptions& options) {
  fold_constants(graph);
  canonicalize(graph);
  if (options.merge_expressions) merge_common_subexpressions(graph);
  if (options.remove_dead_code) remove_dead_code(graph);
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
  options.training = true;
  options.keep_input_mutations = false;
  return lower(captured, options);
}

}  // namespace tenon
