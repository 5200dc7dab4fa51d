// The verifier of structure: one walk over values, one over nodes, in execution order.
#include "graph/verify.h"

#include <map>
#include <optional>
#include <set>

#include "core/sym/shape_env.h"
#include "core/sym/sym_expr.h"
#include "core/tensor/tensor_impl.h"
#include "graph/control_flow.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

namespace tenon {

namespace {

bool is_number_kind(ValueKind kind) {
  return kind == ValueKind::sym_int || kind == ValueKind::sym_float || kind == ValueKind::sym_bool;
}

class Verifier {
 public:
  Verifier(const Graph& graph, std::set<const Expr*> outer)
      : graph_(graph), bound_(std::move(outer)) {}
  std::vector<std::string> run();

 private:
  template <class... Args>
  void problem(std::string_view pattern, const Args&... args) {
    if (problems_.size() < 20) problems_.push_back(message(pattern, args...));
  }
  std::string node_name(NodeId n) const {
    return message("node {} ({})", n, name_of(graph_.node(n).op));
  }
  std::string value_name(ValueId v) const { return "%" + display_name(graph_, v); }

  void check_value(ValueId v);
  void check_tensor(ValueId v);
  void check_place(ValueId v);
  void check_alias_groups();
  void check_bindings();
  void check_node(NodeId n);
  void check_uses(NodeId n);
  void check_args(NodeId n);
  void check_results(NodeId n);
  void check_bodies(NodeId n);
  void check_outputs();
  bool fits(const Value& arg, const SchemaType& type) const;
  bool fits_list(const Value& arg, const SchemaType& type) const;
  bool is_value(const Value& arg, ValueKind kind) const {
    return arg.tag == Tag::ref && arg.payload < graph_.values().size() &&
           graph_.value(static_cast<ValueId>(arg.payload)).kind == kind;
  }
  bool is_any_number(const Value& arg) const {
    return arg.is_number() ||
           (arg.tag == Tag::ref && arg.payload < graph_.values().size() &&
            is_number_kind(graph_.value(static_cast<ValueId>(arg.payload)).kind));
  }

  void need_symbols(const Expr* expr, std::string_view where);
  void need_symbols(SymInt v, std::string_view where) {
    if (v.is_symbolic()) need_symbols(v.expr(), where);
  }
  void need_symbols(Number n, std::string_view where);
  void need_symbols(const GraphValue& value, std::string_view where);

