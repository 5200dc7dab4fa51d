// From a document to a graph: names, symbols, types and arguments get their meaning and are
// checked.
#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>

#include "core/sym_text.h"
#include "core/tensor_impl.h"
#include "graph/document.h"
#include "graph/elements.h"
#include "graph/parse.h"
#include "graph/verify.h"
#include "ops/op_table.h"

namespace tenon {

namespace {

// Errors of other rooms get the position of the statement that they arose in.
template <class F>
auto with_position(TextPosition at, F f) {
  try {
    return f();
  } catch (const UserError& error) {
    if (std::string_view(error.what()).starts_with("graph text")) throw;
    fail_at(at, error.what());
  }
}

/// What all graphs of one text share: the symbols, and the ops that nobody knows.
struct Shared {
  const ParseOptions& options;
  std::shared_ptr<ShapeEnv> env;
  std::unordered_map<std::string, const Expr*> symbols;
  std::set<std::string> unknown_ops;

  const Expr* lookup(std::string_view name) const {
    auto found = symbols.find(std::string(name));
    return found == symbols.end() ? nullptr : found->second;
  }
  const Expr* expression(TextPosition at, std::string_view text) const;
  SymInt size(const Literal& literal, std::string_view what) const;
  Dims sizes(const std::vector<Literal>& literals, std::string_view what) const;
  Number number(const Literal& literal) const;
};

// The reader of expressions goes down one level a bracket and a sign.
void check_expression_size(TextPosition at, std::string_view text) {
  size_t depth = 0, deepest = 0;
  for (char c : text) {
    if (c == '(') deepest = std::max(deepest, ++depth);
    if (c == ')' && depth > 0) --depth;
  }
  if (text.size() > graph_limits::expression_bytes || deepest > graph_limits::bracket_depth)
    fail_at(at, message("an expression has at most {} bytes and {} nested brackets",
                        graph_limits::expression_bytes, graph_limits::bracket_depth));
}

const Expr* Shared::expression(TextPosition at, std::string_view text) const {
  check_expression_size(at, text);
  return with_position(
      at, [&] { return parse_expr(text, [this](std::string_view name) { return lookup(name); }); });
}

SymInt Shared::size(const Literal& literal, std::string_view what) const {
  if (literal.kind == Literal::Kind::expression) {
    const Expr* expr = expression(literal.at, literal.text);
    if (expr->kind != ExprKind::integer)
      fail_at(literal.at, message("expected an integer as a {}, found {}", what, literal.text));
    return as_sym_int(expr);
  }
  if (literal.kind != Literal::Kind::integer || literal.integer < 0)
    fail_at(literal.at, message("expected a number from 0 upward or an expression as a {}", what));
  return literal.integer;
}

Dims Shared::sizes(const std::vector<Literal>& literals, std::string_view what) const {
  Dims out;
  if (literals.size() > graph_limits::dims)
    fail_at(literals[0].at, message("more than {} {}s", graph_limits::dims, what));
  for (const Literal& literal : literals) out.push_back(size(literal, what));
  return out;
}

Number Shared::number(const Literal& literal) const {
  switch (literal.kind) {
    case Literal::Kind::integer:
      return with_position(literal.at, [&] { return Number(literal.integer); });
    case Literal::Kind::floating:
      return literal.floating;
    case Literal::Kind::boolean:
      return literal.integer != 0;
    case Literal::Kind::expression:
      break;
    default:
      fail_at(literal.at, "expected a number or an expression over symbols");
  }
  const Expr* expr = expression(literal.at, literal.text);
  if (expr->kind == ExprKind::integer) return as_sym_int(expr);
  if (expr->kind == ExprKind::real) return as_sym_float(expr);
  return as_sym_bool(expr);
}

/// Builds one graph.
class Builder {
 public:
  Builder(const GraphDoc& doc, Shared& shared) : doc_(doc), shared_(shared) {}
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

  std::vector<Value> arguments(const OpEntry& op, const StatementDoc& statement);
  std::vector<const Literal*> by_schema(const OpEntry& op, const StatementDoc& statement) const;
  Value argument(const SchemaArg& arg, const Literal& literal);
  Value list(const SchemaArg& arg, const Literal& literal);
  Value word(const SchemaArg& arg, const Literal& literal) const;

