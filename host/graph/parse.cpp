// Parser of graph text: recursive descent with two tokens of look-ahead.
#include "graph/parse.h"

#include <tenon/dtype.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "graph/lex.h"

namespace tenon {

namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}
  GraphDoc file();

 private:
  using Kind = Token::Kind;

  [[noreturn]] void expected(std::string_view what) const;
  bool accept(std::string_view word);
  void expect(std::string_view word);
  Token expect(Kind kind, std::string_view what);
  void end_of_statement();
  int64_t integer(std::string_view what);
  std::string string(std::string_view what);

  GraphDoc graph(size_t depth);
  void statement(GraphDoc& doc, size_t depth);
  SymbolDoc symbol();
  void symbol_source(SymbolDoc& symbol);
  int64_t bound();
  SymValue hint(ExprKind kind);
  StatementDoc input();
  StatementDoc constant();
  StatementDoc node();
  void attributes(StatementDoc& node);
  void location(StatementDoc& node);
  std::vector<Literal> outputs();

  ValueDoc value();
  void type(ValueDoc& value);
  void properties(ValueDoc& value);
  bool property(ValueDoc& value);
  std::vector<Literal> expressions(std::string_view what, size_t limit);
  std::vector<Literal> literals(size_t depth);
  Literal literal(size_t depth);
  Literal expression();
  void skip_expression();
  void skip_operand();
  bool skip_operator();

  Lexer lexer_;
  size_t statements_ = 0;
};

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the text";
  if (token.kind == Token::Kind::newline) return "the end of the line";
  return "'" + std::string(token.text.substr(0, 60)) + "'";
}

void Parser::expected(std::string_view what) const {
  fail_at(lexer_.peek().at, message("expected {}, found {}", what, shown(lexer_.peek())));
}

bool Parser::accept(std::string_view word) {
  if (!lexer_.peek().is(word)) return false;
  lexer_.next();
  return true;
}

void Parser::expect(std::string_view word) {
  if (!accept(word)) expected("'" + std::string(word) + "'");
}

Token Parser::expect(Kind kind, std::string_view what) {
  if (lexer_.peek().kind != kind) expected(what);
  return lexer_.next();
}

void Parser::end_of_statement() {
  if (lexer_.peek().kind != Kind::newline) expected("the end of the line");
  lexer_.next();
}

std::string Parser::string(std::string_view what) {
  Token token = expect(Kind::string, what);
  std::string text = unquoted(token);
  if (text.size() > graph_limits::name_bytes)
    fail_at(token.at, message("{} of {} bytes is too long; the limit is {}", what, text.size(),
                              graph_limits::name_bytes));
  return text;
}

