// From a graph to its document: order, names, what is left out, and the canonical form.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "core/sym/sym_text.h"
#include "core/tensor/tensor_impl.h"
#include "graph/hash.h"
#include "graph/text/document.h"
#include "graph/text/elements.h"
#include "ops/op_table.h"

namespace tenon {

namespace {

/// How symbols are written: by their name in the environment, or renumbered.
class SymbolWriter {
 public:
  SymbolWriter(const Graph& graph, bool canonical) : env_(graph.shape_env.get()) {
    collect(graph);
    if (canonical) renumber();
  }

  std::span<const Expr* const> symbols() const { return order_; }
  const SymbolInfo* info(const Expr* symbol) const {
    return env_ && env_->owns(symbol) ? &env_->info(symbol) : nullptr;
  }
  std::string name(const Expr* symbol) const {
    auto renamed = renamed_.find(symbol);
    if (renamed != renamed_.end()) return renamed->second.name;
    const SymbolInfo* known = info(symbol);
    return known ? known->name : "unknown" + std::to_string(symbol->symbol());
  }
  // Renumbered symbols are put in before the text is written, so that the order of operands, which
  // follows the numbers, does not depend on the environment either.
  std::string text(const Expr* expr) const {
    if (renamed_.empty()) return expr_text(expr, [this](const Expr* s) { return name(s); });
    const Expr* renumbered = substitute(expr, [this](const Expr* s) -> const Expr* {
      auto found = renamed_.find(s);
      return found == renamed_.end() ? nullptr : found->second.symbol;
    });
    return expr_text(renumbered, [this](const Expr* s) { return names_.at(s); });
  }
  bool writes(const Expr* expr) const {
    for (const Expr* s : free_symbols(expr))
      if (!seen_.count(s)) return false;
    return true;
  }

 private:
  struct Renamed {
    const Expr* symbol;
    std::string name;
  };

  void add(const Expr* symbol) {
    if (seen_.insert(symbol).second) order_.push_back(symbol);
  }
  void add_inside(const Expr* expr) {
    for (const Expr* s : free_symbols(expr)) add(s);
  }
  void add_inside(SymInt v) {
    if (v.is_symbolic()) add_inside(v.expr());
  }
  void add_inside(Number n) {
    if (!n.is_symbolic()) return;
    if (n.is_integer())
      add_inside(n.sym_int());
    else
      add_inside(std::bit_cast<const Expr*>(n.word()));
  }

  void collect(const Graph& graph) {
    for (const SymbolBinding& binding : graph.symbols) add(binding.symbol);
    for (const GraphValue& value : graph.values()) {
      for (SymInt s : value.meta.sizes) add_inside(s);
      for (SymInt s : value.meta.strides) add_inside(s);
      add_inside(value.offset);
      add_inside(value.scalar);
    }
    for (const Node& node : graph.nodes())
      for (const Value& arg : node.args) for_each_symbolic(arg, [&](Number n) { add_inside(n); });
    for (const auto& sub : graph.subgraphs) collect(*sub);
  }

  void renumber() {
    int sizes = 0, floats = 0, run_time = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const SymbolInfo* known = info(order_[i]);
      bool open = !known || !known->hint;
      std::string renamed = open                                ? "u" + std::to_string(run_time++)
                            : order_[i]->kind == ExprKind::real ? "zf" + std::to_string(floats++)
                                                                : "s" + std::to_string(sizes++);
      const Expr* symbol = intern_symbol(static_cast<uint32_t>(i), order_[i]->kind);
      names_[symbol] = renamed;
      renamed_[order_[i]] = {symbol, renamed};
    }
  }

  const ShapeEnv* env_;
  std::vector<const Expr*> order_;
  std::set<const Expr*> seen_;
  std::unordered_map<const Expr*, Renamed> renamed_;
  std::unordered_map<const Expr*, std::string> names_;  // of renumbered symbols
};

class Describer {
 public:
  Describer(const Graph& graph, const PrintOptions& options, const SymbolWriter& symbols,
            bool nested)
      : graph_(graph), options_(options), symbols_(symbols), nested_(nested) {
    choose_order();
    choose_names();
    for (ValueId v : graph.outputs())
      if (v != no_value) outputs_.insert(v);
  }

  GraphDoc describe();
  std::vector<ValueId> constants() const {
    std::vector<ValueId> out;
    for (const Item& item : items_)
      if (item.kind == StatementDoc::Kind::constant) out.push_back(item.id);
    return out;
  }
  StatementDoc describe_node(NodeId id) const {
    return describe_item({StatementDoc::Kind::node, id});
  }

 private:
  struct Item {
    StatementDoc::Kind kind;
    uint32_t id;  // value or node
  };

  void choose_order();
  void order_by_use();
  void choose_names();
  std::string sub_name(size_t index) const;

