// The grammar of values, literals and expressions of a graph text.
#include "graph/text/value_parser.h"

#include "graph/text/parse.h"

#include <tenon/dtype.h>

#include <limits>

namespace tenon {

ValueDoc ValueParser::value() {
  ValueDoc value;
  value.at = lexer_.peek().at;
  value.name = marked_name(lexer_.expect(Kind::value, "a %value"));
  lexer_.expect(":");
  type(value);
  while (property(value)) {
  }
  return value;
}

void ValueParser::type(ValueDoc& value) {
  Token word = lexer_.expect(Kind::ident, "a type such as f32[2, 3], int s0 or none");
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

bool ValueParser::property(ValueDoc& value) {
  const Token word = lexer_.peek();
  if (word.kind != Kind::ident) return false;
  lexer_.next();
  if (set_flag(value, word.text)) return true;
  if (word.text == "strides") {
    value.strides = expressions("stride", graph_limits::dims);
  } else if (word.text == "offset") {
    value.offset = expression();
  } else if (word.text == "alias") {
    TextPosition at = lexer_.peek().at;
    int64_t group = lexer_.integer("an alias group");
    if (group < 1 || group > std::numeric_limits<int32_t>::max())
      fail_at(at, "an alias group is 1 to 2147483647");
    value.alias_group = static_cast<uint32_t>(group);
  } else if (word.text == "on") {
    value.device = device();
  } else {
    fail_at(word.at, message("unknown property '{}' of a value", word.text));
  }
  return true;
}

Device ValueParser::device() {
  Token first = lexer_.expect(Kind::ident, "a device such as cpu or cuda:0");
  if (lexer_.accept(":")) lexer_.integer("a device index");
  auto device = parse_device(lexer_.slice(first.begin, lexer_.last_end()));
  if (!device) fail_at(first.at, "expected a device such as cpu, meta or cuda:0");
  return *device;
}

std::vector<Literal> ValueParser::expressions(std::string_view what, size_t limit) {
  std::vector<Literal> out;
  lexer_.expect("[");
  if (lexer_.accept("]")) return out;
  do {
    if (out.size() == limit) fail_at(lexer_.peek().at, message("more than {} {}s", limit, what));
    out.push_back(expression());
  } while (lexer_.accept(","));
  lexer_.expect("]");
  return out;
}

std::vector<Literal> ValueParser::literals(size_t depth) {
  std::vector<Literal> out;
  if (depth > graph_limits::bracket_depth)
    fail_at(lexer_.peek().at,
            message("brackets are nested more than {} deep", graph_limits::bracket_depth));
  lexer_.expect("[");
  if (lexer_.accept("]")) return out;
  do {
    if (out.size() == graph_limits::list_items)
      fail_at(lexer_.peek().at,
              message("a list has at most {} elements", graph_limits::list_items));
    out.push_back(literal(depth + 1));
  } while (lexer_.accept(","));
  lexer_.expect("]");
  return out;
}

Literal ValueParser::literal(size_t depth) {
  const Token token = lexer_.peek();
  Literal out;
  out.at = token.at;
  if (token.kind == Kind::value) {
    out = Literal::of_text(Literal::Kind::value, marked_name(lexer_.next()));
  } else if (token.kind == Kind::graph) {
    out = Literal::of_text(Literal::Kind::graph, marked_name(lexer_.next()));
  } else if (token.kind == Kind::string) {
    out = Literal::of_text(Literal::Kind::text, lexer_.string("a string"));
  } else if (token.is("[")) {
    out.kind = Literal::Kind::list;
    out.items = literals(depth);
  } else if (token.kind == Kind::ident && lexer_.second().is(":")) {
    lexer_.next();
    lexer_.next();
    lexer_.integer("a device index");
    out = Literal::of_text(Literal::Kind::word,
                           std::string(lexer_.slice(token.begin, lexer_.last_end())));
  } else {
    return expression();
  }
  out.at = token.at;
  return out;
}

namespace {

// What the text of an expression is: a number or a word of the language, else an expression over
// symbols (or the name of a dtype and the like), whose meaning is settled later.
Literal plain_literal(std::string_view text) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  auto real = [](double value) {
    return Literal{.kind = Literal::Kind::floating, .floating = value};
  };
  if (text == "none") return {};
  if (text == "opaque") return {.kind = Literal::Kind::opaque};
  if (text == "true" || text == "false")
    return {.kind = Literal::Kind::boolean, .integer = text == "true"};
  if (text == "nan") return real(std::numeric_limits<double>::quiet_NaN());
  if (text == "inf" || text == "-inf") return real(text == "inf" ? inf : -inf);
  if (auto number = integer_of(text)) return Literal::of_int(*number);
  if (auto number = real_of(text)) return real(*number);
  return Literal::of_text(Literal::Kind::expression, std::string(text));
}

}  // namespace

Literal ValueParser::expression() {
  const Token first = lexer_.peek();
  skip_expression();
  Literal out = plain_literal(lexer_.slice(first.begin, lexer_.last_end()));
  out.at = first.at;
  return out;
}

void ValueParser::skip_expression() {
  do {
    while (lexer_.accept("-") || lexer_.accept("not")) {
    }
    skip_operand();
  } while (skip_operator());
}

void ValueParser::skip_operand() {
  const Token token = lexer_.peek();
  bool named = token.kind == Kind::ident;
  if (named || token.kind == Kind::number) lexer_.next();
  if (token.kind == Kind::number || (named && !lexer_.peek().is("("))) return;
  if (!lexer_.peek().is("(")) lexer_.expected("a number, a word or an expression");
  size_t depth = 0;
  do {
    if (lexer_.peek().is("(") && ++depth > graph_limits::bracket_depth)
      fail_at(token.at,
              message("brackets are nested more than {} deep", graph_limits::bracket_depth));
    if (lexer_.peek().is(")")) --depth;
    if (lexer_.peek().kind == Kind::end || lexer_.peek().kind == Kind::newline)
      lexer_.expected("')'");
    lexer_.next();
  } while (depth > 0);
}

// `s0 %2` reads as a remainder too: a value cannot follow an operand.
bool ValueParser::skip_operator() {
  if (lexer_.peek().kind == Kind::value) return lexer_.next(), skip_operator();
  for (std::string_view op :
       {"+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or"})
    if (lexer_.accept(op)) return true;
  return false;
}

}  // namespace tenon
