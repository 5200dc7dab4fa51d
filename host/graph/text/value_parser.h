// Parser of values with their types and properties, literals and expressions.
// expressions.
#pragma once

#include "graph/text/document.h"
#include "graph/text/lex.h"

#include <string_view>
#include <vector>

namespace tenon {

class ValueParser {
 public:
  explicit ValueParser(Lexer& lexer) : lexer_(lexer) {}

  /// A %value with its type and properties.
  ValueDoc value();
  std::vector<Literal> literals(size_t depth);
  Literal literal(size_t depth);
  Literal expression();

 private:
  using Kind = Token::Kind;

  void type(ValueDoc& value);
  bool property(ValueDoc& value);
  Device device();
  std::vector<Literal> expressions(std::string_view what, size_t limit);
  void skip_expression();
  void skip_operand();
  bool skip_operator();

  Lexer& lexer_;
};

}  // namespace tenon
