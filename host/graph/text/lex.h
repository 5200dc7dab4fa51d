// Words of a graph text, one at a time, with their positions.
#pragma once

#include "graph/text/document.h"

#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// The characters of names that stand without quotes.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_name_char(char c) { return is_digit(c) || is_letter(c) || c == '.'; }

struct Token {
  enum class Kind : uint8_t { ident, number, string, value, graph, punct, newline, end };
  Kind kind = Kind::end;
  std::string_view text;  ///< as written; of value and graph without the mark
  TextPosition at;
  size_t begin = 0, end = 0;  ///< place in the whole text

  bool is(std::string_view word) const {
    return (kind == Kind::punct || kind == Kind::ident) && text == word;
  }
};

/// Two tokens of look-ahead. Newlines are tokens only outside of parentheses and square brackets,
/// and several are one.
class Lexer {
 public:
  explicit Lexer(std::string_view text);

  const Token& peek() const { return current_; }
  const Token& second() const { return ahead_; }
  Token next();
  /// Where the token before the current one ended.
  size_t last_end() const { return last_end_; }
  std::string_view slice(size_t begin, size_t end) const {
    return text_.substr(begin, end - begin);
  }

  /// Throws for the current token, which is not `what`.
  [[noreturn]] void expected(std::string_view what) const;
  /// Passes the word if it comes next.
  bool accept(std::string_view word);
  void expect(std::string_view word);
  Token expect(Token::Kind kind, std::string_view what);
  void end_of_statement();
  int64_t integer(std::string_view what);
  std::string string(std::string_view what);

 private:
  Token read();
  Token::Kind read_kind();
  void read_name();
  void skip_blanks();
  void read_string();
  void read_number();
  void read_punct();
  void advance(size_t count);
  bool starts_with(std::string_view word) const { return text_.substr(at_).starts_with(word); }

  std::string_view text_;
  size_t at_ = 0, line_start_ = 0, last_end_ = 0;
  uint32_t line_ = 1;
  size_t depth_ = 0;
  Token current_, ahead_;
};

/// The whole of `text` as a number that 64 bits hold; nothing if it is not one.
std::optional<int64_t> integer_of(std::string_view text);
/// The same for reals, which have a point or an exponent.
std::optional<double> real_of(std::string_view text);
/// What a quoted string means.
std::string unquoted(const Token& token);
/// The name of a value or graph token.
std::string marked_name(const Token& token);

}  // namespace tenon
