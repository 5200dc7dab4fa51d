// Printing expressions with as few parentheses as their operators need, and a recursive-descent
// parser of the same language.
#include "core/sym/sym_text.h"

#include "core/error.h"
#include "core/sym/sym_scanner.h"
#include "core/sym/sym_simplify.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon {

namespace {

// Binding strength, weakest first.
enum Level { any, disjunction, conjunction, negation, comparison, sum, product, unary, atom };

// How an operation is written: between its operands, or before them when it is an atom.
struct Form {
  SymOp op;
  Level level;
  const char* text;
};
constexpr Form forms[] = {{SymOp::or_, disjunction, " or "},  {SymOp::and_, conjunction, " and "},
                          {SymOp::not_, negation, "not "},    {SymOp::eq, comparison, " == "},
                          {SymOp::ne, comparison, " != "},    {SymOp::lt, comparison, " < "},
                          {SymOp::le, comparison, " <= "},    {SymOp::add, sum, " + "},
                          {SymOp::mul, product, "*"},         {SymOp::floordiv, product, " // "},
                          {SymOp::mod, product, " % "},       {SymOp::truediv, product, " / "},
                          {SymOp::pow, unary, "**"},          {SymOp::min, atom, "min"},
                          {SymOp::max, atom, "max"},          {SymOp::ceildiv, atom, "ceildiv"},
                          {SymOp::select, atom, "where"},     {SymOp::to_float, atom, "float"},
                          {SymOp::trunc, atom, "trunc"},      {SymOp::floor_to_int, atom, "floor"},
                          {SymOp::ceil_to_int, atom, "ceil"}, {SymOp::round_to_int, atom, "round"},
                          {SymOp::constant, atom, nullptr},   {SymOp::symbol, atom, nullptr}};

const Form& form_of(const Expr* e) { return *std::ranges::find(forms, e->op, &Form::op); }

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
    bool parentheses = form_of(e).level < least;
    if (parentheses) out_ += '(';
    print_bare(e);
    if (parentheses) out_ += ')';
  }
  std::string take() { return std::move(out_); }

 private:
  void print_bare(const Expr* e) {
    if (form_of(e).level == atom && form_of(e).text) return print_call(e);
    switch (e->op) {
      case SymOp::constant:
        return print_constant(e);
      case SymOp::symbol:
        out_ += name_of_(e);
        return;
      case SymOp::add:
        return e->kind == ExprKind::integer ? print_sum(e) : print_real(e);
      case SymOp::mul:
        return e->kind == ExprKind::integer ? print_product(e) : print_real(e);
      case SymOp::not_:
        out_ += form_of(e).text;
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
  void print_call(const Expr* e) {
    out_ += form_of(e).text;
    for (size_t i = 0; i < e->n_operands; ++i) {
      out_ += i == 0 ? "(" : ", ";
      print(e->operand(i), any);
    }
    out_ += ')';
  }
  void print_list(const Expr* e, Level least) {
    for (size_t i = 0; i < e->n_operands; ++i) {
      if (i > 0) out_ += form_of(e).text;
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
  void print_real(const Expr* e) {
    Level own = form_of(e).level, stronger = static_cast<Level>(own + 1);
    print(e->operand(0), e->operand(0)->op == e->op ? own : stronger);
    out_ += form_of(e).text;
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
  Parser(std::string_view text, const SymbolLookup& lookup, const SymFacts* facts,
         const FunctionLookup& functions)
      : in_(text), lookup_(lookup), facts_(facts), functions_(functions) {}

  const Expr* parse() {
    const Expr* e = parse_choice();
    if (!in_.at_end()) in_.stop("an operator or the end");
    return e;
  }

 private:
  static constexpr int max_depth = 400;         // parentheses count twice
  static constexpr size_t max_operands = 2048;  // in all, which bounds the height of the tree

  /// What `build` makes of `operands`, with the position in its errors.
  template <class F>
  const Expr* make_with(std::span<const Expr* const> operands, F build) {
    n_operands_ += operands.size();
    if (n_operands_ > max_operands) in_.stop("fewer operations");
    try {
      return build(operands);
    } catch (const UserError& error) {
      throw UserError(error.code(), in_.place() + error.what());
    }
  }
  const Expr* make(SymOp op, std::span<const Expr* const> operands) {
    return make_with(operands, [&](auto all) { return make_expr(op, all, facts_); });
  }
  const Expr* make(SymOp op, std::initializer_list<const Expr*> operands) {
    return make(op, std::span<const Expr* const>(operands.begin(), operands.size()));
  }
  /// Null where nothing is known of that name.
  const Expr* other_function(std::string_view name, std::span<const Expr* const> operands) {
    if (!functions_) return nullptr;
    return make_with(operands, [&](auto all) { return functions_(name, all); });
  }
  const Expr* negative(const Expr* e) {
    if (e->kind == ExprKind::real) return make(SymOp::mul, {intern_real(-1), e});
    return make(SymOp::mul, {intern_integer(-1), e});
  }
  /// One operand as it is; several are put together at once, since each step would be kept.
  const Expr* join(SymOp op, const std::vector<const Expr*>& operands) {
    return operands.size() == 1 ? operands[0] : make(op, operands);
  }

  /// `a if c else b` is a where c, else b.
  const Expr* parse_choice() {
    if (++depth_ > max_depth) in_.stop("fewer nested parentheses");
    const Expr* e = parse_or();
    if (in_.accept("if")) {
      const Expr* condition = parse_or();
      in_.expect("else");
      e = make(SymOp::select, {condition, e, parse_choice()});
    }
    --depth_;
    return e;
  }
  const Expr* parse_or() {
    std::vector<const Expr*> operands;
    do operands.push_back(parse_and());
    while (in_.accept("or"));
    return join(SymOp::or_, operands);
  }
  const Expr* parse_and() {
    std::vector<const Expr*> operands;
    do operands.push_back(parse_not());
    while (in_.accept("and"));
    return join(SymOp::and_, operands);
  }
  const Expr* parse_not() {
    bool negated = false;
    while (in_.accept("not")) negated = !negated;
    const Expr* e = parse_comparison();
    return negated ? make(SymOp::not_, {e}) : e;
  }
  /// `a <= b < c` means `a <= b and b < c`.
  const Expr* parse_comparison() {
    const Expr* left = parse_bits("|^&");
    std::vector<const Expr*> all;
    for (;;) {
      static constexpr std::pair<std::string_view, SymOp> operators[] = {
          {"==", SymOp::eq}, {"!=", SymOp::ne}, {"<=", SymOp::le},
          {">=", SymOp::le}, {"<", SymOp::lt},  {">", SymOp::lt}};
      const std::pair<std::string_view, SymOp>* found = nullptr;
      for (const auto& candidate : operators)
        if (found == nullptr && in_.accept(candidate.first)) found = &candidate;
      if (found == nullptr) return all.empty() ? left : join(SymOp::and_, all);
      const Expr* right = parse_bits("|^&");
      bool turned = found->first[0] == '>';
      all.push_back(turned ? make(found->second, {right, left})
                           : make(found->second, {left, right}));
      left = right;
    }
  }
  /// The weakest operator first. Expressions have no operation on bits; `functions` may say them.
  const Expr* parse_bits(std::string_view operators) {
    if (operators.empty()) return parse_sum();
    const std::string_view weakest = operators.substr(0, 1), others = operators.substr(1);
    const Expr* e = parse_bits(others);
    for (size_t start = in_.position(); functions_ && in_.accept(weakest); start = in_.position()) {
      const Expr* operands[] = {e, parse_bits(others)};
      e = other_function(weakest, operands);
      if (e == nullptr) in_.stop_at(start, "another operator");
    }
    return e;
  }
  const Expr* parse_sum() {
    std::vector<const Expr*> terms{parse_product()};
    for (;;) {
      if (in_.accept("+"))
        terms.push_back(parse_product());
      else if (in_.accept("-"))
        terms.push_back(negative(parse_product()));
      else
        return join(SymOp::add, terms);
    }
  }
  /// `a * b // c` divides the product so far.
  const Expr* parse_product() {
    static constexpr std::pair<std::string_view, SymOp> divisions[] = {
        {"//", SymOp::floordiv}, {"/", SymOp::truediv}, {"%", SymOp::mod}};
    std::vector<const Expr*> factors{parse_unary()};
    for (;;) {
      const std::pair<std::string_view, SymOp>* division = nullptr;
      for (const auto& candidate : divisions)
        if (division == nullptr && in_.accept(candidate.first)) division = &candidate;
      if (division != nullptr) {
        const Expr* left = join(SymOp::mul, factors);
        factors = {make(division->second, {left, parse_unary()})};
      } else if (in_.accept("*")) {
        factors.push_back(parse_unary());
      } else {
        return join(SymOp::mul, factors);
      }
    }
  }
  const Expr* parse_unary() {
    if (++depth_ > max_depth) in_.stop("fewer signs");
    const Expr* e = in_.accept("+")   ? parse_unary()
                    : in_.accept("-") ? parse_negative()
                                      : parse_power();
    --depth_;
    return e;
  }
  const Expr* parse_negative() {
    if (!in_.at_number()) return negative(parse_unary());
    const Expr* e = in_.number(true);  // a literal, which may be -2^63
    return in_.accept("**") ? negative(make(SymOp::pow, {negative(e), parse_unary()})) : e;
  }
  const Expr* parse_power() {
    const Expr* base = parse_atom();
    return in_.accept("**") ? make(SymOp::pow, {base, parse_unary()}) : base;
  }
  const Expr* parse_atom() {
    if (in_.accept("(")) {
      const Expr* e = parse_choice();
      in_.expect(")");
      return e;
    }
    if (in_.at_number()) return in_.number(false);
    std::string_view word = in_.name();
    if (word.empty()) in_.stop("a number, a symbol or a function");
    return parse_word(word, in_.position() - word.size());
  }
  const Expr* parse_word(std::string_view word, size_t start) {
    if (word == "true" || word == "false") return intern_boolean(word == "true");
    if (word == "inf") return intern_real(INFINITY);
    if (word == "nan") return intern_real(NAN);
    if (in_.accept("(")) return parse_call(word, start);
    const Expr* symbol = lookup_(word);
    if (symbol == nullptr) in_.stop_at(start, "a known symbol");
    return symbol;
  }
  const Expr* parse_call(std::string_view name, size_t start) {
    std::vector<const Expr*> operands;
    do operands.push_back(parse_choice());
    while (in_.accept(","));
    in_.expect(")");
    if (name == "pow") return make(SymOp::pow, operands);
    for (const Form& form : forms)
      if (form.level == atom && form.text && name == form.text) return make(form.op, operands);
    if (const Expr* other = other_function(name, operands)) return other;
    in_.stop_at(start, "one of min max ceildiv where float trunc floor ceil round pow");
  }

  SymScanner in_;
  const SymbolLookup& lookup_;
  const SymFacts* facts_;
  const FunctionLookup& functions_;
  int depth_ = 0;
  size_t n_operands_ = 0;
};

}  // namespace

std::string expr_text(const Expr* expr, const SymbolName& name_of) {
  Printer printer(name_of);
  printer.print(expr, any);
  return printer.take();
}

const Expr* parse_expr(std::string_view text, const SymbolLookup& lookup, const SymFacts* facts,
                       const FunctionLookup& functions) {
  return Parser(text, lookup, facts, functions).parse();
}

}  // namespace tenon
