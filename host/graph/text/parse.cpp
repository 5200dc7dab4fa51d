// Parser of graph text: the frame, statements and attributes.
#include "graph/text/parse.h"

#include "graph/text/value_parser.h"

#include <limits>

namespace tenon {

namespace {

/// Recursive descent with two tokens of look-ahead.
class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : lexer_(text) {}
  GraphDoc file();

 private:
  using Kind = Token::Kind;

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

  Lexer lexer_;
  ValueParser values_{lexer_};
  size_t statements_ = 0;
};

GraphDoc GraphParser::file() {
  while (lexer_.peek().kind == Kind::newline) lexer_.next();
  if (!lexer_.accept("tng")) lexer_.expected("'tng 1', the first line of a graph text,");
  TextPosition at = lexer_.peek().at;
  int64_t version = lexer_.integer("the version");
  if (version != 1)
    fail_at(at,
            message("this is version {} of the graph text; this program reads version 1", version));
  lexer_.end_of_statement();
  GraphDoc doc = graph(1);
  while (lexer_.peek().kind == Kind::newline) lexer_.next();
  if (lexer_.peek().kind != Kind::end) lexer_.expected("the end of the text after the graph");
  return doc;
}

GraphDoc GraphParser::graph(size_t depth) {
  GraphDoc doc;
  doc.at = lexer_.peek().at;
  if (depth > graph_limits::graph_depth)
    fail_at(doc.at, message("graphs are nested more than {} deep", graph_limits::graph_depth));
  lexer_.expect("graph");
  if (lexer_.peek().kind == Kind::graph) doc.name = marked_name(lexer_.next());
  lexer_.expect("{");
  lexer_.end_of_statement();
  while (!lexer_.accept("}")) statement(doc, depth);
  return doc;
}

void GraphParser::statement(GraphDoc& doc, size_t depth) {
  if (++statements_ > graph_limits::statements)
    fail_at(lexer_.peek().at,
            message("a text has at most {} statements", graph_limits::statements));
  TextPosition at = lexer_.peek().at;
  if (lexer_.peek().is("graph")) {
    doc.graphs.push_back(graph(depth + 1));
  } else if (lexer_.accept("symbol")) {
    doc.symbols.push_back(symbol());
    doc.symbols.back().at = at;
  } else if (lexer_.accept("assume")) {
    doc.assumptions.emplace_back(at, values_.expression().text);
  } else if (lexer_.accept("input")) {
    doc.body.push_back(input());
  } else if (lexer_.accept("constant")) {
    doc.body.push_back(constant());
  } else if (lexer_.accept("output")) {
    doc.outputs = outputs();
    lexer_.end_of_statement();
    if (!lexer_.peek().is("}")) lexer_.expected("'}' after the outputs");
    return;
  } else if (lexer_.peek().kind == Kind::value || lexer_.peek().kind == Kind::ident) {
    doc.body.push_back(node());
  } else {
    lexer_.expected(
        "a statement: symbol, assume, graph, input, constant, %value, an op, or output");
  }
  lexer_.end_of_statement();
}

int64_t GraphParser::bound() {
  if (lexer_.accept("inf")) return Range::no_upper;
  if (lexer_.peek().is("-") && lexer_.second().is("inf")) {
    lexer_.next();
    lexer_.next();
    return Range::no_lower;
  }
  return lexer_.integer("a bound");
}

SymValue GraphParser::hint(ExprKind kind) {
  Token first = lexer_.peek();
  lexer_.accept("-");
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
        marked_name(lexer_.expect(Kind::value, "%value, size(%value, dim) or stride(%value, dim)"));
    return;
  }
  lexer_.next();
  lexer_.expect("(");
  symbol.from = marked_name(lexer_.expect(Kind::value, "a %value"));
  lexer_.expect(",");
  TextPosition at = lexer_.peek().at;
  int64_t dim = lexer_.integer("a dimension");
  if (dim < 0 || dim >= static_cast<int64_t>(graph_limits::dims))
    fail_at(at, message("a dimension is 0 to {}, found {}", graph_limits::dims - 1, dim));
  symbol.dim = static_cast<int32_t>(dim);
  symbol.stride = stride;
  lexer_.expect(")");
}

SymbolDoc GraphParser::symbol() {
  SymbolDoc symbol;
  symbol.name = lexer_.expect(Kind::ident, "the symbol's name").text;
  if (lexer_.accept("float"))
    symbol.kind = ExprKind::real;
  else if (lexer_.accept("bool"))
    symbol.kind = ExprKind::boolean;
  symbol.size_like = lexer_.accept("size_like");
  if (lexer_.accept("in")) {
    lexer_.expect("[");
    symbol.range.lo = bound();
    lexer_.expect(",");
    symbol.range.hi = bound();
    lexer_.expect("]");
  }
  if (lexer_.accept("hint")) symbol.hint = hint(symbol.kind);
  if (lexer_.accept("from")) symbol_source(symbol);
  return symbol;
}

