// Parser of schema texts, by recursive descent without recursion: the grammar nests one level.
//
//   schema  = [ns "::"] name ["." overload] "(" [arg {"," arg}] ")" "->" returns
//   arg     = "*" | type name ["=" default]
//   type    = base [alias] {"[" [n] "]" [alias] | "?"}
//   alias   = "(" set ["!"] ["->" set] ")"          set = ("*" | name) {"|" name}
//   returns = type [name] | "(" [type [name] {"," type [name]}] ")"
//   default = number | "None" | "True" | "False" | text | word | "[" [number {"," number}] "]"
//
// The text is data: custom ops bring theirs at run time. Every error names line, column and text.
// Cost: one pass, no backtracking.
#include "ops/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace tenon {

namespace {

using Kind = DefaultValue::Kind;

// Words that stand for numbers, by the type that they belong to; PyTorch prints either. The first
// word of a number is the one that is kept.
struct WordRow {
  BaseType base;
  std::string_view word;
  int64_t number;
};
constexpr WordRow word_rows[] = {
    {BaseType::integer, "Mean", 1},
    {BaseType::integer, "Sum", 2},
    {BaseType::scalar_type, "uint8", 0},
    {BaseType::scalar_type, "int8", 1},
    {BaseType::scalar_type, "short", 2},
    {BaseType::scalar_type, "int16", 2},
    {BaseType::scalar_type, "int", 3},
    {BaseType::scalar_type, "int32", 3},
    {BaseType::scalar_type, "long", 4},
    {BaseType::scalar_type, "int64", 4},
    {BaseType::scalar_type, "half", 5},
    {BaseType::scalar_type, "float16", 5},
    {BaseType::scalar_type, "float", 6},
    {BaseType::scalar_type, "float32", 6},
    {BaseType::scalar_type, "double", 7},
    {BaseType::scalar_type, "float64", 7},
    {BaseType::scalar_type, "complex64", 9},
    {BaseType::scalar_type, "complex128", 10},
    {BaseType::scalar_type, "bool", 11},
    {BaseType::scalar_type, "bfloat16", 15},
    {BaseType::layout, "strided", 0},
    {BaseType::layout, "sparse", 1},
    {BaseType::memory_format, "contiguous_format", 0},
    {BaseType::memory_format, "preserve_format", 1},
    {BaseType::memory_format, "channels_last", 2},
    {BaseType::memory_format, "channels_last_3d", 3},
    {BaseType::device, "cpu", 0},
    {BaseType::device, "cuda", 1},
    {BaseType::device, "meta", 2},
};

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Schema parse();

 private:
  // Tokens.
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    if (peek() != token[0] || !text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) error(message("expected '{}'", token));
  }
  std::string name(std::string_view what);
  [[noreturn]] void error(std::string_view what) const;

  // Grammar.
  void op_name(Schema& schema);
  void arguments(Schema& schema);
  SchemaArg argument(bool kwarg_only);
  SchemaType type(AliasInfo& alias);
  BaseType base_type();
  void list_suffix(SchemaType& type);
  void alias_info(AliasInfo& alias);
  void alias_set(std::vector<std::string>& set);
  void returns(Schema& schema);
  SchemaReturn return_value();

  // Defaults.
  DefaultValue default_value(const SchemaType& type);
  DefaultValue single_default(const SchemaType& type);
  DefaultValue number_default(const SchemaType& type);
  DefaultValue word_default(const SchemaType& type);
  DefaultValue text_default(const SchemaType& type);
  DefaultValue list_default(const SchemaType& type);
  DefaultValue number();
  void append(DefaultValue& list, const DefaultValue& element, BaseType base);

  std::string_view text_;
  size_t at_ = 0;
};

void Parser::error(std::string_view what) const {
  auto before = text_.substr(0, at_);
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  auto column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  auto rest = text_.substr(at_, 20);
  std::string found = rest.empty() ? "the end" : message("'{}'", rest);
  fail("schema, line {}, column {}: {}, found {}, in \"{}\"; see a schema as PyTorch prints it",
       static_cast<int64_t>(line), column, what, found, text_.substr(0, 400));
}

std::string Parser::name(std::string_view what) {
  if (!is_name_start(peek())) error(message("expected {}", what));
  size_t from = at_;
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  return std::string(text_.substr(from, at_ - from));
}

Schema Parser::parse() {
  Schema schema;
  op_name(schema);
  arguments(schema);
  expect("->");
  returns(schema);
  if (peek() != '\0') error("expected the end of the schema");
  return schema;
}

