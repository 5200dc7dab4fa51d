// The parser of graph text, as a class: statements are in parse.cpp, values and literals in
// parse_value.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/text/document.h"
#include "graph/text/lex.h"

namespace tenon {

/// Recursive descent with two tokens of look-ahead.
class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : lexer_(text) {}
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
  Device device();
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

/// The whole of `text` as a number that 64 bits hold; nothing if it is none.
std::optional<int64_t> integer_of(std::string_view text);
/// The same for reals, which have a point or an exponent.
std::optional<double> real_of(std::string_view text);

}  // namespace tenon