  Literal literal(SymInt v) const;
  Literal literal(Number n) const;
  Literal literal(const Value& arg) const;
  Literal list(const Value& arg) const;
  std::vector<Literal> literals(const Dims& dims) const;

  void describe_symbols(GraphDoc& doc) const;
  void describe_assumptions(GraphDoc& doc) const;
  SymbolDoc describe_symbol(const Expr* symbol) const;
  ValueDoc describe_value(ValueId id) const;
  StatementDoc describe_item(const Item& item) const;
  void describe_node(const Node& node, StatementDoc& statement) const;
  void describe_args(const Node& node, StatementDoc& statement) const;

  const Graph& graph_;
  const PrintOptions& options_;
  const SymbolWriter& symbols_;
  bool nested_;
  std::vector<Item> items_;
  std::vector<std::string> names_;
  std::set<ValueId> outputs_;
};

// The order of ids, which is that of definition; nodes without results stay in their place, and a
// constant that was added later stands before its first use.
void Describer::choose_order() {
  if (options_.canonical) return order_by_use();
  std::vector<bool> done(graph_.values().size());
  size_t n_inputs = 0;
  auto add = [&](ValueId v) {
    if (v >= done.size() || done[v] || graph_.value(v).source == ValueSource::node) return;
    done[v] = true;
    if (graph_.value(v).source == ValueSource::constant)
      return items_.push_back({StatementDoc::Kind::constant, v});
    // All inputs before it, too: who reads the text knows their order by their places.
    for (ValueId input = no_value; input != v; ++n_inputs) {
      input = graph_.inputs()[n_inputs];
      done[input] = true;
      items_.push_back({StatementDoc::Kind::input, input});
    }
  };
  ValueId next = 0;
  auto sources_before = [&](size_t end) {
    for (; next < end; ++next) add(next);
  };
  for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = graph_.node(n);
    if (node.n_results) sources_before(std::min<size_t>(node.first_result, done.size()));
    Graph::for_each_use(node, add);
    items_.push_back({StatementDoc::Kind::node, n});
  }
  sources_before(graph_.values().size());
}

// Inputs, constants in order of first use (those without use last), nodes.
void Describer::order_by_use() {
  for (ValueId v : graph_.inputs()) items_.push_back({StatementDoc::Kind::input, v});
  std::set<ValueId> seen;
  auto use = [&](ValueId v) {
    if (v < graph_.values().size() && graph_.value(v).source == ValueSource::constant &&
        seen.insert(v).second)
      items_.push_back({StatementDoc::Kind::constant, v});
  };
  for (const Node& node : graph_.nodes()) Graph::for_each_use(node, use);
  for (ValueId v : graph_.outputs()) use(v);
  for (ValueId v : graph_.constants()) use(v);
  for (NodeId n = 0; n < graph_.nodes().size(); ++n)
    items_.push_back({StatementDoc::Kind::node, n});
}

// Every value gets a name of its own: the given one, else "v" and its place in the text.
void Describer::choose_names() {
  names_.resize(graph_.values().size());
  std::set<std::string> taken;
  size_t place = 0;
  auto choose = [&](ValueId v) {
    std::string made = "v" + std::to_string(place++);
    const std::string& given = graph_.value(v).name;
    std::string name = given.empty() || options_.canonical ? made : given;
    for (int suffix = 1; !taken.insert(name).second; ++suffix)
      name = (given.empty() ? made : given) + "_" + std::to_string(suffix);
    names_[v] = name;
  };
  for (const Item& item : items_) {
    if (item.kind != StatementDoc::Kind::node) {
      choose(item.id);
      continue;
    }
    const Node& node = graph_.node(item.id);
    for (uint32_t r = 0; r < node.n_results; ++r) choose(node.first_result + r);
  }
}

std::string Describer::sub_name(size_t index) const {
  const std::string& given = graph_.subgraphs[index]->name;
  if (given.empty() || options_.canonical) return "g" + std::to_string(index);
  for (size_t i = 0; i < index; ++i)
    if (graph_.subgraphs[i]->name == given) return given + "_" + std::to_string(index);
  return given;
}

Literal Describer::literal(SymInt v) const {
  if (!v.is_symbolic()) return Literal::of_int(v.word());
  return Literal::of_text(Literal::Kind::expression, symbols_.text(v.expr()));
}

Literal Describer::literal(Number n) const {
  if (n.is_integer()) return literal(n.sym_int());
  if (n.is_symbolic())
    return Literal::of_text(Literal::Kind::expression,
                            symbols_.text(std::bit_cast<const Expr*>(n.word())));
  if (n.is_boolean()) return {.kind = Literal::Kind::boolean, .integer = n.word() != 0};
  return {.kind = Literal::Kind::floating, .floating = std::bit_cast<double>(n.word())};
}