void Parser::op_name(Schema& schema) {
  schema.ns = "aten";
  schema.name = name("the name of the op");
  if (accept("::")) {
    schema.ns = std::move(schema.name);
    schema.name = name("the name of the op");
  }
  if (accept(".")) schema.overload = name("the name of the overload");
  if (schema.overload == "default") schema.overload.clear();
}

void Parser::arguments(Schema& schema) {
  expect("(");
  if (accept(")")) return;
  bool kwarg_only = false;
  do {
    if (!kwarg_only && accept("*")) {
      kwarg_only = true;
      continue;
    }
    size_t from = (skip_space(), at_);
    SchemaArg arg = argument(kwarg_only);
    if (schema.find_arg(arg.name) >= 0) {
      at_ = from;
      error(message("expected an argument with a new name, '{}' is taken", arg.name));
    }
    schema.args.push_back(std::move(arg));
  } while (accept(","));
  expect(")");
}

SchemaArg Parser::argument(bool kwarg_only) {
  SchemaArg arg;
  arg.kwarg_only = kwarg_only;
  arg.type = type(arg.alias);
  arg.name = name("the name of the argument");
  if (accept("=")) arg.default_value = default_value(arg.type);
  return arg;
}

// By number. The op table parses thousands of types when a process begins.
constexpr size_t n_base_types = static_cast<size_t>(BaseType::dimname) + 1;
const std::array<std::string_view, n_base_types>& base_names() {
  static const auto names = [] {
    std::array<std::string_view, n_base_types> all;
    for (size_t i = 0; i < all.size(); ++i) all[i] = name_of(static_cast<BaseType>(i));
    return all;
  }();
  return names;
}

BaseType Parser::base_type() {
  size_t from = (skip_space(), at_);
  std::string word = name("a type");
  const auto& names = base_names();
  auto found = std::ranges::find(names, word);
  if (found != names.end()) return static_cast<BaseType>(found - names.begin());
  std::vector<std::string> known(names.begin(), names.end());
  at_ = from;
  error(message("expected a type such as {}", nearest_names(word, known)));
}

SchemaType Parser::type(AliasInfo& alias) {
  SchemaType type;
  type.base = base_type();
  if (peek() == '(') alias_info(alias);
  for (;;) {
    if (peek() == '[') {
      list_suffix(type);
      if (peek() == '(') alias_info(alias);
    } else if (peek() == '?') {
      if (type.optional) error("expected one '?' at most");
      type.optional = true;
      ++at_;
    } else {
      return type;
    }
  }
}

void Parser::list_suffix(SchemaType& type) {
  if (type.is_list) error("expected a list of single values");
  expect("[");
  type.is_list = true;
  type.optional_element = std::exchange(type.optional, false);
  if (is_digit(peek())) {
    auto [end, status] = std::from_chars(&text_[at_], text_.data() + text_.size(), type.list_size);
    if (status != std::errc() || type.list_size > 64) error("expected a list length up to 64");
    at_ = static_cast<size_t>(end - text_.data());
  }
  expect("]");
}

void Parser::alias_info(AliasInfo& alias) {
  if (!alias.empty()) error("expected one alias annotation");
  expect("(");
  alias_set(alias.before);
  alias.mutated = accept("!");
  if (accept("->")) alias_set(alias.after);
  expect(")");
}

void Parser::alias_set(std::vector<std::string>& set) {
  do {
    if (accept("*"))
      set.emplace_back("*");
    else
      set.push_back(name("an alias set"));
  } while (accept("|"));
}

void Parser::returns(Schema& schema) {
  if (!accept("(")) {
    schema.returns.push_back(return_value());
    return;
  }
  if (accept(")")) return;
  do schema.returns.push_back(return_value());
  while (accept(","));
  expect(")");
}

SchemaReturn Parser::return_value() {
  SchemaReturn result;
  result.type = type(result.alias);
  if (is_name_start(peek())) result.name = name("the name of the result");
  return result;
}

DefaultValue Parser::default_value(const SchemaType& type) {
  if (peek() == '[') return list_default(type);
  size_t from = at_;
  DefaultValue value = single_default(type);
  if (!type.is_list || value.kind == Kind::none) {
    if (value.kind == Kind::none && !type.optional) {
      at_ = from;
      error("None needs a type with '?': expected a value");
    }
    return value;
  }
  DefaultValue list;
  for (int32_t i = 0; i < std::max(type.list_size, 1); ++i) append(list, value, type.base);
  return list;
}

DefaultValue Parser::single_default(const SchemaType& type) {
  char c = peek();
  if (c == '"' || c == '\'') return text_default(type);
  if (is_name_start(c)) return word_default(type);
  return number_default(type);
}

