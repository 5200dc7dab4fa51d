// Functionalisation: a graph with mutation and views becomes a pure one with the same observable
// effect.
//
// Problem: captured graphs write tensors in place, also through views; backends that fuse and
// reorder want pure values. Callers must still see every write to an input, and aliases among
// outputs. Model: each storage has one base tensor, whose value is the latest recorded one; each
// other tensor over it is a chain of view steps from the base, and is made anew when the base has
// moved on. Method: the nodes are recorded again in order on fakes. A node that writes calls its
// functional form; the new content goes up the chain of views by their inverses and becomes the
// base's value. Whether a result is a view is seen from its fake: it shares storage with an
// argument. Cost: one recording, and per write one scatter for each view step above it. Source: the
// scheme of PyTorch's FunctionalTensorWrapper (ATen), reduced to what a graph needs.
#include "aot/lower.h"
#include "aot/view_inverse.h"
#include "core/error.h"
#include "core/sym_simplify.h"
#include "graph/passes/passes.h"
#include "graph/record.h"
#include "ops/op_table.h"

#include <tenon/ops.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

namespace tenon {

namespace {

/// The latest value of one storage.
struct Base {
  Tensor current;
  uint32_t generation = 0;
  uint32_t input = no_value;  ///< the graph input whose memory it is
};

/// Of an alias that must be made anew.
constexpr uint32_t stale = UINT32_MAX;

/// A tensor of the original graph.
struct Alias {
  size_t base = 0;
  std::vector<ViewStep> chain;
  Tensor value;
  uint32_t generation = 0;
  uint32_t object = 0;  ///< equal for values that are one tensor object: results of in-place ops
};

// In-place ops that change how a tensor sees its memory, and the views that they make of it.
const OpEntry* reshaping_view(const OpEntry& op) {
  static const std::map<std::string_view, const char*> views = {
      {"aten.t_.default", "aten.t.default"},
      {"aten.transpose_.default", "aten.transpose.int"},
      {"aten.swapaxes_.default", "aten.transpose.int"},
      {"aten.swapdims_.default", "aten.transpose.int"},
      {"aten.unsqueeze_.default", "aten.unsqueeze.default"},
      {"aten.squeeze_.default", "aten.squeeze.default"},
      {"aten.squeeze_.dim", "aten.squeeze.dim"},
      {"aten.squeeze_.dims", "aten.squeeze.dims"},
      {"aten.as_strided_.default", "aten.as_strided.default"},
  };
  auto found = views.find(op.name);
  return found == views.end() ? nullptr : find_op(found->second);
}

// Training updates running_mean and running_var in place, which not every schema says.
bool updates_statistics(const Node& node, const OpEntry& op) {
  static const std::set<std::string_view> names = {"aten.batch_norm.default",
                                                   "aten.native_batch_norm.default",
                                                   "aten._native_batch_norm_legit.default"};
  return names.contains(op.name) && node.args[3].tag == Tag::ref && node.args[4].tag == Tag::ref &&
         node.args[5].number().to_bool();
}

class Functionalizer {
 public:
  Functionalizer(const Graph& graph, const LowerOptions& options)
      : graph_(graph),
        options_(options),
        recorder_(graph.shape_env ? graph.shape_env : ShapeEnv::make()),
        aliases_(graph.values().size()),
        numbers_(graph.values().size()) {}

  LoweredInference run();

 private:
  void add_inputs();
  void add_constants();
  void lower_node(const Node& node);
  void lower_write(const Node& node, const OpEntry& op, std::vector<Value>& args);
  void lower_reshape(const Node& node, const OpEntry& op, const OpEntry& view,
                     std::vector<Value>& args);
  void lower_batch_norm(const Node& node, const OpEntry& op, const std::vector<Value>& args);
  void call(const OpEntry& op, const Node& node, std::span<const Value> args, ValueId written);
  void note_result(const Node& node, const OpEntry& op, ValueId id, uint32_t index, Tensor value);
  Tensor& current(ValueId id);
  void write(ValueId id, Tensor content);
  std::vector<Value> arguments(const Node& node);
  void renew_symbols(Value& v);
  SymInt renewed(SymInt value) const;
  void note_symbols(NodeId node);
  OutputRecipe output_recipe(ValueId id, std::vector<Tensor>& results);
  Tensor output_value(ValueId id);