std::vector<Literal> Describer::literals(const Dims& dims) const {
  std::vector<Literal> out;
  for (SymInt v : dims) out.push_back(literal(v));
  return out;
}

Literal Describer::list(const Value& arg) const {
  Literal out{.kind = Literal::Kind::list};
  for (uint32_t i = 0; i < arg.count; ++i) {
    switch (arg.tag) {
      case Tag::refs: {
        ValueId v = arg.as<ValueId>()[i];
        out.items.push_back(v == no_value ? Literal{} : literal(Value::ref(v)));
        break;
      }
      case Tag::ints:
        out.items.push_back(literal(arg.as<SymInt>()[i]));
        break;
      case Tag::floats:
        out.items.push_back(literal(Number(arg.as<double>()[i])));
        break;
      case Tag::bools:
        out.items.push_back(literal(Number(arg.as<bool>()[i])));
        break;
      default:
        out.items.push_back(
            Literal::of_text(Literal::Kind::text, std::string(arg.as<std::string_view>()[i])));
    }
  }
  return out;
}

Literal Describer::literal(const Value& arg) const {
  using Kind = Literal::Kind;
  auto word = [](std::string text) { return Literal::of_text(Kind::word, std::move(text)); };
  switch (arg.tag) {
    case Tag::none:
      return {};
    case Tag::ref: {
      bool known = arg.payload < names_.size();
      return Literal::of_text(Kind::value,
                              known ? names_[arg.payload] : std::to_string(arg.payload));
    }
    case Tag::integer:
    case Tag::floating:
    case Tag::boolean:
      return literal(arg.number());
    case Tag::refs:
    case Tag::ints:
    case Tag::floats:
    case Tag::bools:
    case Tag::strings:
      return list(arg);
    case Tag::string:
      return Literal::of_text(Kind::text, std::string(arg.as<char>(), arg.count));
    case Tag::dtype:
      return word(std::string(name_of(static_cast<Dtype>(arg.payload))));
    case Tag::layout:
      return word(static_cast<Layout>(arg.payload) == Layout::strided ? "strided" : "sparse");
    case Tag::memory_format:
      return word(to_text(static_cast<MemoryFormat>(arg.payload)));
    case Tag::device:
      return word(to_text(arg.device()));
    case Tag::graph:
      for (size_t i = 0; i < graph_.subgraphs.size(); ++i)
        if (graph_.subgraphs[i].get() == arg.as<Graph>())
          return Literal::of_text(Kind::graph, sub_name(i));
      return Literal::of_text(Kind::graph, "unknown");
    default:
      return {.kind = Kind::opaque};
  }
}

SymbolDoc Describer::describe_symbol(const Expr* symbol) const {
  SymbolDoc doc;
  doc.name = symbols_.name(symbol);
  doc.kind = symbol->kind;
  if (const SymbolInfo* info = symbols_.info(symbol)) {
    doc.hint = info->hint;
    doc.size_like = info->size_like;
    if (symbol->kind == ExprKind::integer) doc.range = graph_.shape_env->range(symbol);
  }
  for (const SymbolBinding& binding : graph_.symbols) {
    if (binding.symbol != symbol || binding.value >= names_.size()) continue;
    doc.from = names_[binding.value];
    doc.dim = binding.dim;
    doc.stride = binding.stride;
  }
  return doc;
}

// The outermost graph declares every symbol; a sub-graph tells only what it binds itself.
void Describer::describe_symbols(GraphDoc& doc) const {
  if (nested_) {
    for (const SymbolBinding& binding : graph_.symbols) {
      SymbolDoc bound = describe_symbol(binding.symbol);
      doc.symbols.push_back({.name = bound.name,
                             .kind = bound.kind,
                             .from = bound.from,
                             .dim = bound.dim,
                             .stride = bound.stride});
    }
    return;
  }
  for (const Expr* symbol : symbols_.symbols()) doc.symbols.push_back(describe_symbol(symbol));
  if (graph_.shape_env && !doc.symbols.empty()) describe_assumptions(doc);
}

// Guards and asserts on the symbols of this graph, without those that the ranges and the ones
// before tell already: a reader would not record them.
void Describer::describe_assumptions(GraphDoc& doc) const {
  const ShapeEnv& env = *graph_.shape_env;
  SymFacts facts;
  for (const Expr* symbol : symbols_.symbols())
    if (const SymFacts::Symbol* known = env.facts().find(symbol))
      facts.add_symbol(
          {.expr = symbol,
           .range = symbol->kind == ExprKind::integer ? env.range(symbol) : known->range,
           .unbacked = known->unbacked,
           .derived = known->derived});
  auto assume = [&](const Expr* condition) {
    if (!symbols_.writes(condition) || simplify(condition, &facts)->is_constant()) return;
    doc.assumptions.emplace_back(TextPosition{}, symbols_.text(condition));
    facts.assume(condition);
  };
  for (const RecordedGuard& guard : env.guards()) assume(guard.condition);
  for (const RuntimeAssert& check : env.runtime_asserts()) assume(check.condition);
}

