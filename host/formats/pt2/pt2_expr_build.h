// What both expression parsers share: the table of constructors and the making of nodes.
#pragma once

#include "formats/limits.h"
#include "formats/pt2/pt2_expr.h"

#include <string_view>
#include <vector>

namespace tenon::formats::expr {

/// A constructor of SymPy or PyTorch that stands for an operator.
struct Constructor {
  std::string_view name;
  SymOp op;
  int least;  // number of arguments
  int most;   // -1: any number
};

/// The row of `name`, or nullptr.
const Constructor* find_constructor(std::string_view name);

/// The function of `OpaqueUnaryFn_NAME` or of infix `NAME(x)`; empty when there is none.
std::string_view find_unary_function(std::string_view name);

/// Makes a node and checks its height and number of children. `text` is the whole expression.
SymExprPtr make_node(SymOp op, std::vector<SymExprPtr> children, std::string_view text);
SymExprPtr make_number(SymNumber number);
SymExprPtr make_symbol(std::string_view name);
SymExprPtr make_unary_function(std::string_view name, SymExprPtr argument, std::string_view text);

[[noreturn]] void fail_parse(std::string_view text, size_t at, std::string_view expected);
void check_length(std::string_view text);

/// The tokenizer of both grammars: names, numbers, quoted strings and marks.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_space();
  bool at_end();
  char peek();
  /// Reads `mark` when it comes next.
  bool accept(std::string_view mark);
  /// Reads the word `word` when it comes next and no letter follows.
  bool accept_word(std::string_view word);
  void expect(std::string_view mark);
  bool at_name();
  bool at_number();
  std::string_view name();
  /// Single or double quotes; no escapes, which names never need.
  std::string_view quoted();
  /// An integer, or a double when it has a point or an exponent. No sign.
  SymNumber number();
  /// An integer with an optional minus sign.
  int64_t integer();

  std::string_view text() const { return text_; }
  size_t position() const { return next_; }
  [[noreturn]] void fail_here(std::string_view expected) { fail_parse(text_, next_, expected); }

 private:
  std::string_view text_;
  size_t next_ = 0;
};

/// Counts one level of recursion for as long as it lives.
class Level {
 public:
  Level(int& depth, std::string_view text);
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& depth_;
};

}  // namespace tenon::formats::expr
