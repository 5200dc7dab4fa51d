// A scanner for rows: tokens of C++ as far as needed to not mistake a comment or a string for code.
#include "ops/opgen/scan.h"

#include <algorithm>
#include <filesystem>

namespace tenon::opgen {

namespace {

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct Token {
  enum class Kind { end, word, text, symbol };
  Kind kind = Kind::end;
  std::string_view source;  // of text: between the quotes
  size_t at = 0;
};

class Scanner {
 public:
  Scanner(std::string_view path, std::string_view source) : path_(path), source_(source) {}
  std::vector<Row> rows();

 private:
  Token next();
  void skip_blank();
  Token literal(size_t start);
  Token raw_literal(size_t start);
  void schema_field(std::vector<Row>& rows);
  void variants_field(std::vector<Row>& rows);
  std::string unescaped(const Token& text) const;
  bool is(const Token& token, std::string_view what) const {
    return token.kind != Token::Kind::text && token.source == what;
  }
  std::string place(size_t at) const;

  std::string_view path_, source_;
  size_t at_ = 0;
  Token token_;
};

std::string Scanner::place(size_t at) const {
  auto before = source_.substr(0, at);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  return message("{}:{}:{}", path_, static_cast<int64_t>(line),
                 before.size() - (before.rfind('\n') + 1) + 1);
}

void Scanner::skip_blank() {
  while (at_ < source_.size()) {
    std::string_view rest = source_.substr(at_);
    size_t length = 0;
    if (rest.starts_with("//"))
      length = rest.find('\n');
    else if (rest.starts_with("/*"))
      length = rest.find("*/", 2);
    else if (std::string_view(" \t\r\n\f\v").find(rest[0]) != std::string_view::npos)
      length = 1;
    else
      return;
    if (length == std::string_view::npos)
      at_ = source_.size();
    else
      at_ += length + (rest.starts_with("/*") ? 2 : 0);
  }
}

Token Scanner::raw_literal(size_t start) {
  size_t open = source_.find('(', at_);
  std::string close = ")" + std::string(source_.substr(at_ + 1, open - at_ - 1)) + "\"";
  size_t end = open == std::string_view::npos ? open : source_.find(close, open);
  require(end != std::string_view::npos, "{}: a raw string literal does not end", place(start));
  at_ = end + close.size();
  return {Token::Kind::text, source_.substr(open + 1, end - open - 1), start};
}

Token Scanner::literal(size_t start) {
  char quote = source_[at_++];
  size_t from = at_;
  while (at_ < source_.size() && source_[at_] != quote && source_[at_] != '\n')
    at_ += source_[at_] == '\\' ? 2 : 1;
  require(at_ < source_.size() && source_[at_] == quote,
          "{}: a literal does not end on its line; add the closing {}", place(start), quote);
  return {Token::Kind::text, source_.substr(from, at_++ - from), start};
}

Token Scanner::next() {
  skip_blank();
  if (at_ >= source_.size()) return {Token::Kind::end, {}, source_.size()};
  size_t start = at_;
  char c = source_[at_];
  if (c == '"' || c == '\'') return literal(start);
  if (!is_word_char(c)) return {Token::Kind::symbol, source_.substr(at_++, 1), start};
  // A digit separator belongs to its number: 1'000.
  bool is_number = c >= '0' && c <= '9';
  auto in_word = [&](size_t i) {
    return is_word_char(source_[i]) || (is_number && source_[i] == '\'');
  };
  while (at_ < source_.size() && in_word(at_)) ++at_;
  std::string_view word = source_.substr(start, at_ - start);
  bool is_raw = word == "R" || word == "u8R" || word == "uR" || word == "UR" || word == "LR";
  if (is_raw && at_ < source_.size() && source_[at_] == '"') return raw_literal(start);
  return {Token::Kind::word, word, start};
}

std::string Scanner::unescaped(const Token& text) const {
  if (source_[text.at] == 'R') return std::string(text.source);
  std::string out;
  for (size_t i = 0; i < text.source.size(); ++i) {
    char c = text.source[i];
    if (c == '\\') {
      constexpr std::string_view letters = "\\\"'nt", meanings = "\\\"'\n\t";
      size_t letter = letters.find(text.source[++i]);
      require(letter != std::string_view::npos,
              "{}: expected an escape of \\\\ \\\" \\' \\n \\t in a schema, found \\{}",
              place(text.at), text.source[i]);
      c = meanings[letter];
    }
    out += c;
  }
  return out;
}

void Scanner::schema_field(std::vector<Row>& rows) {
  Token first = next();
  require(first.kind == Token::Kind::text && source_[first.at] != '\'',
          "{}: expected a string literal after `.schema =`, since this file is read without a "
          "compiler; found `{}`; write the text out",
          place(first.at), first.source);
  std::string text;
  for (token_ = first; token_.kind == Token::Kind::text; token_ = next()) text += unescaped(token_);
  Row row;
  row.place = place(first.at);
  try {
    row.schema = parse_schema(text);
  } catch (const UserError& error) {
    fail("{}: {}", row.place, error.what());
  }
  rows.push_back(std::move(row));
}

void Scanner::variants_field(std::vector<Row>& rows) {
  Token word = next();
  require(!rows.empty(), "{}: expected .schema before .variants; put it first in the row",
          place(word.at));
  for (;; word = next()) {
    if (is(word, "in_place"))
      rows.back().in_place = true;
    else if (is(word, "out"))
      rows.back().out = true;
    else
      fail("{}: expected in_place or out in .variants, found `{}`", place(word.at), word.source);
    token_ = next();
    if (!is(token_, "|")) return;
  }
}

std::vector<Row> Scanner::rows() {
  std::vector<Row> rows;
  token_ = next();
  while (token_.kind != Token::Kind::end) {
    if (!is(token_, ".")) {
      token_ = next();
      continue;
    }
    Token field = token_ = next();
    if (!is(field, "schema") && !is(field, "variants")) continue;
    token_ = next();
    if (!is(token_, "=")) continue;
    size_t after = at_;
    if (is(next(), "=")) continue;  // a comparison
    at_ = after;
    if (is(field, "schema"))
      schema_field(rows);
    else
      variants_field(rows);
  }
  return rows;
}

}  // namespace

RowFile scan_rows(std::string_view path, std::string_view source) {
  std::filesystem::path file(path);
  std::string room = file.parent_path().filename().string();
  return {std::string(path), room, room + "_" + file.stem().string(), Scanner(path, source).rows()};
}

}  // namespace tenon::opgen
