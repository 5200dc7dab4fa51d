// From a document to a graph: names, symbols, types and arguments get their meaning and are
// checked.
#include "core/joined.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_text.h"
#include "core/tensor/tensor_impl.h"
#include "graph/text/build_parts.h"
#include "graph/text/document.h"
#include "graph/text/elements.h"
#include "graph/text/parse.h"
#include "graph/verify.h"
#include "ops/op_table.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

namespace tenon {

namespace {

/// Builds one graph.
class Builder {
 public:
  Builder(const GraphDoc& doc, GraphNames& shared)
      : doc_(doc),
        shared_(shared),
        arguments_(shared, [this](TextPosition at, const std::string& name) {
          return value_id(at, name);
        }) {}
  std::shared_ptr<Graph> build();

 private:
  void declare_symbol(const SymbolDoc& symbol);
  void bind_symbols();
  void add_subgraphs();
  void add_statement(const StatementDoc& statement);
  void add_constant(const StatementDoc& statement);
  void add_node(const StatementDoc& statement);
  void add_outputs();

  void define(const ValueDoc& doc, ValueId id);
  ValueId value_id(TextPosition at, const std::string& name) const;
  GraphValue value(const ValueDoc& doc) const;
  SymbolSource source_of(const SymbolDoc& symbol) const;