  const GraphDoc& doc_;
  Shared& shared_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::unordered_map<std::string, ValueId> names_;
  std::unordered_map<std::string, const Graph*> subgraphs_;
  // What the arguments of the statement being built point to.
  std::deque<std::vector<ValueId>> refs_;
  std::deque<std::vector<SymInt>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::vector<uint8_t>> bools_;
  std::deque<std::vector<std::string_view>> strings_;
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
  value.meta.strides = doc.strides ? shared_.sizes(*doc.strides, "stride")
                                   : contiguous_strides(list_of(value.meta.sizes));
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
    if (!subgraphs_.emplace(name, sub.get()).second)
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
  if (op) args = arguments(*op, statement);
  NodeId id = graph_->add_node(op ? op->id : OpId{}, args, std::move(results));
  refs_.clear();
  ints_.clear();
  floats_.clear();
  bools_.clear();
  strings_.clear();
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

// ---- arguments

std::vector<const Literal*> Builder::by_schema(const OpEntry& op,
                                               const StatementDoc& statement) const {
  std::vector<const Literal*> found(op.schema.args.size(), nullptr);
  size_t position = 0;
  for (const auto& [name, literal] : statement.args) {
    int index = name.empty() ? static_cast<int>(position++) : op.schema.find_arg(name);
    if (index < 0 || index >= static_cast<int>(found.size())) {
      std::string what = name.empty()
                             ? message("{} takes {} arguments, found more", op.name, found.size())
                             : message("{} has no argument {}; its schema is {}", op.name, name,
                                       to_text(op.schema));
      fail_at(literal.at.line ? literal.at : statement.at, what);
    }
    auto at = static_cast<size_t>(index);
    if (found[at])
      fail_at(literal.at,
              message("{}: argument {} is given twice", op.name, op.schema.args[at].name));
    found[at] = &literal;
  }
  return found;
}

std::vector<Value> Builder::arguments(const OpEntry& op, const StatementDoc& statement) {
  std::vector<const Literal*> literals = by_schema(op, statement);
  std::vector<Value> args;
  for (size_t i = 0; i < literals.size(); ++i) {
    const SchemaArg& arg = op.schema.args[i];
    if (!literals[i] && !arg.has_default())
      fail_at(statement.at, message("{}: argument {} is missing", op.name, arg.name));
    args.push_back(literals[i] ? argument(arg, *literals[i]) : default_of(op, i));
  }
  return args;
}

Value Builder::argument(const SchemaArg& arg, const Literal& literal) {
  switch (literal.kind) {
    case Literal::Kind::none:
      return {};
    case Literal::Kind::value:
      return Value::ref(value_id(literal.at, literal.text));
    case Literal::Kind::text:
      return Value::of(std::string_view(literal.text));
    case Literal::Kind::list:
      return list(arg, literal);
    case Literal::Kind::opaque:
      fail(ErrorCode::unsupported,
           "graph text, line {}, column {}: an opaque argument was printed here "
           "and cannot be read back",
           literal.at.line, literal.at.column);
    case Literal::Kind::graph: {
      auto found = subgraphs_.find(literal.text);
      if (found == subgraphs_.end())
        fail_at(literal.at, message("there is no sub-graph @{} in this graph", literal.text));
      return Value::pointer(Tag::graph, found->second);
    }
    default:
      return word(arg, literal);
  }
}

Value Builder::word(const SchemaArg& arg, const Literal& literal) const {
  auto refuse = [&](std::string_view what) {
    fail_at(literal.at, message("argument {}: there is no {} '{}'", arg.name, what, literal.text));
  };
  bool is_word = literal.kind == Literal::Kind::word || literal.kind == Literal::Kind::expression;
  if (!is_word) return Value::of(shared_.number(literal));
  switch (arg.type.base) {
    case BaseType::scalar_type:
      if (auto dtype = parse_dtype(literal.text)) return Value::of(*dtype);
      refuse("dtype");
      break;
    case BaseType::layout:
      if (literal.text == "strided") return Value::of(Layout::strided);
      if (literal.text == "sparse") return Value::of(Layout::sparse);
      refuse("layout");
      break;
    case BaseType::memory_format:
      for (auto f : {MemoryFormat::contiguous, MemoryFormat::preserve, MemoryFormat::channels_last,
                     MemoryFormat::channels_last_3d})
        if (literal.text == to_text(f)) return Value::of(f);
      refuse("memory format");
      break;
    case BaseType::device:
      if (auto device = parse_device(literal.text)) return Value::of(*device);
      refuse("device");
      break;
    default:
      break;
  }
  if (literal.kind == Literal::Kind::word) refuse("number");
  return Value::of(shared_.number(literal));
}

Value Builder::list(const SchemaArg& arg, const Literal& literal) {
  auto item_error = [&](const Literal& item, std::string_view what) {
    fail_at(item.at, message("argument {}: expected {} in the list", arg.name, what));
  };
  const Literal* first = literal.items.empty() ? nullptr : &literal.items[0];
  BaseType base = arg.type.base;
  if ((base == BaseType::scalar || base == BaseType::any) && first)
    base = first->kind == Literal::Kind::floating  ? BaseType::floating
           : first->kind == Literal::Kind::boolean ? BaseType::boolean
           : first->kind == Literal::Kind::text    ? BaseType::string
           : first->kind == Literal::Kind::value   ? BaseType::tensor
                                                   : BaseType::integer;
  switch (base) {
    case BaseType::tensor: {
      auto& ids = refs_.emplace_back();
      for (const Literal& item : literal.items) {
        if (item.kind != Literal::Kind::value && item.kind != Literal::Kind::none)
          item_error(item, "values or none");
        ids.push_back(item.kind == Literal::Kind::none ? no_value : value_id(item.at, item.text));
      }
      return Value::pointer(Tag::refs, ids.data(), ids.size());
    }
    case BaseType::floating:
    case BaseType::sym_float: {
      auto& values = floats_.emplace_back();
      for (const Literal& item : literal.items) {
        if (item.kind != Literal::Kind::floating && item.kind != Literal::Kind::integer)
          item_error(item, "numbers");
        values.push_back(item.kind == Literal::Kind::floating ? item.floating
                                                              : static_cast<double>(item.integer));
      }
      return Value::of(DoubleList(values));
    }
    case BaseType::boolean:
    case BaseType::sym_bool: {
      auto& values = bools_.emplace_back();
      for (const Literal& item : literal.items) {
        if (item.kind != Literal::Kind::boolean) item_error(item, "true or false");
        values.push_back(item.integer != 0);
      }
      return Value::pointer(Tag::bools, values.data(), values.size());
    }
    case BaseType::string: {
      auto& values = strings_.emplace_back();
      for (const Literal& item : literal.items) {
        if (item.kind != Literal::Kind::text) item_error(item, "strings");
        values.push_back(item.text);
      }
      return Value::of(StringList(values));
    }
    default: {
      auto& values = ints_.emplace_back();
      for (const Literal& item : literal.items) {
        Number n = shared_.number(item);
        if (!n.is_integer()) item_error(item, "integers or integer expressions");
        values.push_back(n.sym_int());
      }
      return Value::of(SymIntList(List<SymInt>(values)));
    }
  }
}

bool has_symbols(const GraphDoc& doc) {
  return !doc.symbols.empty() || !doc.assumptions.empty() ||
         std::any_of(doc.graphs.begin(), doc.graphs.end(), has_symbols);
}

}  // namespace

std::shared_ptr<Graph> build_graph(const GraphDoc& doc, const ParseOptions& options) {
  Shared shared{options, options.shape_env, {}, {}};
  if (!shared.env && has_symbols(doc)) shared.env = ShapeEnv::make();
  std::optional<ShapeEnvScope> scope;
  if (shared.env) scope.emplace(*shared.env);
  std::shared_ptr<Graph> graph = Builder(doc, shared).build();
  if (!shared.unknown_ops.empty()) {
    std::string names;
    for (const std::string& op : shared.unknown_ops) names += (names.empty() ? "" : ", ") + op;
    fail(ErrorCode::unsupported, "the graph calls ops that this version of Tenon does not have: {}",
         names);
  }
  std::vector<std::string> problems = problems_of(*graph);
  if (!problems.empty()) fail(ErrorCode::bad_file, "graph text: {}", problems.front());
  return graph;
}

}  // namespace tenon