DefaultValue Parser::number() {
  size_t from = (skip_space(), at_);
  const char* begin = text_.data() + at_;
  const char* end = text_.data() + text_.size();
  DefaultValue value;
  value.kind = Kind::integer;
  auto [int_end, int_status] = std::from_chars(begin, end, value.integer);
  auto [float_end, float_status] = std::from_chars(begin, end, value.floating);
  if (float_status != std::errc() || !std::isfinite(value.floating)) error("expected a number");
  if (float_end != int_end || int_status != std::errc()) value.kind = Kind::floating;
  at_ = static_cast<size_t>(float_end - text_.data());
  if (value.kind == Kind::floating &&
      text_.substr(from, at_ - from).find_first_of(".eE") == std::string_view::npos) {
    at_ = from;
    error("expected a number of 64 bits");
  }
  if (value.kind == Kind::integer)
    value.floating = 0;
  else
    value.integer = 0;
  return value;
}

// The default as a value of the argument's type: 1 for a float is 1.0, 4 for a ScalarType is long.
DefaultValue Parser::number_default(const SchemaType& type) {
  size_t from = (skip_space(), at_);
  DefaultValue value = number();
  bool is_int = value.kind == Kind::integer;
  switch (type.base) {
    case BaseType::scalar:
    case BaseType::any:
      return value;
    case BaseType::integer:
    case BaseType::sym_int:
      if (is_int) return value;
      break;
    case BaseType::floating:
    case BaseType::sym_float:
      if (is_int) value.floating = static_cast<double>(value.integer);
      value.integer = 0;
      value.kind = Kind::floating;
      return value;
    default:
      for (const WordRow& row : word_rows)
        if (is_int && row.base == type.base && row.number == value.integer) {
          value.kind = Kind::word;
          value.text = row.word;
          return value;
        }
  }
  at_ = from;
  error(message("expected a default of type {}", to_text(type)));
}

DefaultValue Parser::word_default(const SchemaType& type) {
  size_t from = at_;
  std::string word = name("a default");
  DefaultValue value;
  if (word == "None") {
    value.kind = Kind::none;
    return value;
  }
  bool is_bool = word == "True" || word == "False";
  if (is_bool && (type.base == BaseType::boolean || type.base == BaseType::sym_bool ||
                  type.base == BaseType::scalar || type.base == BaseType::any)) {
    value.kind = Kind::boolean;
    value.boolean = word == "True";
    return value;
  }
  for (const WordRow& row : word_rows) {
    if (row.base != type.base || row.word != word) continue;
    value.kind = type.base == BaseType::integer ? Kind::integer : Kind::word;
    value.integer = row.number;
    if (value.kind == Kind::word) value.text = word;
    return value;
  }
  at_ = from;
  error(message("expected a default of type {}", to_text(type)));
}

DefaultValue Parser::text_default(const SchemaType& type) {
  if (type.base != BaseType::string) error(message("expected a default of type {}", to_text(type)));
  char quote = text_[at_++];
  DefaultValue value;
  value.kind = Kind::text;
  while (at_ < text_.size() && text_[at_] != quote) {
    char c = text_[at_++];
    if (c == '\\' && at_ < text_.size()) {
      constexpr std::string_view letters = "ntrfv", meanings = "\n\t\r\f\v";
      size_t letter = letters.find(text_[at_]);
      c = letter == std::string_view::npos ? text_[at_] : meanings[letter];
      ++at_;
    }
    value.text += c;
  }
  if (at_ == text_.size()) error("expected the closing quote");
  ++at_;
  return value;
}

void Parser::append(DefaultValue& list, const DefaultValue& element, BaseType base) {
  bool is_bool = base == BaseType::boolean;
  if (base == BaseType::floating && element.kind == Kind::floating) {
    list.kind = Kind::floats;
    list.floats.push_back(element.floating);
  } else if ((base == BaseType::integer || base == BaseType::sym_int) &&
             element.kind == Kind::integer) {
    list.kind = Kind::ints;
    list.ints.push_back(element.integer);
  } else if (is_bool && element.kind == Kind::boolean) {
    list.kind = Kind::bools;
    list.bools.push_back(element.boolean);
  } else {
    error("expected a default of ints, floats or bools for a list");
  }
}

DefaultValue Parser::list_default(const SchemaType& type) {
  if (!type.is_list) error(message("expected a default of type {}", to_text(type)));
  expect("[");
  DefaultValue list;
  list.kind = type.base == BaseType::floating  ? Kind::floats
              : type.base == BaseType::boolean ? Kind::bools
                                               : Kind::ints;
  if (accept("]")) return list;
  do append(list, single_default(type), type.base);
  while (accept(","));
  expect("]");
  return list;
}

}  // namespace

Schema parse_schema(std::string_view text) { return Parser(text).parse(); }

}  // namespace tenon
