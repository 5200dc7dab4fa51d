// Parser of graph text: the frame, statements and attributes.
#include "graph/text/parse.h"

#include <charconv>
#include <limits>

#include "graph/text/parser.h"

namespace tenon {

namespace {

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the text";
  if (token.kind == Token::Kind::newline) return "the end of the line";
  return "'" + std::string(token.text.substr(0, 60)) + "'";
}

}  // namespace

void GraphParser::expected(std::string_view what) const {
  fail_at(lexer_.peek().at, message("expected {}, found {}", what, shown(lexer_.peek())));
}

bool GraphParser::accept(std::string_view word) {
  if (!lexer_.peek().is(word)) return false;
  lexer_.next();
  return true;
}

void GraphParser::expect(std::string_view word) {
  if (!accept(word)) expected("'" + std::string(word) + "'");
}

Token GraphParser::expect(Kind kind, std::string_view what) {
  if (lexer_.peek().kind != kind) expected(what);
  return lexer_.next();
}

void GraphParser::end_of_statement() {
  if (lexer_.peek().kind != Kind::newline) expected("the end of the line");
  lexer_.next();
}

std::string GraphParser::string(std::string_view what) {
  Token token = expect(Kind::string, what);
  std::string text = unquoted(token);
  if (text.size() > graph_limits::name_bytes)
    fail_at(token.at, message("{} of {} bytes is too long; the limit is {}", what, text.size(),
                              graph_limits::name_bytes));
  return text;
}

// A number token (with its sign) as an integer; nothing if it is not one or too large.
std::optional<int64_t> integer_of(std::string_view text) {
  int64_t value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> real_of(std::string_view text) {
  if (text.find_first_of(".eEn") == std::string_view::npos) return std::nullopt;
  double value;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int64_t GraphParser::integer(std::string_view what) {
  Token first = lexer_.peek();
  accept("-");
  Token number = expect(Kind::number, what);
  auto value = integer_of(lexer_.slice(first.begin, number.end));
  if (!value) fail_at(first.at, message("expected {} that 64 bits hold", what));
  return *value;
}

GraphDoc GraphParser::file() {
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

GraphDoc GraphParser::graph(size_t depth) {
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

void GraphParser::statement(GraphDoc& doc, size_t depth) {
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

int64_t GraphParser::bound() {
  if (accept("inf")) return Range::no_upper;
  if (lexer_.peek().is("-") && lexer_.second().is("inf")) {
    lexer_.next();
    lexer_.next();
    return Range::no_lower;
  }
  return integer("a bound");
}

SymValue GraphParser::hint(ExprKind kind) {
  Token first = lexer_.peek();
  accept("-");
  Token number = lexer_.next();
  std::string_view text = lexer_.slice(first.begin, number.end);
  if (kind == ExprKind::real) {
    if (auto value = real_of(text)) return SymValue::of_real(*value);
  } else if (auto value = integer_of(text)) {
    return kind == ExprKind::boolean ? SymValue::of_bool(*value != 0) : SymValue::of_int(*value);
  }
  fail_at(first.at, "expected a number as the hint of the symbol");
}

void GraphParser::symbol_source(SymbolDoc& symbol) {
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

SymbolDoc GraphParser::symbol() {
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

std::vector<Literal> GraphParser::outputs() {
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

StatementDoc GraphParser::input() {
  StatementDoc statement;
  statement.kind = StatementDoc::Kind::input;
  statement.at = lexer_.peek().at;
  statement.results.push_back(value());
  return statement;
}

StatementDoc GraphParser::constant() {
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

StatementDoc GraphParser::node() {
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

void GraphParser::location(StatementDoc& node) {
  node.where.file = string("a file name");
  expect(":");
  TextPosition at = lexer_.peek().at;
  int64_t line = integer("a line number");
  if (line < 0 || line > std::numeric_limits<int32_t>::max())
    fail_at(at, "a line number is 0 to 2147483647");
  node.where.line = static_cast<int32_t>(line);
  if (accept("in")) node.where.function = string("a function name");
}

void GraphParser::attributes(StatementDoc& node) {
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

GraphDoc parse_document(std::string_view text) { return GraphParser(text).file(); }

std::shared_ptr<Graph> parse_graph(std::string_view text, const ParseOptions& options) {
  return build_graph(parse_document(text), options);
}

}  // namespace tenon