  const Graph& graph_;
  std::set<const Expr*> bound_;  // symbols that have a value at the present point of the walk
  std::vector<std::string> problems_;
};

std::vector<std::string> Verifier::run() {
  for (ValueId v = 0; v < graph_.values().size(); ++v) check_value(v);
  if (!problems_.empty()) return problems_;  // ids cannot be trusted further
  check_alias_groups();
  check_bindings();
  for (const SymbolBinding& b : graph_.symbols)
    if (b.value < graph_.values().size() && graph_.value(b.value).source != ValueSource::node)
      bound_.insert(b.symbol);
  for (ValueId v : graph_.inputs()) need_symbols(graph_.value(v), value_name(v));
  for (NodeId n = 0; n < graph_.nodes().size(); ++n) check_node(n);
  check_outputs();
  for (const auto& sub : graph_.subgraphs) {
    if (!sub->symbols.empty() && sub->shape_env != graph_.shape_env)
      problem("a sub-graph has an environment of its own");
    for (std::string& inner : Verifier(*sub, bound_).run()) problem("in a sub-graph: {}", inner);
  }
  for (NodeId n = 0; n < graph_.nodes().size() && problems_.empty(); ++n)
    if (is_control_flow(entry_of(graph_.node(n).op))) check_bodies(n);
  return problems_;
}

void Verifier::check_place(ValueId v) {
  const GraphValue& value = graph_.value(v);
  switch (value.source) {
    case ValueSource::input:
      if (value.source_index >= graph_.inputs().size() || graph_.inputs()[value.source_index] != v)
        problem("{} says that it is input {}, the list of inputs differs", value_name(v),
                value.source_index);
      break;
    case ValueSource::constant:
      if (value.source_index >= graph_.constants().size() ||
          graph_.constants()[value.source_index] != v)
        problem("{} says that it is constant {}, the list of constants differs", value_name(v),
                value.source_index);
      break;
    case ValueSource::node: {
      bool known = value.source_index < graph_.nodes().size();
      const Node* node = known ? &graph_.node(value.source_index) : nullptr;
      if (!node || value.result_index >= node->n_results ||
          node->first_result + value.result_index != v)
        problem("{} says that it is result {} of node {}, the node differs", value_name(v),
                value.result_index, value.source_index);
    }
  }
}

void Verifier::check_tensor(ValueId v) {
  const GraphValue& value = graph_.value(v);
  if (value.meta.sizes.size() != value.meta.strides.size())
    problem("{} has {} sizes and {} strides", value_name(v), value.meta.sizes.size(),
            value.meta.strides.size());
  for (SymInt size : value.meta.sizes)
    if (!size.is_symbolic() && size.word() < 0) problem("{} has a negative size", value_name(v));
  if (value.source != ValueSource::constant || !problems_.empty()) return;
  const Tensor& tensor = graph_.constant(v);
  if (!tensor.defined() || tensor.dtype() != value.meta.dtype ||
      symbolic_text(tensor.sizes()) != symbolic_text(list_of(value.meta.sizes)))
    problem("constant {} is described as {}, its tensor is {}", value_name(v), to_text(value),
            symbolic_text(tensor));
}

void Verifier::check_value(ValueId v) {
  const GraphValue& value = graph_.value(v);
  check_place(v);
  if (value.kind == ValueKind::tensor && value.meta.defined) return check_tensor(v);
  if (value.alias_group)
    problem("{} is not a tensor, yet in alias group {}", value_name(v), value.alias_group);
  bool fits = value.kind == ValueKind::sym_int     ? value.scalar.is_integer()
              : value.kind == ValueKind::sym_float ? value.scalar.is_floating()
              : value.kind == ValueKind::sym_bool  ? value.scalar.is_boolean()
                                                   : true;
  if (!fits) problem("{}: the number is not of the kind of the value", value_name(v));
}

void Verifier::check_alias_groups() {
  std::map<uint32_t, ValueId> first;
  for (ValueId v = 0; v < graph_.values().size(); ++v) {
    const GraphValue& value = graph_.value(v);
    if (!value.alias_group) continue;
    auto [known, is_new] = first.emplace(value.alias_group, v);
    if (!is_new && !(graph_.value(known->second).meta.device == value.meta.device))
      problem("{} and {} are in one alias group on two devices", value_name(known->second),
              value_name(v));
  }
}

void Verifier::check_bindings() {
  std::set<const Expr*> seen;
  for (const SymbolBinding& b : graph_.symbols) {
    if (!b.symbol || !b.symbol->is_symbol() || !graph_.shape_env ||
        !graph_.shape_env->owns(b.symbol)) {
      problem("a binding names a symbol that the graph's environment does not know");
      continue;
    }
    const std::string& name = graph_.shape_env->info(b.symbol).name;
    if (!seen.insert(b.symbol).second) problem("symbol {} is bound twice", name);
    if (b.value >= graph_.values().size()) {
      problem("symbol {} is bound to a value that does not exist", name);
      continue;
    }
    const GraphValue& value = graph_.value(b.value);
    if (value.source == ValueSource::constant)
      problem("symbol {} is bound to {}, a constant: it is the same in every call", name,
              value_name(b.value));
    if (b.dim < 0 ? !is_number_kind(value.kind) && value.kind != ValueKind::tensor
                  : value.kind != ValueKind::tensor ||
                        static_cast<size_t>(b.dim) >= value.meta.sizes.size())
      problem("symbol {} is bound to dimension {} of {}, which has none", name, b.dim,
              value_name(b.value));
  }
}

void Verifier::need_symbols(const Expr* expr, std::string_view where) {
  for (const Expr* symbol : free_symbols(expr)) {
    if (bound_.count(symbol)) continue;
    bool known = graph_.shape_env && graph_.shape_env->owns(symbol);
    problem("{} uses symbol {} before anything binds it", where,
            known ? graph_.shape_env->info(symbol).name : "of another environment");
  }
}

void Verifier::need_symbols(Number n, std::string_view where) {
  if (!n.is_symbolic()) return;
  need_symbols(n.is_integer() ? n.sym_int().expr() : std::bit_cast<const Expr*>(n.word()), where);
}

void Verifier::need_symbols(const GraphValue& value, std::string_view where) {
  if (is_number_kind(value.kind)) need_symbols(value.scalar, where);
  if (value.kind != ValueKind::tensor) return;
  for (SymInt size : value.meta.sizes) need_symbols(size, where);
  for (SymInt stride : value.meta.strides) need_symbols(stride, where);
  need_symbols(value.offset, where);
}

void Verifier::check_node(NodeId n) {
  const Node& node = graph_.node(n);
  check_uses(n);
  check_args(n);
  check_results(n);
  for (const Value& arg : node.args)
    for_each_symbolic(arg, [&](Number number) { need_symbols(number, node_name(n)); });
  for (const SymbolBinding& b : graph_.symbols)
    if (b.value >= node.first_result && b.value < node.first_result + node.n_results)
      bound_.insert(b.symbol);
  for (uint32_t r = 0; r < node.n_results; ++r)
    need_symbols(graph_.value(node.first_result + r), value_name(node.first_result + r));
}

void Verifier::check_uses(NodeId n) {
  Graph::for_each_use(graph_.node(n), [&](ValueId v) {
    if (v >= graph_.values().size())
      return problem("{} reads value {}, which does not exist", node_name(n), v);
    const GraphValue& value = graph_.value(v);
    if (value.source == ValueSource::node && value.source_index >= n)
      problem("{} reads {} before it is computed", node_name(n), value_name(v));
  });
}

bool Verifier::fits_list(const Value& arg, const SchemaType& type) const {
  switch (type.base) {
    case BaseType::tensor:
      if (arg.tag != Tag::refs) return false;
      for (uint32_t i = 0; i < arg.count; ++i) {
        ValueId v = arg.as<ValueId>()[i];
        if (v == no_value
                ? !type.optional_element
                : v >= graph_.values().size() || graph_.value(v).kind != ValueKind::tensor)
          return false;
      }
      return true;
    case BaseType::scalar:
    case BaseType::floating:
    case BaseType::sym_float:
      return arg.tag == Tag::floats;
    case BaseType::boolean:
    case BaseType::sym_bool:
      return arg.tag == Tag::bools;
    case BaseType::string:
      return arg.tag == Tag::strings;
    default:
      return arg.tag == Tag::ints;
  }
}

bool Verifier::fits(const Value& arg, const SchemaType& type) const {
  if (arg.is_none() || is_value(arg, ValueKind::none))
    return type.optional || type.base == BaseType::any;
  if (type.base == BaseType::any) return true;
  if (type.is_list) return fits_list(arg, type);
  switch (type.base) {
    case BaseType::tensor:
      return is_value(arg, ValueKind::tensor);
    case BaseType::scalar:
      return is_any_number(arg);
    case BaseType::integer:
    case BaseType::sym_int:
      return arg.tag == Tag::integer || is_value(arg, ValueKind::sym_int);
    case BaseType::floating:
    case BaseType::sym_float:
      return arg.tag == Tag::floating || arg.tag == Tag::integer ||
             is_value(arg, ValueKind::sym_float) || is_value(arg, ValueKind::sym_int);
    case BaseType::boolean:
    case BaseType::sym_bool:
      return arg.tag == Tag::boolean || is_value(arg, ValueKind::sym_bool);
    case BaseType::string:
      return arg.tag == Tag::string;
    case BaseType::scalar_type:
      return arg.tag == Tag::dtype;
    case BaseType::layout:
      return arg.tag == Tag::layout;
    case BaseType::device:
      return arg.tag == Tag::device;
    case BaseType::memory_format:
      return arg.tag == Tag::memory_format;
    case BaseType::graph:
      return arg.tag == Tag::graph;
    default:
      return arg.tag == Tag::opaque;
  }
}

void Verifier::check_args(NodeId n) {
  const Node& node = graph_.node(n);
  const Schema& schema = entry_of(node.op).schema;
  if (node.args.size() != schema.args.size())
    return problem("{} has {} arguments, its schema has {}: {}", node_name(n), node.args.size(),
                   schema.args.size(), to_text(schema));
  for (size_t i = 0; i < schema.args.size(); ++i) {
    const SchemaArg& arg = schema.args[i];
    if (!fits(node.args[i], arg.type))
      problem("{}: argument {} does not fit its type {}; the schema is {}", node_name(n), arg.name,
              to_text(arg.type), to_text(schema));
    if (node.args[i].tag != Tag::graph) continue;
    bool kept = false;
    for (const auto& sub : graph_.subgraphs) kept |= sub.get() == node.args[i].as<Graph>();
    if (!kept)
      problem("{}: the sub-graph of argument {} is not kept by the graph", node_name(n), arg.name);
  }
}

void Verifier::check_results(NodeId n) {
  const Node& node = graph_.node(n);
  const Schema& schema = entry_of(node.op).schema;
  bool is_list = schema.returns_list();
  if (schema.is_for_parts())
    return problem("{} gives or writes a list, which no node of a graph does; call its parts",
                   node_name(n));
  if (!is_list && node.n_results != schema.returns.size())
    return problem("{} has {} results, its schema has {}", node_name(n), node.n_results,
                   schema.returns.size());
  for (uint32_t r = 0; r < node.n_results; ++r) {
    const SchemaType& type = schema.returns[is_list ? 0 : r].type;
    ValueKind kind = graph_.value(node.first_result + r).kind;
    bool fits = kind == ValueKind::none || type.base == BaseType::any ||
                (type.base == BaseType::tensor ? kind == ValueKind::tensor : is_number_kind(kind));
    if (!fits) problem("{}: result {} does not fit its type {}", node_name(n), r, to_text(type));
  }
}

// Bodies fit what they get and give, and write nothing that is not theirs. Asked once graph and
// bodies are known to be well-formed.
void Verifier::check_bodies(NodeId n) {
  const Node& node = graph_.node(n);
  const OpEntry& op = entry_of(node.op);
  std::vector<const Graph*> bodies;
  std::vector<std::vector<TensorMeta>> operands;
  for (const Value& arg : node.args) {
    if (arg.tag == Tag::graph) bodies.push_back(arg.as<Graph>());
    if (arg.tag != Tag::refs) continue;
    operands.emplace_back();
    for (uint32_t k = 0; k < arg.count; ++k)
      operands.back().push_back(graph_.value(arg.as<ValueId>()[k]).meta);
  }
  std::string wrong = control_flow_problem(control_flow_of(op), bodies, operands);
  if (!wrong.empty()) return problem("{}: {}", node_name(n), wrong);
  size_t n_results = bodies.back()->outputs().size();
  if (node.n_results != n_results)
    problem("{} has {} results, its body gives {}", node_name(n), node.n_results, n_results);
}

void Verifier::check_outputs() {
  for (ValueId v : graph_.outputs())
    if (v != no_value && v >= graph_.values().size())
      problem("the graph returns value {}, which does not exist", v);
}

[[noreturn]] void report(const Graph& graph, const std::vector<std::string>& problems) {
  std::string text = "graph " + (graph.name.empty() ? "" : graph.name + " ") + "is malformed:";
  for (const std::string& p : problems) text += "\n  " + p;
  fail_internal(text);
}

}  // namespace

std::vector<std::string> problems_of(const Graph& graph) {
  std::optional<ShapeEnvScope> scope;  // a body that is recorded has an environment of its own
  if (graph.shape_env) scope.emplace(*graph.shape_env);
  return Verifier(graph, {}).run();
}

void verify(const Graph& graph) {
  std::vector<std::string> problems = problems_of(graph);
  if (!problems.empty()) report(graph, problems);
}

void verify_meta(const Graph& graph) {
  verify(graph);
  std::vector<std::string> problems = meta_problems_of(graph);
  if (!problems.empty()) report(graph, problems);
}

}  // namespace tenon