  const Graph& graph_;
  const LowerOptions& options_;
  GraphRecorder recorder_;
  std::deque<Base> bases_;
  std::vector<std::optional<Alias>> aliases_;  // by value of the original graph
  std::vector<Number> numbers_;
  std::deque<std::vector<Tensor>> lists_;  // of the node being lowered
  std::deque<std::vector<SymInt>> sizes_;  // likewise
  uint32_t objects_ = 0;
  std::map<const Expr*, const Expr*>
      symbols_;  // data-dependent symbols of the original graph, by the new ones
};

void Functionalizer::add_inputs() {
  for (ValueId id : graph_.inputs()) {
    const GraphValue& v = graph_.value(id);
    if (v.kind != ValueKind::tensor) {
      numbers_[id] = v.scalar;
      recorder_.add_scalar_input(v.scalar, v.name);
      continue;
    }
    GraphValue copy = v;
    Tensor fake = recorder_.add_input(v.meta, v.offset, std::move(copy));
    bases_.push_back({fake, 0, v.source_index});
    aliases_[id] = Alias{bases_.size() - 1, {}, fake, 0, ++objects_};
  }
}

void Functionalizer::add_constants() {
  for (ValueId id : graph_.constants()) {
    Tensor fake = recorder_.add_constant(graph_.constant(id), graph_.value(id).name);
    bases_.push_back({fake, 0, no_value});
    aliases_[id] = Alias{bases_.size() - 1, {}, fake, 0, ++objects_};
  }
}

Tensor& Functionalizer::current(ValueId id) {
  ensure(aliases_[id].has_value(), "a value is used before it is made");
  Alias& alias = *aliases_[id];
  Base& base = bases_[alias.base];
  if (alias.generation == base.generation) return alias.value;
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

void Functionalizer::renew_symbols(Value& v) {
  if (v.tag == Tag::integer) {
    v = Value::of(renewed(v.number().sym_int()));
  } else if (v.tag == Tag::ints) {
    SymIntList list(List<SymInt>(v.as<SymInt>(), v.count));
    if (!list.is_symbolic()) return;
    auto& copy = sizes_.emplace_back();
    for (SymInt s : list) copy.push_back(renewed(s));
    v = Value::of(SymIntList(List<SymInt>(copy)));
  }
}

void Functionalizer::note_symbols(NodeId node) {
  for (const SymbolBinding& b : graph_.symbols) {
    const GraphValue& v = graph_.value(b.value);
    if (v.source != ValueSource::node || v.source_index != node) continue;
    if (b.dim < 0) {
      if (numbers_[b.value].is_integer()) symbols_[b.symbol] = as_expr(numbers_[b.value].sym_int());
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
      renew_symbols(a);
    }
  }
  return args;
}

// New content goes up the chain: each step's inverse gives the tensor that it viewed, up to the
// base.
void Functionalizer::write(ValueId id, Tensor content) {
  Alias& alias = *aliases_[id];
  Base& base = bases_[alias.base];
  std::vector<Tensor> parents{base.current};
  for (size_t k = 0; k + 1 < alias.chain.size(); ++k)
    parents.push_back(apply_view(alias.chain[k], parents.back()));
  alias.value = content;
  for (size_t k = alias.chain.size(); k-- > 0;)
    content = scatter_view(alias.chain[k], parents[k], content);
  base.current = content;
  alias.generation = ++base.generation;
}

void Functionalizer::note_result(const Node& node, const OpEntry& op, ValueId id, uint32_t index,
                                 Tensor value) {
  for (const Value& a : node.args) {
    if (a.tag != Tag::ref ||
        graph_.value(static_cast<ValueId>(a.payload)).kind != ValueKind::tensor)
      continue;
    Alias& viewed = *aliases_[a.payload];
    if (!shares_storage(viewed.value, value)) continue;
    Alias alias = viewed;
    if (!value.is_same(viewed.value)) {
      alias.value = value;
      alias.chain.push_back({&op, node.args, index});
      alias.object = ++objects_;
    }
    aliases_[id] = std::move(alias);
    return;
  }
  bases_.push_back({value, 0, no_value});
  aliases_[id] = Alias{bases_.size() - 1, {}, value, 0, ++objects_};
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

// The tensor becomes another view of its memory, for every value that names it.
void Functionalizer::lower_reshape(const Node& node, const OpEntry& op, const OpEntry& view,
                                   std::vector<Value>& args) {
  Alias alias = *aliases_[node.args[0].payload];
  for (ValueId id : graph_.inputs())
    require(!aliases_[id] || aliases_[id]->object != alias.object, ErrorCode::unsupported,
            "{} changes the shape of an input in place, which backends cannot do; use {} instead",
            op.name, view.name);
  Value result[1];
  dispatch(view, args.data(), static_cast<uint32_t>(args.size()), result, 1);
  alias.value = take<Tensor>(result[0]);
  alias.chain.push_back({&view, node.args, 0});
  aliases_[node.first_result] = alias;
  for (auto& other : aliases_)
    if (other && other->object == alias.object) other = alias;
}

void Functionalizer::lower_batch_norm(const Node& node, const OpEntry& op,
                                      const std::vector<Value>& args) {
  static const OpEntry& functional =
      entry_of(op_id("aten._native_batch_norm_legit_functional.default"));
  Value results[5];
  dispatch(functional, args.data(), 8, results, 5);
  for (uint32_t r = 0; r < 5; ++r) {
    Tensor value = take<Tensor>(results[r]);
    if (r >= 3)
      write(static_cast<ValueId>(node.args[r].payload), value);
    else if (r < op.n_returns)
      note_result(node, op, node.first_result + r, r, value);
  }
}

// A node that writes: the functional form computes the new content of argument 0.
void Functionalizer::lower_write(const Node& node, const OpEntry& op, std::vector<Value>& args) {
  require(node.args[0].tag == Tag::ref && op.mutated_args == 1, ErrorCode::unsupported,
          "{} writes an argument other than self, which cannot be made functional yet", op.name);
  auto self = static_cast<ValueId>(node.args[0].payload);
  if (op.name == "aten.detach_.default") {
    aliases_[node.first_result] = *aliases_[self];
    return;
  }
  const OpEntry* functional = op.functional;
  if (!functional) {
    Schema schema = op.schema;
    schema.name.pop_back();  // "copy_" -> "copy"
    functional = find_op(schema.canonical_name());
  }
  require(functional, ErrorCode::unsupported, "{} has no functional form in the op table", op.name);
  call(*functional, node, args, self);
}

void Functionalizer::lower_node(const Node& node) {
  const OpEntry& op = entry_of(node.op);
  recorder_.where = node.where;
  recorder_.module_path = node.module_path;
  std::vector<Value> args = arguments(node);
  if (updates_statistics(node, op))
    lower_batch_norm(node, op, args);
  else if (const OpEntry* view = reshaping_view(op))
    lower_reshape(node, op, *view, args);
  else if (op.mutated_args)
    lower_write(node, op, args);
  else
    call(op, node, args, no_value);
}

// What was written through a view is a value of its own. Where the base is an output too, or
// another view of it, they must share memory, so the view is made anew.
Tensor Functionalizer::output_value(ValueId id) {
  Alias& alias = *aliases_[id];
  auto is_other = [&](ValueId other) {
    return other != no_value && other != id && aliases_[other] &&
           aliases_[other]->base == alias.base;
  };
  const auto& outputs = graph_.outputs();
  if (std::any_of(outputs.begin(), outputs.end(), is_other) && bases_[alias.base].generation)
    alias.generation = stale;
  return current(id);
}

OutputRecipe Functionalizer::output_recipe(ValueId id, std::vector<Tensor>& results) {
  OutputRecipe recipe;
  if (id == no_value || graph_.value(id).kind == ValueKind::none) return recipe;
  if (graph_.value(id).kind != ValueKind::tensor) {
    // A number as an output: a 0-dim tensor that the graph makes.
    recipe = {OutputRecipe::Kind::result, static_cast<uint32_t>(results.size()), {}, {}};
    results.push_back(
        scalar_tensor(numbers_[id], numbers_[id].is_floating() ? Dtype::f64 : Dtype::i64));
    return recipe;
  }
  const Alias& alias = *aliases_[id];
  const Base& base = bases_[alias.base];
  if (base.input == no_value) {
    recipe = {OutputRecipe::Kind::result, static_cast<uint32_t>(results.size()), {}, {}};
    results.push_back(output_value(id));
  } else if (alias.chain.empty()) {
    recipe = {OutputRecipe::Kind::input, base.input, {}, {}};
  } else {
    const GraphValue& seen = graph_.value(id);
    recipe = {OutputRecipe::Kind::view_of_input, base.input, seen.meta,
              seen.offset - graph_.value(graph_.inputs()[base.input]).offset};
  }
  return recipe;
}

// Two inputs over one storage of which one is written would each need to see the other's new value.
bool writes_aliased_inputs(const Graph& graph) {
  std::vector<uint32_t> groups;
  bool shared = false;
  for (ValueId id : graph.inputs()) {
    uint32_t group = graph.value(id).alias_group;
    if (group && std::find(groups.begin(), groups.end(), group) != groups.end()) shared = true;
    groups.push_back(group);
  }
  if (!shared) return false;
  for (const Node& node : graph.nodes())
    if (entry_of(node.op).mutated_args) return true;
  return false;
}

LoweredInference Functionalizer::run() {
  LoweredInference out;
  out.n_original_outputs = graph_.outputs().size();
  recorder_.opens = options_.decomposes;
  std::vector<Tensor> results;
  {
    RecordScope scope(recorder_);
    add_inputs();
    add_constants();
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      lower_node(graph_.node(n));
      note_symbols(n);
    }
    for (ValueId id : graph_.outputs()) out.outputs.push_back(output_recipe(id, results));
    for (ValueId id : graph_.inputs()) {
      if (graph_.value(id).kind != ValueKind::tensor) continue;
      const Alias& alias = *aliases_[id];
      const Base& base = bases_[alias.base];
      if (base.generation == 0) continue;
      if (options_.keep_input_mutations) {
        Tensor input = recorder_.input_fake(base.input);
        copy_(input, base.current);
        out.mutated_inputs.push_back(base.input);
      } else {
        out.write_backs.push_back({static_cast<uint32_t>(results.size()), base.input});
        results.push_back(base.current);
      }
    }
  }
  out.graph = recorder_.finish(results);
  for (const SymbolBinding& b : graph_.symbols) {
    const GraphValue& v = graph_.value(b.value);
    if (v.source != ValueSource::input) continue;
    SymbolBinding copy = b;
    copy.value = out.graph->inputs()[v.source_index];
    out.graph->symbols.push_back(copy);
  }
  std::stable_partition(out.graph->symbols.begin(), out.graph->symbols.end(),
                        [&](const SymbolBinding& b) {
                          return out.graph->value(b.value).source == ValueSource::input;
                        });
  out.graph->name = graph_.name;
  for (uint32_t i : out.mutated_inputs)
    out.graph->value(out.graph->inputs()[i]).flags.mutated = true;
  return out;
}

}  // namespace

LoweredInference lower_inference(const Graph& captured, const LowerOptions& options) {
  require(!writes_aliased_inputs(captured), ErrorCode::unsupported,
          "the graph writes an input that shares memory with another input; clone one of them");
  LoweredInference lowered = Functionalizer(captured, options).run();
  fold_constants(*lowered.graph);
  canonicalize(*lowered.graph);
  merge_common_subexpressions(*lowered.graph);
  remove_dead_code(*lowered.graph);
  return lowered;
}

}  // namespace tenon
