// The tokens of expressions as text (sym_text.h), with errors that name the column.
#pragma once

#include "core/sym/sym_expr.h"

#include <string>
#include <string_view>

namespace tenon {

/// Reads one text from front to back. Spaces, tabs and line ends before a token are passed over.
class SymScanner {
 public:
  explicit SymScanner(std::string_view text) : text_(text) {}

  /// "expression "2*", column 3: ".
  std::string place() const;
  [[noreturn]] void stop(std::string_view expected) const;
  /// The same for what has been read from `start` on.
  [[noreturn]] void stop_at(size_t start, std::string_view expected);

  size_t position() const { return at_; }
  bool at_end();
  /// Whether a digit or, in front of one, a point follows at once.
  bool at_number() const;
  /// Reads `token` if it follows; a word only as a whole.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  /// A name with all that belongs to it: `x`, `math.sqrt`, `L['x'][0].size()[1]`,
  /// `Symbol('s0', positive=True)`. Empty where none follows.
  std::string_view name();
  /// An integer, or a real with a point or an exponent.
  const Expr* number(bool is_negative);

 private:
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_word();
  void skip_brackets();

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace tenon
