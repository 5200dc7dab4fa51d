// Words of a graph text.
#include "graph/text/lex.h"

#include "core/utf8.h"

#include <charconv>

namespace tenon {

namespace {

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the text";
  if (token.kind == Token::Kind::newline) return "the end of the line";
  return "'" + std::string(token.text.substr(0, 60)) + "'";
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) {
  if (text.size() > graph_limits::text_bytes)
    fail_at({}, message("the text has {} bytes, the limit is {}", text.size(),
                        graph_limits::text_bytes));
  if (!is_utf8(text)) fail_at({}, "the text is not UTF-8");
  current_ = read();
  ahead_ = read();
}

Token Lexer::next() {
  Token token = current_;
  last_end_ = token.end;
  current_ = ahead_;
  ahead_ = read();
  return token;
}

void Lexer::advance(size_t count) {
  for (size_t i = 0; i < count && at_ < text_.size(); ++i, ++at_) {
    if (text_[at_] != '\n') continue;
    ++line_;
    line_start_ = at_ + 1;
  }
}

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && depth_ > 0)) {
      advance(1);
    } else {
      return;
    }
  }
}

Token Lexer::read() {
  skip_blanks();
  Token token;
  token.at = {line_, static_cast<uint32_t>(at_ - line_start_ + 1)};
  token.begin = at_;
  token.kind = read_kind();
  token.end = at_;
  size_t mark = token.kind == Token::Kind::value || token.kind == Token::Kind::graph;
  token.text = text_.substr(token.begin + mark, at_ - token.begin - mark);
  if (token.text.size() > graph_limits::name_bytes && token.kind != Token::Kind::newline &&
      token.kind != Token::Kind::string)
    fail_at(token.at, message("a name of {} bytes is too long; the limit is {}", token.text.size(),
                              graph_limits::name_bytes));
  return token;
}

// Passes what the next token consists of.
Token::Kind Lexer::read_kind() {
  if (at_ == text_.size()) return Token::Kind::end;
  char c = text_[at_];
  if (c == '\n') {
    for (; at_ < text_.size() && text_[at_] == '\n'; skip_blanks()) advance(1);
    return Token::Kind::newline;
  }
  if (is_letter(c)) return read_name(), Token::Kind::ident;
  if (is_digit(c)) return read_number(), Token::Kind::number;
  if (c == '"') return read_string(), Token::Kind::string;
  char after = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
  if ((c == '%' || c == '@') && (is_name_char(after) || after == '"')) {
    ++at_;
    after == '"' ? read_string() : read_name();
    return c == '%' ? Token::Kind::value : Token::Kind::graph;
  }
  return read_punct(), Token::Kind::punct;
}

void Lexer::read_name() {
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
}

void Lexer::read_number() {
  auto digits = [&] {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  digits();
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    digits();
  }
  if (at_ >= text_.size() || (text_[at_] != 'e' && text_[at_] != 'E')) return;
  size_t exponent = at_ + 1;
  if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
  if (exponent >= text_.size() || !is_digit(text_[exponent])) return;
  at_ = exponent;
  digits();
}

void Lexer::read_string() {
  TextPosition start{line_, static_cast<uint32_t>(at_ - line_start_ + 1)};
  for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_)
    if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
  if (at_ >= text_.size() || text_[at_] != '"')
    fail_at(start, "this string has no closing quote on its line");
  ++at_;
}

void Lexer::read_punct() {
  for (std::string_view two : {"==", "!=", "<=", ">=", "//", "**"})
    if (starts_with(two)) {
      at_ += 2;
      return;
    }
  char c = text_[at_];
  if (std::string_view("()[]{}=:,<>+-*/%").find(c) == std::string_view::npos)
    fail_at({line_, static_cast<uint32_t>(at_ - line_start_ + 1)},
            message("unexpected character {}",
                    c >= 0x20 && c < 0x7f
                        ? "'" + std::string(1, c) + "'"
                        : "with code " + std::to_string(static_cast<unsigned char>(c))));
  if (c == '(' || c == '[') ++depth_;
  if ((c == ')' || c == ']') && depth_ > 0) --depth_;
  ++at_;
}

void Lexer::expected(std::string_view what) const {
  fail_at(current_.at, message("expected {}, found {}", what, shown(current_)));
}

bool Lexer::accept(std::string_view word) {
  if (!current_.is(word)) return false;
  next();
  return true;
}

void Lexer::expect(std::string_view word) {
  if (!accept(word)) expected("'" + std::string(word) + "'");
}

Token Lexer::expect(Token::Kind kind, std::string_view what) {
  if (current_.kind != kind) expected(what);
  return next();
}

void Lexer::end_of_statement() {
  if (current_.kind != Token::Kind::newline) expected("the end of the line");
  next();
}

std::string Lexer::string(std::string_view what) {
  Token token = expect(Token::Kind::string, what);
  std::string text = unquoted(token);
  if (text.size() > graph_limits::name_bytes)
    fail_at(token.at, message("{} of {} bytes is too long; the limit is {}", what, text.size(),
                              graph_limits::name_bytes));
  return text;
}

int64_t Lexer::integer(std::string_view what) {
  Token first = current_;
  accept("-");
  Token number = expect(Token::Kind::number, what);
  auto value = integer_of(slice(first.begin, number.end));
  if (!value) fail_at(first.at, message("expected {} that 64 bits hold", what));
  return *value;
}

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

std::string unquoted(const Token& token) {
  std::string_view text = token.text;
  std::string out;
  auto hex = [&](char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail_at(token.at, "expected two digits 0-9 or a-f after \\x");
  };
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    switch (char c = text[++i]) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '"':
      case '\\':
        out += c;
        break;
      case 'x':
        if (i + 3 >= text.size()) fail_at(token.at, "expected two digits after \\x");
        out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
        i += 2;
        break;
      default:
        fail_at(token.at, message("unknown escape \\{} in a string", c));
    }
  }
  if (!is_utf8(out)) fail_at(token.at, "this string is not UTF-8");
  return out;
}

std::string marked_name(const Token& token) {
  std::string name = token.text.starts_with('"') ? unquoted(token) : std::string(token.text);
  if (name.empty() || name.size() > graph_limits::name_bytes)
    fail_at(token.at,
            message("a name has 1 to {} bytes, found {}", graph_limits::name_bytes, name.size()));
  return name;
}

}  // namespace tenon