  const GraphDoc& doc_;
  GraphNames& shared_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::unordered_map<std::string, ValueId> names_;
  ArgumentBuilder arguments_;
};

std::string own_name(const std::string& name, const char* prefix, size_t index) {
  return name == prefix + std::to_string(index) ? "" : name;
}

std::shared_ptr<Graph> Builder::build() {
  graph_->name = doc_.name;
  graph_->shape_env = shared_.env;
  for (const SymbolDoc& symbol : doc_.symbols)
    with_position(symbol.at, [&] { declare_symbol(symbol); });
  for (const auto& [at, condition] : doc_.assumptions) {
    const Expr* expr = shared_.expression(at, condition);
    if (expr->kind != ExprKind::boolean) fail_at(at, "expected a condition after 'assume'");
    with_position(at, [&, e = expr] { shared_.env->check(e); });
  }
  add_subgraphs();
  for (const StatementDoc& statement : doc_.body)
    with_position(statement.at, [&] { add_statement(statement); });
  add_outputs();
  bind_symbols();
  return std::move(graph_);
}

// ---- symbols

SymbolSource Builder::source_of(const SymbolDoc& symbol) const {
  if (!symbol.from) return {};
  uint32_t index = 0;
  for (const StatementDoc& statement : doc_.body) {
    if (statement.kind != StatementDoc::Kind::input) continue;
    if (statement.results[0].name == *symbol.from) {
      SymbolSource::Kind kind = symbol.dim < 0  ? SymbolSource::Kind::input_value
                                : symbol.stride ? SymbolSource::Kind::input_stride
                                                : SymbolSource::Kind::input_size;
      return {kind, index, static_cast<uint32_t>(std::max(symbol.dim, 0))};
    }
    ++index;
  }
  return {SymbolSource::Kind::node_value, 0, 0};
}

std::string source_text(const SymbolDoc& symbol) {
  if (!symbol.from) return symbol.name;
  if (symbol.dim < 0) return *symbol.from;
  return *symbol.from + (symbol.stride ? ".stride(" : ".size(") + std::to_string(symbol.dim) + ")";
}

bool is_symbol_name(const std::string& name) {
  static constexpr std::string_view reserved[] = {
      "and", "or",  "not",     "true",  "false", "none",  "inf",   "nan",  "opaque", "min",
      "max", "pow", "ceildiv", "where", "float", "trunc", "floor", "ceil", "round"};
  bool letters = !name.empty() && name.size() <= 64 && !(name[0] >= '0' && name[0] <= '9');
  for (char c : name)
    letters &=
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letters && std::find(std::begin(reserved), std::end(reserved), name) == std::end(reserved);
}

void Builder::declare_symbol(const SymbolDoc& symbol) {
  if (const Expr* known = shared_.lookup(symbol.name)) {
    if (known->kind != symbol.kind)
      fail_at(symbol.at, message("symbol {} is declared with two types", symbol.name));
    return;
  }
  if (!is_symbol_name(symbol.name))
    fail_at(symbol.at, message("'{}' cannot be the name of a symbol; use letters, digits and _",
                               symbol.name.substr(0, 64)));
  bool whole = symbol.kind == ExprKind::integer;
  if (!whole && (symbol.size_like || symbol.range != Range{}))
    fail_at(symbol.at, message("symbol {}: only integers have ranges and sizes", symbol.name));
  bool fits = !symbol.hint || symbol.kind != ExprKind::integer ||
              symbol.range.contains(symbol.hint->integer());
  if (symbol.range.is_empty() || !fits)
    fail_at(symbol.at, message("symbol {}: no value, or not the hint, lies in {}", symbol.name,
                               to_text(symbol.range)));
  const Expr* expr = shared_.env->declare_symbol(
      symbol.name, symbol.kind, symbol.hint, symbol.range, source_of(symbol), source_text(symbol));
  if (symbol.size_like) shared_.env->mark_size_like(as_sym_int(expr));
  shared_.symbols[symbol.name] = expr;
}

void Builder::bind_symbols() {
  for (const SymbolDoc& symbol : doc_.symbols) {
    if (!symbol.from) continue;
    graph_->symbols.push_back({shared_.lookup(symbol.name), value_id(symbol.at, *symbol.from),
                               symbol.dim, symbol.stride});
  }
}

// ---- values

ValueId Builder::value_id(TextPosition at, const std::string& name) const {
  auto found = names_.find(name);
  if (found == names_.end()) fail_at(at, message("%{} is used here but not defined before", name));
  return found->second;
}

void Builder::define(const ValueDoc& doc, ValueId id) {
  if (!names_.emplace(doc.name, id).second)
    fail_at(doc.at, message("%{} is defined twice", doc.name));
  graph_->value(id).name = own_name(doc.name, "v", id);
}

GraphValue Builder::value(const ValueDoc& doc) const {
  GraphValue value;
  value.kind = doc.kind;
  value.flags = doc.flags;
  value.alias_group = doc.alias_group;
  bool is_number = doc.kind == ValueKind::sym_int || doc.kind == ValueKind::sym_float ||
                   doc.kind == ValueKind::sym_bool;
  if (is_number) {
    value.scalar = shared_.number(doc.scalar);
    bool fits = doc.kind == ValueKind::sym_int     ? value.scalar.is_integer()
                : doc.kind == ValueKind::sym_float ? value.scalar.is_floating()
                                                   : value.scalar.is_boolean();
    if (!fits) fail_at(doc.at, message("%{}: the number is not of the type before it", doc.name));
  }
  value.meta.defined = doc.defined;
  if (doc.kind != ValueKind::tensor || !doc.defined) return value;
  value.meta.dtype = doc.dtype;
  value.meta.device = doc.device;
  value.meta.sizes = shared_.sizes(doc.sizes, "size");
  // Computed in any case: sizes whose row-major strides overflow are refused here.
  value.meta.strides = contiguous_strides(list_of(value.meta.sizes));
  if (doc.strides) value.meta.strides = shared_.sizes(*doc.strides, "stride");
  if (value.meta.strides.size() != value.meta.sizes.size())
    fail_at(doc.at, message("%{} has {} sizes and {} strides", doc.name, value.meta.sizes.size(),
                            value.meta.strides.size()));
  value.offset = shared_.size(doc.offset, "offset");
  return value;
}

// ---- statements

void Builder::add_subgraphs() {
  for (const GraphDoc& doc : doc_.graphs) {
    std::shared_ptr<Graph> sub = Builder(doc, shared_).build();
    std::string name = doc.name;
    sub->name = own_name(name, "g", graph_->subgraphs.size());
    if (!arguments_.subgraphs.emplace(name, sub.get()).second)
      fail_at(doc.at, message("two sub-graphs are called @{}", name));
    graph_->subgraphs.push_back(std::move(sub));
  }
}

void Builder::add_constant(const StatementDoc& statement) {
  const ValueDoc& doc = statement.results[0];
  GraphValue described = value(doc);
  bool plain = doc.kind == ValueKind::tensor && doc.defined && !described.offset.is_symbolic() &&
               !list_of(described.meta.sizes).is_symbolic() &&
               !list_of(described.meta.strides).is_symbolic();
  if (!plain) fail_at(doc.at, message("constant %{} must be a tensor with plain sizes", doc.name));
  Tensor tensor =
      build_constant(statement, described.meta, described.offset.word(), shared_.options);
  if (doc.wrapped && !tensor.is_fake()) impl_of(tensor)->ensure_extra().wrapped_number = true;
  ValueId id = graph_->add_constant(std::move(tensor), "");
  graph_->value(id).flags = doc.flags;
  graph_->value(id).flags.static_address = true;
  graph_->value(id).alias_group = doc.alias_group;
  define(doc, id);
}

void Builder::add_statement(const StatementDoc& statement) {
  switch (statement.kind) {
    case StatementDoc::Kind::input:
      return define(statement.results[0], graph_->add_input(value(statement.results[0])));
    case StatementDoc::Kind::constant:
      return add_constant(statement);
    case StatementDoc::Kind::node:
      return add_node(statement);
  }
}

void Builder::add_node(const StatementDoc& statement) {
  const OpEntry* op = find_op(statement.op);
  if (!op) shared_.unknown_ops.insert(statement.op);
  std::vector<GraphValue> results;
  for (const ValueDoc& doc : statement.results) results.push_back(value(doc));
  std::vector<Value> args;
  if (op) args = arguments_.arguments(*op, statement);
  NodeId id = graph_->add_node(op ? op->id : OpId{}, args, std::move(results));
  Node& node = graph_->node(id);
  for (uint32_t r = 0; r < node.n_results; ++r) define(statement.results[r], node.first_result + r);
  node.name = statement.name;
  node.module_path = statement.module_path;
  node.where = statement.where;
  node.seq_nr = statement.seq_nr;
  node.facts = statement.facts;
}

void Builder::add_outputs() {
  std::vector<ValueId> outputs;
  std::set<ValueId> internal;
  for (const StatementDoc& statement : doc_.body)
    for (const ValueDoc& doc : statement.results)
      if (doc.internal) internal.insert(names_.at(doc.name));
  for (const Literal& item : doc_.outputs) {
    outputs.push_back(item.kind == Literal::Kind::none ? no_value : value_id(item.at, item.text));
    if (outputs.back() != no_value && !internal.count(outputs.back()))
      graph_->value(outputs.back()).flags.user_output = true;
  }
  graph_->set_outputs(std::move(outputs));
}

bool has_symbols(const GraphDoc& doc) {
  return !doc.symbols.empty() || !doc.assumptions.empty() ||
         std::any_of(doc.graphs.begin(), doc.graphs.end(), has_symbols);
}

}  // namespace

std::shared_ptr<Graph> build_graph(const GraphDoc& doc, const ParseOptions& options) {
  GraphNames shared{options, options.shape_env, {}, {}};
  if (!shared.env && has_symbols(doc)) shared.env = ShapeEnv::make();
  std::optional<ShapeEnvScope> scope;
  if (shared.env) scope.emplace(*shared.env);
  std::shared_ptr<Graph> graph = Builder(doc, shared).build();
  require(shared.unknown_ops.empty(), ErrorCode::unsupported,
          "the graph calls ops that this version of Tenon does not have: {}",
          joined(shared.unknown_ops));
  if (options.check_metadata) {
    admit_graph(*graph, "graph text");
    return graph;
  }
  std::vector<std::string> problems = problems_of(*graph);
  if (!problems.empty()) fail(ErrorCode::bad_file, "graph text: {}", problems.front());
  return graph;
}

}  // namespace tenon