ValueDoc Describer::describe_value(ValueId id) const {
  const GraphValue& value = graph_.value(id);
  ValueDoc doc;
  doc.name = names_[id];
  doc.kind = value.kind;
  doc.defined = value.meta.defined;
  doc.flags = value.flags;
  if (value.source == ValueSource::constant) doc.flags.static_address = false;
  bool is_output = outputs_.count(id) != 0;
  doc.flags.user_output = value.flags.user_output && !is_output;
  doc.internal = is_output && !value.flags.user_output;
  doc.alias_group = value.alias_group;
  if (value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_float ||
      value.kind == ValueKind::sym_bool)
    doc.scalar = literal(value.scalar);
  if (value.kind != ValueKind::tensor) return doc;
  doc.dtype = value.meta.dtype;
  doc.device = value.meta.device;
  doc.sizes = literals(value.meta.sizes);
  Dims row_major = contiguous_strides(list_of(value.meta.sizes));
  auto same_word = [](SymInt a, SymInt b) { return a.word() == b.word(); };
  if (!std::equal(row_major.begin(), row_major.end(), value.meta.strides.begin(),
                  value.meta.strides.end(), same_word))
    doc.strides = literals(value.meta.strides);
  doc.offset = literal(value.offset);
  return doc;
}

void Describer::describe_args(const Node& node, StatementDoc& statement) const {
  const OpEntry& op = entry_of(node.op);
  bool by_name = false;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const SchemaArg* arg = i < op.schema.args.size() ? &op.schema.args[i] : nullptr;
    by_name |= arg && arg->kwarg_only;
    if (arg && !options_.canonical && arg->has_default() &&
        same_argument(node.args[i], default_of(op, i))) {
      by_name = true;
      continue;
    }
    statement.args.emplace_back(by_name && arg ? arg->name : "", literal(node.args[i]));
  }
}

void Describer::describe_node(const Node& node, StatementDoc& statement) const {
  statement.op = name_of(node.op);
  for (uint32_t r = 0; r < node.n_results; ++r)
    statement.results.push_back(describe_value(node.first_result + r));
  describe_args(node, statement);
  statement.facts = node.facts;
  if (options_.canonical || !options_.locations) return;
  statement.name = node.name;
  statement.module_path = node.module_path;
  statement.where = node.where;
  statement.seq_nr = node.seq_nr;
}

StatementDoc Describer::describe_item(const Item& item) const {
  StatementDoc statement;
  statement.kind = item.kind;
  if (item.kind == StatementDoc::Kind::node) {
    describe_node(graph_.node(item.id), statement);
    return statement;
  }
  statement.results.push_back(describe_value(item.id));
  if (item.kind == StatementDoc::Kind::input) return statement;
  const Tensor& tensor = graph_.constant(item.id);
  statement.results[0].wrapped = is_wrapped_number(tensor);
  describe_elements(tensor, options_.inline_elements, statement);
  return statement;
}

GraphDoc Describer::describe() {
  GraphDoc doc;
  if (!options_.canonical) doc.name = graph_.name;
  describe_symbols(doc);
  for (size_t i = 0; i < graph_.subgraphs.size(); ++i) {
    GraphDoc sub = Describer(*graph_.subgraphs[i], options_, symbols_, true).describe();
    sub.name = sub_name(i);
    doc.graphs.push_back(std::move(sub));
  }
  for (const Item& item : items_) doc.body.push_back(describe_item(item));
  for (ValueId v : graph_.outputs())
    doc.outputs.push_back(v == no_value ? Literal{} : literal(Value::ref(v)));
  return doc;
}

}  // namespace

GraphDoc describe_graph(const Graph& graph, const PrintOptions& options) {
  // Row-major strides are computed under what the graph knows, as they were when it was made.
  std::optional<ShapeEnvScope> scope;
  if (graph.shape_env) scope.emplace(*graph.shape_env);
  SymbolWriter symbols(graph, options.canonical);
  return Describer(graph, options, symbols, false).describe();
}

StatementDoc describe_node(const Graph& graph, NodeId node) {
  std::optional<ShapeEnvScope> scope;
  if (graph.shape_env) scope.emplace(*graph.shape_env);
  PrintOptions options;
  SymbolWriter symbols(graph, false);
  return Describer(graph, options, symbols, false).describe_node(node);
}

std::vector<ValueId> constants_as_written(const Graph& graph) {
  PrintOptions options;
  SymbolWriter symbols(graph, false);
  return Describer(graph, options, symbols, false).constants();
}

}  // namespace tenon
