// Nodes, constructors and tokens of the expressions in .pt2 archives.
#include "formats/pt2/pt2_expr_build.h"

#include "core/utf8.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace tenon::formats::expr {

namespace {

constexpr Constructor constructors[] = {
    {"Add", SymOp::add, 1, -1},
    {"Mul", SymOp::mul, 1, -1},
    {"Max", SymOp::max, 1, -1},
    {"Min", SymOp::min, 1, -1},
    {"And", SymOp::and_, 1, -1},
    {"Or", SymOp::or_, 1, -1},
    {"Not", SymOp::not_, 1, 1},
    {"Abs", SymOp::abs, 1, 1},
    {"Identity", SymOp::identity, 1, 1},
    {"ToFloat", SymOp::to_float, 1, 1},
    {"TruncToInt", SymOp::trunc_to_int, 1, 1},
    {"FloorToInt", SymOp::floor_to_int, 1, 1},
    {"CeilToInt", SymOp::ceil_to_int, 1, 1},
    {"RoundToInt", SymOp::round_to_int, 1, 1},
    {"TruncToFloat", SymOp::trunc_to_float, 1, 1},
    {"Rational", SymOp::rational, 2, 2},
    {"Pow", SymOp::pow, 2, 2},
    {"PowByNatural", SymOp::pow, 2, 2},
    {"FloatPow", SymOp::pow, 2, 2},
    {"FloorDiv", SymOp::floor_div, 2, 2},
    {"Mod", SymOp::mod, 2, 2},
    {"PythonMod", SymOp::mod, 2, 2},
    {"CleanDiv", SymOp::clean_div, 2, 2},
    {"FloatTrueDiv", SymOp::true_div, 2, 2},
    {"IntTrueDiv", SymOp::true_div, 2, 2},
    {"RoundDecimal", SymOp::round_decimal, 2, 2},
    {"LShift", SymOp::l_shift, 2, 2},
    {"RShift", SymOp::r_shift, 2, 2},
    {"BitwiseFn_bitwise_and", SymOp::bit_and, 2, 2},
    {"BitwiseFn_bitwise_or", SymOp::bit_or, 2, 2},
    {"BitwiseFn_bitwise_xor", SymOp::bit_xor, 2, 2},
    {"Equality", SymOp::eq, 2, 2},
    {"Unequality", SymOp::ne, 2, 2},
    {"StrictLessThan", SymOp::lt, 2, 2},
    {"LessThan", SymOp::le, 2, 2},
    {"StrictGreaterThan", SymOp::gt, 2, 2},
    {"GreaterThan", SymOp::ge, 2, 2},
    {"Eq", SymOp::eq, 2, 2},
    {"Ne", SymOp::ne, 2, 2},
    {"Where", SymOp::where, 3, 3},
    {"ModularIndexing", SymOp::modular_indexing, 3, 3},
    {"IsNonOverlappingAndDenseIndicator", SymOp::is_non_overlapping_and_dense, 2, -1},
};

constexpr std::string_view unary_functions[] = {"sqrt", "cos",  "cosh",  "sin",  "sinh",
                                                "tan",  "tanh", "asin",  "acos", "atan",
                                                "exp",  "log",  "asinh", "log2"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

const Constructor* find_constructor(std::string_view name) {
  const auto* row = std::ranges::find(constructors, name, &Constructor::name);
  return row == std::end(constructors) ? nullptr : row;
}

std::string_view find_unary_function(std::string_view name) {
  const auto* row = std::ranges::find(unary_functions, name);
  return row == std::end(unary_functions) ? std::string_view() : *row;
}

SymExprPtr make_node(SymOp op, std::vector<SymExprPtr> children, std::string_view text) {
  auto node = std::make_shared<SymExprAst>();
  node->op = op;
  node->children = std::move(children);
  for (const SymExprPtr& child : node->children)
    node->height = std::max(node->height, child->height + 1);
  require(node->height <= limits::expression_depth, ErrorCode::bad_file,
          "expression \"{}\": nested deeper than {} levels", printable(text),
          limits::expression_depth);
  return node;
}

SymExprPtr make_number(SymNumber number) {
  auto node = std::make_shared<SymExprAst>();
  constexpr SymOp ops[] = {SymOp::integer, SymOp::real, SymOp::boolean};
  node->op = ops[number.index()];
  node->number = number;
  return node;
}

SymExprPtr make_symbol(std::string_view name) {
  auto node = std::make_shared<SymExprAst>();
  node->op = SymOp::symbol;
  node->name = name;
  return node;
}

SymExprPtr make_unary_function(std::string_view name, SymExprPtr argument, std::string_view text) {
  auto node =
      std::make_shared<SymExprAst>(*make_node(SymOp::unary_function, {std::move(argument)}, text));
  node->name = name;
  return node;
}

void fail_parse(std::string_view text, size_t at, std::string_view expected) {
  fail(ErrorCode::bad_file, "expression \"{}\": expected {} at character {}, found \"{}\"",
       printable(text), expected, at, printable(text.substr(std::min(at, text.size()))));
}

void check_length(std::string_view text) {
  require(text.size() <= limits::expression_length, ErrorCode::bad_file,
          "expression \"{}\": expected at most {} characters, found {}",
          printable(text.substr(0, 60)), limits::expression_length, text.size());
  require(is_utf8(text), ErrorCode::bad_file, "expression \"{}\": expected UTF-8",
          printable(text.substr(0, 60)));
}

void Scanner::skip_space() {
  while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\n')) ++next_;
}

bool Scanner::at_end() {
  skip_space();
  return next_ == text_.size();
}

char Scanner::peek() { return at_end() ? '\0' : text_[next_]; }

bool Scanner::accept(std::string_view mark) {
  skip_space();
  if (text_.substr(next_, mark.size()) != mark) return false;
  next_ += mark.size();
  return true;
}

bool Scanner::accept_word(std::string_view word) {
  skip_space();
  size_t end = next_ + word.size();
  if (text_.substr(next_, word.size()) != word) return false;
  if (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) return false;
  next_ = end;
  return true;
}

void Scanner::expect(std::string_view mark) {
  if (!accept(mark)) fail_here("'" + std::string(mark) + "'");
}

bool Scanner::at_name() { return is_letter(peek()); }
bool Scanner::at_number() { return is_digit(peek()); }

std::string_view Scanner::name() {
  if (!at_name()) fail_here("a name");
  const size_t begin = next_;
  while (next_ < text_.size() && (is_letter(text_[next_]) || is_digit(text_[next_]))) ++next_;
  return text_.substr(begin, next_ - begin);
}

std::string_view Scanner::quoted() {
  const char quote = peek();
  if (quote != '\'' && quote != '"') fail_here("a quoted string");
  const size_t end = text_.find(quote, next_ + 1);
  if (end == text_.npos) fail_here("a closed string");
  std::string_view inside = text_.substr(next_ + 1, end - next_ - 1);
  if (inside.find('\\') != inside.npos) fail_here("a string without escapes");
  bool steers = std::ranges::any_of(
      inside, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (steers) fail_here("a string without control characters");
  next_ = end + 1;
  return inside;
}

SymNumber Scanner::number() {
  if (!at_number()) fail_here("a number");
  const char* begin = text_.data() + next_;
  const char* end = text_.data() + text_.size();
  int64_t integer = 0;
  double real = 0;
  auto [integer_end, integer_error] = std::from_chars(begin, end, integer);
  const bool is_real = integer_end != end && (*integer_end == '.' || *integer_end == 'e');
  if (!is_real) {
    if (integer_error != std::errc()) fail_here("an integer of 64 bits");
    next_ += static_cast<size_t>(integer_end - begin);
    return integer;
  }
  auto [real_end, real_error] = std::from_chars(begin, end, real);
  if (real_error != std::errc()) fail_here("a double");
  next_ += static_cast<size_t>(real_end - begin);
  return real;
}

int64_t Scanner::integer() {
  skip_space();
  int64_t value = 0;
  const char* begin = text_.data() + next_;
  auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) fail_here("an integer of 64 bits");
  next_ += static_cast<size_t>(end - begin);
  return value;
}

Level::Level(int& depth, std::string_view text) : depth_(depth) {
  require(depth < limits::expression_depth, ErrorCode::bad_file,
          "expression \"{}\": nested deeper than {} levels", printable(text),
          limits::expression_depth);
  ++depth_;
}

}  // namespace tenon::formats::expr