// A number token (with its sign) as an integer; nothing if it is not one or too large.
std::optional<int64_t> as_integer(std::string_view text) {
  int64_t value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> as_double(std::string_view text) {
  if (text.find_first_of(".eEn") == std::string_view::npos) return std::nullopt;
  double value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int64_t Parser::integer(std::string_view what) {
  Token first = lexer_.peek();
  accept("-");
  Token number = expect(Kind::number, what);
  auto value = as_integer(lexer_.slice(first.begin, number.end));
  if (!value) fail_at(first.at, message("expected {} that 64 bits hold", what));
  return *value;
}

GraphDoc Parser::file() {
  while (lexer_.peek().kind == Kind::newline) lexer_.next();
  if (!accept("tng")) expected("'tng 1', the first line of a graph text,");
  TextPosition at = lexer_.peek().at;
  int64_t version = integer("the version");
  if (version != 1)
    fail_at(at,
            message("this is version {} of the graph text; this program reads version 1", version));
  end_of_statement();
  GraphDoc doc = graph(1);
  while (lexer_.peek().kind == Kind::newline) lexer_.next();
  if (lexer_.peek().kind != Kind::end) expected("the end of the text after the graph");
  return doc;
}

GraphDoc Parser::graph(size_t depth) {
  GraphDoc doc;
  doc.at = lexer_.peek().at;
  if (depth > graph_limits::graph_depth)
    fail_at(doc.at, message("graphs are nested more than {} deep", graph_limits::graph_depth));
  expect("graph");
  if (lexer_.peek().kind == Kind::graph) doc.name = marked_name(lexer_.next());
  expect("{");
  end_of_statement();
  while (!accept("}")) statement(doc, depth);
  return doc;
}

void Parser::statement(GraphDoc& doc, size_t depth) {
  if (++statements_ > graph_limits::statements)
    fail_at(lexer_.peek().at,
            message("a text has at most {} statements", graph_limits::statements));
  TextPosition at = lexer_.peek().at;
  if (lexer_.peek().is("graph")) {
    doc.graphs.push_back(graph(depth + 1));
  } else if (accept("symbol")) {
    doc.symbols.push_back(symbol());
    doc.symbols.back().at = at;
  } else if (accept("assume")) {
    doc.assumptions.emplace_back(at, expression().text);
  } else if (accept("input")) {
    doc.body.push_back(input());
  } else if (accept("constant")) {
    doc.body.push_back(constant());
  } else if (accept("output")) {
    doc.outputs = outputs();
    end_of_statement();
    if (!lexer_.peek().is("}")) expected("'}' after the outputs");
    return;
  } else if (lexer_.peek().kind == Kind::value || lexer_.peek().kind == Kind::ident) {
    doc.body.push_back(node());
  } else {
    expected("a statement: symbol, assume, graph, input, constant, %value, an op, or output");
  }
  end_of_statement();
}

int64_t Parser::bound() {
  if (accept("inf")) return Range::no_upper;
  if (lexer_.peek().is("-") && lexer_.second().is("inf")) {
    lexer_.next();
    lexer_.next();
    return Range::no_lower;
  }
  return integer("a bound");
}

SymValue Parser::hint(ExprKind kind) {
  Token first = lexer_.peek();
  accept("-");
  Token number = lexer_.next();
  std::string_view text = lexer_.slice(first.begin, number.end);
  if (kind == ExprKind::real) {
    if (auto value = as_double(text)) return SymValue::of_real(*value);
  } else if (auto value = as_integer(text)) {
    return kind == ExprKind::boolean ? SymValue::of_bool(*value != 0) : SymValue::of_int(*value);
  }
  fail_at(first.at, "expected a number as the hint of the symbol");
}

void Parser::symbol_source(SymbolDoc& symbol) {
  bool stride = lexer_.peek().is("stride");
  if (!stride && !lexer_.peek().is("size")) {
    symbol.from =
        marked_name(expect(Kind::value, "%value, size(%value, dim) or stride(%value, dim)"));
    return;
  }
  lexer_.next();
  expect("(");
  symbol.from = marked_name(expect(Kind::value, "a %value"));
  expect(",");
  TextPosition at = lexer_.peek().at;
  int64_t dim = integer("a dimension");
  if (dim < 0 || dim >= static_cast<int64_t>(graph_limits::dims))
    fail_at(at, message("a dimension is 0 to {}, found {}", graph_limits::dims - 1, dim));
  symbol.dim = static_cast<int32_t>(dim);
  symbol.stride = stride;
  expect(")");
}

SymbolDoc Parser::symbol() {
  SymbolDoc symbol;
  symbol.name = expect(Kind::ident, "the symbol's name").text;
  if (accept("float"))
    symbol.kind = ExprKind::real;
  else if (accept("bool"))
    symbol.kind = ExprKind::boolean;
  symbol.size_like = accept("size_like");
  if (accept("in")) {
    expect("[");
    symbol.range.lo = bound();
    expect(",");
    symbol.range.hi = bound();
    expect("]");
  }
  if (accept("hint")) symbol.hint = hint(symbol.kind);
  if (accept("from")) symbol_source(symbol);
  return symbol;
}

std::vector<Literal> Parser::outputs() {
  std::vector<Literal> items;
  if (lexer_.peek().kind == Kind::newline) return items;
  do {
    Literal item;
    item.at = lexer_.peek().at;
    if (!accept("none")) {
      item.kind = Literal::Kind::value;
      item.text = marked_name(expect(Kind::value, "a %value or none"));
    }
    items.push_back(std::move(item));
    if (items.size() > graph_limits::list_items) fail_at(items.back().at, "too many outputs");
  } while (accept(","));
  return items;
}

StatementDoc Parser::input() {
  StatementDoc statement;
  statement.kind = StatementDoc::Kind::input;
  statement.at = lexer_.peek().at;
  statement.results.push_back(value());
  return statement;
}

StatementDoc Parser::constant() {
  StatementDoc statement;
  statement.kind = StatementDoc::Kind::constant;
  statement.at = lexer_.peek().at;
  statement.results.push_back(value());
  expect("=");
  if (lexer_.peek().is("[")) {
    statement.elements = literals(1);
    return statement;
  }
  bool is_bytes = lexer_.peek().is("bytes");
  if (!is_bytes && !lexer_.peek().is("sha256"))
    expected("[elements], bytes \"...\" or sha256 \"...\"");
  lexer_.next();
  statement.content = is_bytes ? StatementDoc::Content::bytes : StatementDoc::Content::sha256;
  statement.bytes = unquoted(expect(Kind::string, "hexadecimal digits in quotes"));
  return statement;
}

StatementDoc Parser::node() {
  StatementDoc node;
  node.at = lexer_.peek().at;
  if (lexer_.peek().kind == Kind::value) {
    do {
      node.results.push_back(value());
      if (node.results.size() > graph_limits::list_items) fail_at(node.at, "too many results");
    } while (accept(","));
    expect("=");
  }
  node.op = expect(Kind::ident, "the name of an op").text;
  expect("(");
  if (!accept(")")) {
    do {
      std::string keyword;
      if (lexer_.peek().kind == Kind::ident && lexer_.second().is("=")) {
        keyword = lexer_.next().text;
        lexer_.next();
      }
      node.args.emplace_back(std::move(keyword), literal(1));
      if (node.args.size() > graph_limits::dims) fail_at(node.at, "too many arguments");
    } while (accept(","));
    expect(")");
  }
  if (accept("{")) attributes(node);
  return node;
}

void Parser::location(StatementDoc& node) {
  node.where.file = string("a file name");
  expect(":");
  TextPosition at = lexer_.peek().at;
  int64_t line = integer("a line number");
  if (line < 0 || line > std::numeric_limits<int32_t>::max())
    fail_at(at, "a line number is 0 to 2147483647");
  node.where.line = static_cast<int32_t>(line);
  if (accept("in")) node.where.function = string("a function name");
}

void Parser::attributes(StatementDoc& node) {
  do {
    if (lexer_.peek().kind == Kind::string) {
      std::string key = string("a fact's name");
      expect("=");
      node.facts[key] = string("a fact");
    } else if (accept("name")) {
      node.name = string("the node's name");
    } else if (accept("module")) {
      node.module_path = string("a module path");
    } else if (accept("at")) {
      location(node);
    } else if (accept("seq")) {
      TextPosition at = lexer_.peek().at;
      int64_t seq = integer("a sequence number");
      if (seq < 0 || seq > std::numeric_limits<int32_t>::max())
        fail_at(at, "a sequence number is 0 to 2147483647");
      node.seq_nr = static_cast<int32_t>(seq);
    } else {
      expected("an attribute: name, module, at, seq or \"fact\" = \"text\"");
    }
  } while (accept(","));
  expect("}");
}

ValueDoc Parser::value() {
  ValueDoc value;
  value.at = lexer_.peek().at;
  value.name = marked_name(expect(Kind::value, "a %value"));
  expect(":");
  type(value);
  while (property(value)) {
  }
  return value;
}

void Parser::type(ValueDoc& value) {
  Token word = expect(Kind::ident, "a type such as f32[2, 3], int s0 or none");
  if (word.text == "none") {
    value.kind = ValueKind::none;
  } else if (word.text == "undefined") {
    value.defined = false;
  } else if (lexer_.peek().is("[")) {
    auto dtype = parse_dtype(word.text);
    if (!dtype || name_of(*dtype) != word.text)
      fail_at(word.at,
              message("there is no dtype {}; graph texts have u8 i8 i16 i32 i64 f16 bf16 f32 "
                      "f64 bool c32 c64 c128 f8e5m2 f8e4m3fn",
                      word.text));
    value.dtype = *dtype;
    value.sizes = expressions("size", graph_limits::dims);
  } else {
    value.kind = word.text == "int"     ? ValueKind::sym_int
                 : word.text == "float" ? ValueKind::sym_float
                                        : ValueKind::sym_bool;
    if (value.kind == ValueKind::sym_bool && word.text != "bool")
      fail_at(word.at,
              message("expected a type such as f32[2, 3], int s0 or none, found '{}'", word.text));
    value.scalar = expression();
  }
}

bool Parser::property(ValueDoc& value) {
  const Token word = lexer_.peek();
  if (word.kind != Kind::ident) return false;
  auto flag = [&](std::string_view name) { return word.text == name && (lexer_.next(), true); };
  if (flag("strides"))
    value.strides = expressions("stride", graph_limits::dims);
  else if (flag("offset"))
    value.offset = expression();
  else if (flag("wrapped"))
    value.wrapped = true;
  else if (flag("parameter"))
    value.flags.parameter = true;
  else if (flag("buffer"))
    value.flags.buffer = true;
  else if (flag("static_address"))
    value.flags.static_address = true;
  else if (flag("mutated"))
    value.flags.mutated = true;
  else if (flag("requires_grad"))
    value.flags.requires_grad = true;
  else if (flag("saved"))
    value.flags.saved = true;
  else if (flag("tangent"))
    value.flags.tangent = true;
  else if (flag("user_output"))
    value.flags.user_output = true;
  else if (flag("internal"))
    value.internal = true;
  else if (flag("alias")) {
    TextPosition at = lexer_.peek().at;
    int64_t group = integer("an alias group");
    if (group < 1 || group > std::numeric_limits<int32_t>::max())
      fail_at(at, "an alias group is 1 to 2147483647");
    value.alias_group = static_cast<uint32_t>(group);
  } else if (flag("on")) {
    Token first = expect(Kind::ident, "a device such as cpu or cuda:0");
    if (accept(":")) integer("a device index");
    auto device = parse_device(lexer_.slice(first.begin, lexer_.last_end()));
    if (!device) fail_at(first.at, "expected a device such as cpu, meta or cuda:0");
    value.device = *device;
  } else {
    fail_at(word.at, message("unknown property '{}' of a value", word.text));
  }
  return true;
}

std::vector<Literal> Parser::expressions(std::string_view what, size_t limit) {
  std::vector<Literal> out;
  expect("[");
  if (accept("]")) return out;
  do {
    if (out.size() == limit) fail_at(lexer_.peek().at, message("more than {} {}s", limit, what));
    out.push_back(expression());
  } while (accept(","));
  expect("]");
  return out;
}

std::vector<Literal> Parser::literals(size_t depth) {
  std::vector<Literal> out;
  if (depth > graph_limits::bracket_depth)
    fail_at(lexer_.peek().at,
            message("brackets are nested more than {} deep", graph_limits::bracket_depth));
  expect("[");
  if (accept("]")) return out;
  do {
    if (out.size() == graph_limits::list_items)
      fail_at(lexer_.peek().at,
              message("a list has at most {} elements", graph_limits::list_items));
    out.push_back(literal(depth + 1));
  } while (accept(","));
  expect("]");
  return out;
}

Literal Parser::literal(size_t depth) {
  const Token token = lexer_.peek();
  Literal out;
  out.at = token.at;
  if (token.kind == Kind::value) {
    out = Literal::of_text(Literal::Kind::value, marked_name(lexer_.next()));
  } else if (token.kind == Kind::graph) {
    out = Literal::of_text(Literal::Kind::graph, marked_name(lexer_.next()));
  } else if (token.kind == Kind::string) {
    out = Literal::of_text(Literal::Kind::text, string("a string"));
  } else if (token.is("[")) {
    out.kind = Literal::Kind::list;
    out.items = literals(depth);
  } else if (token.kind == Kind::ident && lexer_.second().is(":")) {
    lexer_.next();
    lexer_.next();
    integer("a device index");
    out = Literal::of_text(Literal::Kind::word,
                           std::string(lexer_.slice(token.begin, lexer_.last_end())));
  } else {
    return expression();
  }
  out.at = token.at;
  return out;
}

// A number, a word or an expression over symbols; what it means is settled later.
Literal Parser::expression() {
  const Token first = lexer_.peek();
  skip_expression();
  std::string_view text = lexer_.slice(first.begin, lexer_.last_end());
  Literal out;
  std::string_view unsigned_text = text;
  if (text.starts_with('-')) unsigned_text.remove_prefix(1);
  if (text == "none") {
  } else if (text == "opaque") {
    out.kind = Literal::Kind::opaque;
  } else if (text == "true" || text == "false") {
    out.kind = Literal::Kind::boolean;
    out.integer = text == "true";
  } else if (unsigned_text == "inf" || text == "nan") {
    out.kind = Literal::Kind::floating;
    double inf = std::numeric_limits<double>::infinity();
    out.floating = text == "nan"   ? std::numeric_limits<double>::quiet_NaN()
                   : text == "inf" ? inf
                                   : -inf;
  } else if (auto number = as_integer(text)) {
    out.kind = Literal::Kind::integer;
    out.integer = *number;
  } else if (auto real = as_double(text)) {
    out.kind = Literal::Kind::floating;
    out.floating = *real;
  } else {
    out = Literal::of_text(Literal::Kind::expression, std::string(text));
  }
  out.at = first.at;
  return out;
}

void Parser::skip_expression() {
  do {
    while (accept("-") || accept("not")) {
    }
    skip_operand();
  } while (skip_operator());
}

void Parser::skip_operand() {
  const Token token = lexer_.peek();
  bool named = token.kind == Kind::ident;
  if (named || token.kind == Kind::number) lexer_.next();
  if (token.kind == Kind::number || (named && !lexer_.peek().is("("))) return;
  if (!lexer_.peek().is("(")) expected("a number, a word or an expression");
  size_t depth = 0;
  do {
    if (lexer_.peek().is("(") && ++depth > graph_limits::bracket_depth)
      fail_at(token.at,
              message("brackets are nested more than {} deep", graph_limits::bracket_depth));
    if (lexer_.peek().is(")")) --depth;
    if (lexer_.peek().kind == Kind::end || lexer_.peek().kind == Kind::newline) expected("')'");
    lexer_.next();
  } while (depth > 0);
}

// `s0 %2` reads as a remainder too: a value cannot follow an operand.
bool Parser::skip_operator() {
  if (lexer_.peek().kind == Kind::value) return lexer_.next(), skip_operator();
  for (std::string_view op :
       {"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"})
    if (accept(op)) return true;
  return false;
}

}  // namespace

std::optional<Device> parse_device(std::string_view text) {
  size_t colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  std::optional<int64_t> index = 0;
  if (colon != std::string_view::npos) index = as_integer(text.substr(colon + 1));
  if (!index || *index < -1 || *index > 1 << 16) return std::nullopt;
  auto i = static_cast<int32_t>(*index);
  if (name == "cpu") return Device(DeviceType::cpu, i);
  if (name == "meta") return Device(DeviceType::meta, i);
  if (name == "cuda") return Device(DeviceType::cuda, i);
  if (!name.starts_with("device")) return std::nullopt;
  auto type = as_integer(name.substr(6));
  if (!type || *type < 16 || *type > 1 << 16) return std::nullopt;
  return Device(static_cast<DeviceType>(*type), i);
}

GraphDoc parse_document(std::string_view text) { return Parser(text).file(); }

std::shared_ptr<Graph> parse_graph(std::string_view text, const ParseOptions& options) {
  return build_graph(parse_document(text), options);
}

}  // namespace tenon