std::vector<Literal> GraphParser::outputs() {
  std::vector<Literal> items;
  if (lexer_.peek().kind == Kind::newline) return items;
  do {
    Literal item;
    item.at = lexer_.peek().at;
    if (!lexer_.accept("none")) {
      item.kind = Literal::Kind::value;
      item.text = marked_name(lexer_.expect(Kind::value, "a %value or none"));
    }
    items.push_back(std::move(item));
    if (items.size() > graph_limits::list_items) fail_at(items.back().at, "too many outputs");
  } while (lexer_.accept(","));
  return items;
}

StatementDoc GraphParser::input() {
  StatementDoc statement;
  statement.kind = StatementDoc::Kind::input;
  statement.at = lexer_.peek().at;
  statement.results.push_back(values_.value());
  return statement;
}

StatementDoc GraphParser::constant() {
  StatementDoc statement;
  statement.kind = StatementDoc::Kind::constant;
  statement.at = lexer_.peek().at;
  statement.results.push_back(values_.value());
  lexer_.expect("=");
  if (lexer_.peek().is("[")) {
    statement.elements = values_.literals(1);
    return statement;
  }
  bool is_bytes = lexer_.peek().is("bytes");
  if (!is_bytes && !lexer_.peek().is("sha256"))
    lexer_.expected("[elements], bytes \"...\" or sha256 \"...\"");
  lexer_.next();
  statement.content = is_bytes ? StatementDoc::Content::bytes : StatementDoc::Content::sha256;
  statement.bytes = unquoted(lexer_.expect(Kind::string, "hexadecimal digits in quotes"));
  return statement;
}

StatementDoc GraphParser::node() {
  StatementDoc node;
  node.at = lexer_.peek().at;
  if (lexer_.peek().kind == Kind::value) {
    do {
      node.results.push_back(values_.value());
      if (node.results.size() > graph_limits::list_items) fail_at(node.at, "too many results");
    } while (lexer_.accept(","));
    lexer_.expect("=");
  }
  node.op = lexer_.expect(Kind::ident, "the name of an op").text;
  lexer_.expect("(");
  if (!lexer_.accept(")")) {
    do {
      std::string keyword;
      if (lexer_.peek().kind == Kind::ident && lexer_.second().is("=")) {
        keyword = lexer_.next().text;
        lexer_.next();
      }
      node.args.emplace_back(std::move(keyword), values_.literal(1));
      if (node.args.size() > graph_limits::dims) fail_at(node.at, "too many arguments");
    } while (lexer_.accept(","));
    lexer_.expect(")");
  }
  if (lexer_.accept("{")) attributes(node);
  return node;
}

void GraphParser::location(StatementDoc& node) {
  node.where.file = lexer_.string("a file name");
  lexer_.expect(":");
  TextPosition at = lexer_.peek().at;
  int64_t line = lexer_.integer("a line number");
  if (line < 0 || line > std::numeric_limits<int32_t>::max())
    fail_at(at, "a line number is 0 to 2147483647");
  node.where.line = static_cast<int32_t>(line);
  if (lexer_.accept("in")) node.where.function = lexer_.string("a function name");
}

void GraphParser::attributes(StatementDoc& node) {
  do {
    if (lexer_.peek().kind == Kind::string) {
      std::string key = lexer_.string("a fact's name");
      lexer_.expect("=");
      node.facts[key] = lexer_.string("a fact");
    } else if (lexer_.accept("name")) {
      node.name = lexer_.string("the node's name");
    } else if (lexer_.accept("module")) {
      node.module_path = lexer_.string("a module path");
    } else if (lexer_.accept("at")) {
      location(node);
    } else if (lexer_.accept("seq")) {
      TextPosition at = lexer_.peek().at;
      int64_t seq = lexer_.integer("a sequence number");
      if (seq < 0 || seq > std::numeric_limits<int32_t>::max())
        fail_at(at, "a sequence number is 0 to 2147483647");
      node.seq_nr = static_cast<int32_t>(seq);
    } else {
      lexer_.expected("an attribute: name, module, at, seq or \"fact\" = \"text\"");
    }
  } while (lexer_.accept(","));
  lexer_.expect("}");
}

}  // namespace

GraphDoc parse_document(std::string_view text) { return GraphParser(text).file(); }

std::shared_ptr<Graph> parse_graph(std::string_view text, const ParseOptions& options) {
  return build_graph(parse_document(text), options);
}

}  // namespace tenon
