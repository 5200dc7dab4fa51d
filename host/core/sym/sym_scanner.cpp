// Tokens of expressions.
#include "core/sym/sym_scanner.h"

#include "core/error.h"
#include "core/utf8.h"

#include <algorithm>
#include <charconv>

namespace tenon {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string SymScanner::place() const {
  return message("expression \"{}\", column {}: ", shown(text_.substr(0, 80)), at_ + 1);
}

void SymScanner::stop(std::string_view expected) const {
  std::string found = at_ < text_.size() ? "'" + shown(text_.substr(at_, 12)) + "'" : "the end";
  fail("{}expected {}, found {}", place(), expected, found);
}

void SymScanner::stop_at(size_t start, std::string_view expected) {
  at_ = start;
  stop(expected);
}

bool SymScanner::at_end() {
  while (next() == ' ' || next() == '\t' || next() == '\n') ++at_;
  return at_ == text_.size();
}

bool SymScanner::at_number() const { return is_digit(next()) || next() == '.'; }

bool SymScanner::accept(std::string_view token) {
  if (at_end() || !text_.substr(at_).starts_with(token)) return false;
  size_t end = at_ + token.size();
  if (is_word(token[0]) && end < text_.size() && is_word(text_[end])) return false;
  at_ = end;
  return true;
}

void SymScanner::expect(std::string_view token) {
  if (!accept(token)) stop("'" + std::string(token) + "'");
}

std::string_view SymScanner::name() {
  if (at_end()) return {};
  const size_t start = at_;
  skip_word();
  for (bool is_indexed = false; at_ > start;) {
    std::string_view rest = text_.substr(at_);
    bool is_quoted = rest.starts_with("('") || rest.starts_with("(\"");
    if (next() == '[' || is_quoted || (is_indexed && next() == '(')) {
      is_indexed = true;
      skip_brackets();
    } else if (next() == '.') {
      ++at_;
      skip_word();
    } else {
      break;
    }
  }
  return text_.substr(start, at_ - start);
}

void SymScanner::skip_word() {
  while (is_word(next())) ++at_;
}

void SymScanner::skip_brackets() {
  const char close = next() == '[' ? ']' : ')';
  while (next() != close) {
    const char c = next();
    if (c == '\'' || c == '"') at_ = std::min(text_.find(c, at_ + 1), text_.size());
    if (at_ >= text_.size()) stop(std::string("'") + close + "'");
    ++at_;
  }
  ++at_;
}

const Expr* SymScanner::number(bool is_negative) {
  size_t start = at_;
  auto is_part = [this](char c) {
    bool sign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
    return is_digit(c) || c == '.' || c == 'e' || c == 'E' || sign;
  };
  while (is_part(next())) ++at_;
  std::string digits = (is_negative ? "-" : "") + std::string(text_.substr(start, at_ - start));
  const char* end = digits.data() + digits.size();
  int64_t integer = 0;
  double real = 0;
  auto whole = std::from_chars(digits.data(), end, integer);
  if (whole.ec == std::errc() && whole.ptr == end) return intern_integer(integer);
  bool is_real = digits.find_first_of(".eE") != std::string::npos;
  auto fraction = std::from_chars(digits.data(), end, real);
  if (!is_real || fraction.ec != std::errc() || fraction.ptr != end)
    stop_at(start, "a number of 64 bits");
  return intern_real(real);
}

}  // namespace tenon
