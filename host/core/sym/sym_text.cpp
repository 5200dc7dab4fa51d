// Printing expressions with as few parentheses as their operators need, and a recursive-descent
// parser of the same language.
#include "core/sym/sym_text.h"

#include "core/error.h"
#include "core/sym/sym_simplify.h"

#include <charconv>
#include <cmath>

namespace tenon {

namespace {

// Binding strength, weakest first.
enum Level { any, disjunction, conjunction, negation, comparison, sum, product, unary, atom };

Level level_of(const Expr* e) {
  switch (e->op) {
    case SymOp::or_:
      return disjunction;
    case SymOp::and_:
      return conjunction;
    case SymOp::not_:
      return negation;
    case SymOp::eq:
    case SymOp::ne:
    case SymOp::lt:
    case SymOp::le:
      return comparison;
    case SymOp::add:
      return sum;
    case SymOp::mul:
    case SymOp::floordiv:
    case SymOp::mod:
    case SymOp::truediv:
      return product;
    case SymOp::pow:
      return unary;
    default:
      return atom;
  }
}

const char* function_name(SymOp op) {
  switch (op) {
    case SymOp::min:
      return "min";
    case SymOp::max:
      return "max";
    case SymOp::ceildiv:
      return "ceildiv";
    case SymOp::select:
      return "where";
    case SymOp::to_float:
      return "float";
    case SymOp::trunc:
      return "trunc";
    case SymOp::floor_to_int:
      return "floor";
    case SymOp::ceil_to_int:
      return "ceil";
    case SymOp::round_to_int:
      return "round";
    default:
      return nullptr;
  }
}

const char* infix(SymOp op) {
  switch (op) {
    case SymOp::or_:
      return " or ";
    case SymOp::and_:
      return " and ";
    case SymOp::eq:
      return " == ";
    case SymOp::ne:
      return " != ";
    case SymOp::lt:
      return " < ";
    case SymOp::le:
      return " <= ";
    case SymOp::floordiv:
      return " // ";
    case SymOp::mod:
      return " % ";
    case SymOp::truediv:
      return " / ";
    case SymOp::pow:
      return "**";
    default:
      return "?";
  }
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

class Printer {
 public:
  explicit Printer(const SymbolName& name_of) : name_of_(name_of) {}

  void print(const Expr* e, Level least) {
    bool parentheses = level_of(e) < least;
    if (parentheses) out_ += '(';
    print_bare(e);
    if (parentheses) out_ += ')';
  }
  std::string take() { return std::move(out_); }

 private:
  void print_bare(const Expr* e) {
    if (const char* name = function_name(e->op)) return print_call(name, e);
    switch (e->op) {
      case SymOp::constant:
        return print_constant(e);
      case SymOp::symbol:
        out_ += name_of_(e);
        return;
      case SymOp::add:
        return e->kind == ExprKind::integer ? print_sum(e) : print_real(e, " + ");
      case SymOp::mul:
        return e->kind == ExprKind::integer ? print_product(e) : print_real(e, "*");
      case SymOp::not_:
        out_ += "not ";
        return print(e->operand(0), comparison);
      case SymOp::and_:
        return print_list(e, comparison);
      case SymOp::or_:
        return print_list(e, conjunction);
      case SymOp::lt:
      case SymOp::le:
        return print_order(e);
      case SymOp::eq:
      case SymOp::ne:
        return print_list(e, sum);
      case SymOp::pow:
        return print_list(e, atom);
      default:
        return print_list(e, unary);
    }
  }

  void print_constant(const Expr* e) {
    if (e->kind == ExprKind::boolean)
      out_ += e->is_true() ? "true" : "false";
    else
      out_ += e->kind == ExprKind::real ? real_text(e->real()) : std::to_string(e->integer());
  }
  void print_call(const char* name, const Expr* e) {
    out_ += name;
    for (size_t i = 0; i < e->n_operands; ++i) {
      out_ += i == 0 ? "(" : ", ";
      print(e->operand(i), any);
    }
    out_ += ')';
  }
  void print_list(const Expr* e, Level least) {
    for (size_t i = 0; i < e->n_operands; ++i) {
      if (i > 0) out_ += infix(e->op);
      print(e->operand(i), least);
    }
  }
  /// `3 < u0` is written `u0 > 3`.
  void print_order(const Expr* e) {
    if (!e->operand(0)->is_constant()) return print_list(e, sum);
    print(e->operand(1), sum);
    out_ += e->op == SymOp::lt ? " > " : " >= ";
    print(e->operand(0), sum);
  }
  /// Real sums and products group to the left.
  void print_real(const Expr* e, const char* sign) {
    Level own = level_of(e), stronger = static_cast<Level>(own + 1);
    print(e->operand(0), e->operand(0)->op == e->op ? own : stronger);
    out_ += sign;
    print(e->operand(1), stronger);
  }
  void print_sum(const Expr* e) {
    for (size_t i = 0; i < e->n_operands; ++i) {
      const Expr* term = e->operand(i);
      bool negative = factor_of(term) < 0 && factor_of(term) != INT64_MIN;
      if (i > 0) out_ += negative ? " - " : " + ";
      if (i > 0 && negative)
        print_term(term, -factor_of(term));
      else
        print(term, product);
    }
  }
  static int64_t factor_of(const Expr* term) {
    if (term->is_constant()) return term->integer();
    bool scaled = term->op == SymOp::mul && term->operand(0)->is_constant();
    return scaled ? term->operand(0)->integer() : 1;
  }
  void print_product(const Expr* e) {
    if (e->operand(0)->is_constant()) return print_term(e, e->operand(0)->integer());
    print_factors(e->operands());
  }
  void print_term(const Expr* term, int64_t factor) {
    if (term->is_constant()) {
      out_ += std::to_string(factor);
      return;
    }
    if (factor == -1)
      out_ += '-';
    else if (factor != 1)
      out_ += std::to_string(factor) + "*";
    print_factors(term->operands().subspan(1));
  }
  void print_factors(std::span<const Expr* const> factors) {
    for (size_t i = 0; i < factors.size(); ++i) {
      if (i > 0) out_ += '*';
      print(factors[i], unary);
    }
  }

  const SymbolName& name_of_;
  std::string out_;
};

class Parser {
 public:
  Parser(std::string_view text, const SymbolLookup& lookup, const SymFacts* facts)
      : text_(text), lookup_(lookup), facts_(facts) {}

  const Expr* parse() {
    const Expr* e = parse_or();
    skip_space();
    if (at_ != text_.size()) stop("an operator or the end");
    return e;
  }

 private:
  static constexpr int max_depth = 200;

  [[noreturn]] void stop(std::string_view expected) {
    std::string found = at_ < text_.size() ? "'" + std::string(text_.substr(at_, 12)) + "'"
                                           : std::string("the end");
    fail("expression \"{}\", column {}: expected {}, found {}", text_.substr(0, 80), at_ + 1,
         expected, found);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    bool is_word = is_name(token[0]);
    if (is_word && at_ + token.size() < text_.size() && is_name(text_[at_ + token.size()]))
      return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) stop("'" + std::string(token) + "'");
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name(char c) {
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  const Expr* make(SymOp op, std::initializer_list<const Expr*> operands) {
    return make_expr(op, operands, facts_);
  }
  const Expr* negative(const Expr* e) {
    if (e->kind == ExprKind::real) return make(SymOp::mul, {intern_real(-1), e});
    return make(SymOp::mul, {intern_integer(-1), e});
  }

  const Expr* parse_or() {
    if (++depth_ > max_depth) stop("fewer nested parentheses");
    const Expr* e = parse_and();
    while (accept("or")) e = make(SymOp::or_, {e, parse_and()});
    --depth_;
    return e;
  }
  const Expr* parse_and() {
    const Expr* e = parse_not();
    while (accept("and")) e = make(SymOp::and_, {e, parse_not()});
    return e;
  }
  const Expr* parse_not() {
    bool negated = false;
    while (accept("not")) negated = !negated;
    const Expr* e = parse_comparison();
    return negated ? make(SymOp::not_, {e}) : e;
  }
  /// `a <= b < c` means `a <= b and b < c`.
  const Expr* parse_comparison() {
    const Expr* left = parse_sum();
    const Expr* all = nullptr;
    for (;;) {
      static constexpr std::pair<std::string_view, SymOp> operators[] = {
          {"==", SymOp::eq}, {"!=", SymOp::ne}, {"<=", SymOp::le},
          {">=", SymOp::le}, {"<", SymOp::lt},  {">", SymOp::lt}};
      const std::pair<std::string_view, SymOp>* found = nullptr;
      for (const auto& candidate : operators)
        if (found == nullptr && accept(candidate.first)) found = &candidate;
      if (found == nullptr) return all ? all : left;
      const Expr* right = parse_sum();
      bool turned = found->first[0] == '>';
      const Expr* one =
          turned ? make(found->second, {right, left}) : make(found->second, {left, right});
      all = all ? make(SymOp::and_, {all, one}) : one;
      left = right;
    }
  }
  const Expr* parse_sum() {
    const Expr* e = parse_product();
    for (;;) {
      if (accept("+"))
        e = make(SymOp::add, {e, parse_product()});
      else if (accept("-"))
        e = make(SymOp::add, {e, negative(parse_product())});
      else
        return e;
    }
  }
  const Expr* parse_product() {
    const Expr* e = parse_unary();
    for (;;) {
      if (accept("//"))
        e = make(SymOp::floordiv, {e, parse_unary()});
      else if (accept("/"))
        e = make(SymOp::truediv, {e, parse_unary()});
      else if (accept("%"))
        e = make(SymOp::mod, {e, parse_unary()});
      else if (accept("*"))
        e = make(SymOp::mul, {e, parse_unary()});
      else
        return e;
    }
  }
  const Expr* parse_unary() {
    if (!accept("-")) return parse_power();
    if (at_ < text_.size() && is_digit(text_[at_])) {  // a literal, which may be -2^63
      const Expr* e = parse_number(true);
      if (!accept("**")) return e;
      return negative(make(SymOp::pow, {negative(e), parse_atom()}));
    }
    if (++depth_ > max_depth) stop("fewer signs");
    const Expr* e = negative(parse_unary());
    --depth_;
    return e;
  }
  const Expr* parse_power() {
    const Expr* base = parse_atom();
    return accept("**") ? make(SymOp::pow, {base, parse_atom()}) : base;
  }
  const Expr* parse_atom() {
    skip_space();
    if (accept("(")) {
      const Expr* e = parse_or();
      expect(")");
      return e;
    }
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.'))
      return parse_number(false);
    size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == start) stop("a number, a symbol or a function");
    return parse_word(text_.substr(start, at_ - start), start);
  }
  const Expr* parse_number(bool is_negative) {
    size_t start = at_;
    auto is_part = [this](char c) {
      bool sign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      return is_digit(c) || c == '.' || c == 'e' || c == 'E' || sign;
    };
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    std::string digits = (is_negative ? "-" : "") + std::string(text_.substr(start, at_ - start));
    const char* end = digits.data() + digits.size();
    int64_t integer = 0;
    double real = 0;
    auto whole = std::from_chars(digits.data(), end, integer);
    if (whole.ec == std::errc() && whole.ptr == end) return intern_integer(integer);
    bool is_real = digits.find_first_of(".eE") != std::string::npos;
    auto fraction = std::from_chars(digits.data(), end, real);
    if (!is_real || fraction.ec != std::errc() || fraction.ptr != end) {
      at_ = start;
      stop("a number of 64 bits");
    }
    return intern_real(real);
  }
  const Expr* parse_word(std::string_view word, size_t start) {
    if (word == "true" || word == "false") return intern_boolean(word == "true");
    if (word == "inf") return intern_real(INFINITY);
    if (word == "nan") return intern_real(NAN);
    if (accept("(")) return parse_call(word, start);
    const Expr* symbol = lookup_(word);
    if (symbol != nullptr) return symbol;
    at_ = start;
    stop("a known symbol");
  }
  const Expr* parse_call(std::string_view name, size_t start) {
    std::vector<const Expr*> operands;
    do operands.push_back(parse_or());
    while (accept(","));
    expect(")");
    if (name == "pow") return make_expr(SymOp::pow, operands, facts_);
    for (int i = 0; i <= static_cast<int>(SymOp::round_to_int); ++i) {
      auto op = static_cast<SymOp>(i);
      const char* known = function_name(op);
      if (known != nullptr && name == known) return make_expr(op, operands, facts_);
    }
    at_ = start;
    stop("one of min max ceildiv where float trunc floor ceil round pow");
  }

  std::string_view text_;
  const SymbolLookup& lookup_;
  const SymFacts* facts_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string expr_text(const Expr* expr, const SymbolName& name_of) {
  Printer printer(name_of);
  printer.print(expr, any);
  return printer.take();
}

const Expr* parse_expr(std::string_view text, const SymbolLookup& lookup, const SymFacts* facts) {
  return Parser(text, lookup, facts).parse();
}

}  // namespace tenon
