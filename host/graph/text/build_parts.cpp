// Symbols, expressions and arguments of a graph text get their meaning.
#include "graph/text/build_parts.h"

#include "core/sym/sym_text.h"
#include "core/tensor/tensor_impl.h"
#include "graph/text/parse.h"

#include <algorithm>

namespace tenon {

namespace {

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

}  // namespace

const Expr* GraphNames::expression(TextPosition at, std::string_view text) const {
  check_expression_size(at, text);
  return with_position(
      at, [&] { return parse_expr(text, [this](std::string_view name) { return lookup(name); }); });
}

SymInt GraphNames::size(const Literal& literal, std::string_view what) const {
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

Dims GraphNames::sizes(const std::vector<Literal>& literals, std::string_view what) const {
  Dims out;
  if (literals.size() > graph_limits::dims)
    fail_at(literals[0].at, message("more than {} {}s", graph_limits::dims, what));
  for (const Literal& literal : literals) out.push_back(size(literal, what));
  return out;
}

Number GraphNames::number(const Literal& literal) const {
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

namespace {

std::vector<const Literal*> by_schema(const OpEntry& op, const StatementDoc& statement) {
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

}  // namespace

std::vector<Value> ArgumentBuilder::arguments(const OpEntry& op, const StatementDoc& statement) {
  refs_.clear();
  ints_.clear();
  floats_.clear();
  bools_.clear();
  strings_.clear();
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

Value ArgumentBuilder::argument(const SchemaArg& arg, const Literal& literal) {
  switch (literal.kind) {
    case Literal::Kind::none:
      return {};
    case Literal::Kind::value:
      return Value::ref(value_id_(literal.at, literal.text));
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
      auto found = subgraphs.find(literal.text);
      if (found == subgraphs.end())
        fail_at(literal.at, message("there is no sub-graph @{} in this graph", literal.text));
      return Value::pointer(Tag::graph, found->second);
    }
    default:
      return word(arg, literal);
  }
}

Value ArgumentBuilder::word(const SchemaArg& arg, const Literal& literal) const {
  auto refuse = [&](std::string_view what) {
    fail_at(literal.at, message("argument {}: there is no {} '{}'", arg.name, what, literal.text));
  };
  bool is_word = literal.kind == Literal::Kind::word || literal.kind == Literal::Kind::expression;
  if (!is_word) return Value::of(names_.number(literal));
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
  return Value::of(names_.number(literal));
}

namespace {

[[noreturn]] void fail_item(const SchemaArg& arg, const Literal& item, std::string_view expected) {
  fail_at(item.at, message("argument {}: expected {} in the list", arg.name, expected));
}

// What a list holds: by the schema, or by its first element where the schema leaves it open.
BaseType element_type(const SchemaArg& arg, const Literal& list) {
  BaseType base = arg.type.base;
  if (base != BaseType::any || list.items.empty()) return base;
  switch (list.items[0].kind) {
    case Literal::Kind::floating:
      return BaseType::floating;
    case Literal::Kind::boolean:
      return BaseType::boolean;
    case Literal::Kind::text:
      return BaseType::string;
    case Literal::Kind::value:
      return BaseType::tensor;
    default:
      return BaseType::integer;
  }
}

}  // namespace

Value ArgumentBuilder::list(const SchemaArg& arg, const Literal& literal) {
  switch (element_type(arg, literal)) {
    case BaseType::tensor:
      return values(arg, literal);
    case BaseType::scalar:
    case BaseType::floating:
    case BaseType::sym_float:
      return reals(arg, literal);
    case BaseType::boolean:
    case BaseType::sym_bool:
      return booleans(arg, literal);
    case BaseType::string:
      return strings(arg, literal);
    default:
      return integers(arg, literal);
  }
}

Value ArgumentBuilder::values(const SchemaArg& arg, const Literal& list) {
  auto& ids = refs_.emplace_back();
  for (const Literal& item : list.items) {
    if (item.kind == Literal::Kind::none)
      ids.push_back(no_value);
    else if (item.kind == Literal::Kind::value)
      ids.push_back(value_id_(item.at, item.text));
    else
      fail_item(arg, item, "values or none");
  }
  return Value::pointer(Tag::refs, ids.data(), ids.size());
}

Value ArgumentBuilder::reals(const SchemaArg& arg, const Literal& list) {
  auto& reals = floats_.emplace_back();
  for (const Literal& item : list.items) {
    if (item.kind == Literal::Kind::floating)
      reals.push_back(item.floating);
    else if (item.kind == Literal::Kind::integer)
      reals.push_back(static_cast<double>(item.integer));
    else
      fail_item(arg, item, "numbers");
  }
  return Value::of(DoubleList(reals));
}

Value ArgumentBuilder::booleans(const SchemaArg& arg, const Literal& list) {
  auto& bools = bools_.emplace_back();
  for (const Literal& item : list.items) {
    if (item.kind != Literal::Kind::boolean) fail_item(arg, item, "true or false");
    bools.push_back(item.integer != 0);
  }
  return Value::pointer(Tag::bools, bools.data(), bools.size());
}

Value ArgumentBuilder::strings(const SchemaArg& arg, const Literal& list) {
  auto& texts = strings_.emplace_back();
  for (const Literal& item : list.items) {
    if (item.kind != Literal::Kind::text) fail_item(arg, item, "strings");
    texts.push_back(item.text);
  }
  return Value::of(StringList(texts));
}

Value ArgumentBuilder::integers(const SchemaArg& arg, const Literal& list) {
  auto& ints = ints_.emplace_back();
  for (const Literal& item : list.items) {
    Number number = names_.number(item);
    if (!number.is_integer()) fail_item(arg, item, "integers or integer expressions");
    ints.push_back(number.sym_int());
  }
  return Value::of(SymIntList(List<SymInt>(ints)));
}

}  // namespace tenon
