// The two grammars of expressions in .pt2 archives.
//
// Problem. PyTorch writes sizes as SymPy's `srepr` and hands the text to an evaluator of Python
// when it reads it back. Guards and the keys of range constraints are Python expressions. Files are
// data, so nothing here may evaluate anything: each text is read by a fixed grammar into a tree.
//
//   srepr := NAME | '-' NAME | NAME '(' [ item { ',' item } ] ')'
//   item  := srepr | integer | quoted string | NAME '=' (True | False | integer)
//
//   or := and { 'or' and }            sum   := term { ('+'|'-') term }
//   and := not { 'and' not }          term  := factor { ('*'|'/'|'//'|'%') factor }
//   not := 'not' not | compare        factor := ('-'|'+') factor | power
//   compare := sum { op sum }         power := atom [ '**' factor ]
//   atom := number | NAME [ '(' or { ',' or } ')' ] | '(' or ')' | 'L' path
//
// Method. Recursive descent; recursion and height of the tree are bounded by
// limits::expression_depth, the text by limits::expression_length. A chain of comparisons means
// what it means in Python. Cost: linear in the text.
#include "formats/pt2/pt2_expr_build.h"

#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

namespace tenon::formats {

using namespace expr;

namespace {

// Names that stand for numbers, without arguments.
std::optional<SymNumber> find_constant(std::string_view name) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (name == "true" || name == "True") return true;
  if (name == "false" || name == "False") return false;
  if (name == "int_oo" || name == "oo") return infinity;
  if (name == "nan" || name == "zoo") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

double parse_double(std::string_view text, Scanner& scanner) {
  // from_chars takes no leading plus and knows "inf" and "nan", all of which SymPy may write.
  std::string copy(text);
  char* end = nullptr;
  double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || *end != '\0') scanner.fail_here("the text of a double");
  return value;
}

class SreprParser {
 public:
  explicit SreprParser(std::string_view text) : in_(text) {}

  SymExprPtr parse() {
    SymExprPtr result = expression();
    if (!in_.at_end()) in_.fail_here("the end of the expression");
    return result;
  }

 private:
  SymExprPtr expression() {
    Level level(depth_, in_.text());
    const bool negative = in_.accept("-");
    std::string_view name = in_.name();
    if (std::optional<SymNumber> constant = find_constant(name)) {
      if (!negative) return make_number(*constant);
      if (!std::holds_alternative<double>(*constant)) in_.fail_here("an infinity");
      return make_number(-std::get<double>(*constant));
    }
    if (negative) in_.fail_here("an infinity");
    if (!in_.accept("(")) in_.fail_here("'(' or one of true, false, oo, int_oo, nan");
    if (name == "Symbol" || name == "Dummy") return symbol();
    if (name == "Integer") return integer();
    if (name == "Float") return real();
    if (name == "Rational") return rational();
    return call(name);
  }

  SymExprPtr symbol() {
    std::string_view name = in_.quoted();
    Scanner word(name);
    if (!word.at_name() || word.name() != name)
      in_.fail_here("the name of a symbol: letters, digits and _");
    skip_keywords();
    in_.expect(")");
    return make_symbol(name);
  }
  SymExprPtr integer() {
    int64_t value = in_.integer();
    in_.expect(")");
    return make_number(value);
  }
  SymExprPtr real() {
    double value = parse_double(in_.quoted(), in_);
    skip_keywords();
    in_.expect(")");
    return make_number(value);
  }
  SymExprPtr rational() {
    int64_t above = in_.integer();
    in_.expect(",");
    int64_t below = in_.integer();
    if (below == 0) in_.fail_here("a denominator other than 0");
    in_.expect(")");
    return make_node(SymOp::rational, {make_number(above), make_number(below)}, in_.text());
  }

  // ", positive=True, precision=53": never needed, in any order.
  void skip_keywords() {
    while (in_.accept(",")) keyword();
  }
  void keyword() {
    in_.name();
    in_.expect("=");
    if (!in_.accept_word("True") && !in_.accept_word("False")) in_.integer();
  }

  SymExprPtr call(std::string_view name) {
    constexpr std::string_view opaque = "OpaqueUnaryFn_";
    const Constructor* row = find_constructor(name);
    std::string_view function =
        name.starts_with(opaque) ? find_unary_function(name.substr(opaque.size())) : "";
    if (!row && function.empty()) in_.fail_here("a known constructor before this");
    std::vector<SymExprPtr> children = arguments();
    const int count = static_cast<int>(children.size());
    const int least = row ? row->least : 1;
    const int most = row ? row->most : 1;
    if (count < least || (most >= 0 && count > most)) in_.fail_here("another number of arguments");
    if (!row) return make_unary_function(function, std::move(children[0]), in_.text());
    return make_node(row->op, std::move(children), in_.text());
  }
  std::vector<SymExprPtr> arguments() {
    std::vector<SymExprPtr> children;
    if (in_.accept(")")) return children;
    do {
      if (in_.at_number()) {
        children.push_back(make_number(in_.integer()));
      } else if (!accept_keyword()) {
        children.push_back(expression());
      }
    } while (in_.accept(","));
    in_.expect(")");
    return children;
  }
  // "evaluate=False" among the arguments of a relation.
  bool accept_keyword() {
    if (!in_.accept_word("evaluate")) return false;
    in_.expect("=");
    if (!in_.accept_word("True")) in_.expect("False");
    return true;
  }

  Scanner in_;
  int depth_ = 0;
};

class InfixParser {
 public:
  explicit InfixParser(std::string_view text) : in_(text) {}

  SymExprPtr parse() {
    SymExprPtr result = disjunction();
    if (!in_.at_end()) in_.fail_here("an operator or the end of the expression");
    return result;
  }

 private:
  SymExprPtr node(SymOp op, std::vector<SymExprPtr> children) {
    return make_node(op, std::move(children), in_.text());
  }
  // One operand as it is, several as one n-ary node.
  SymExprPtr join(SymOp op, std::vector<SymExprPtr> operands) {
    return operands.size() == 1 ? std::move(operands[0]) : node(op, std::move(operands));
  }

  SymExprPtr disjunction() {
    std::vector<SymExprPtr> operands;
    do operands.push_back(conjunction());
    while (in_.accept_word("or"));
    return join(SymOp::or_, std::move(operands));
  }
  SymExprPtr conjunction() {
    std::vector<SymExprPtr> operands;
    do operands.push_back(negation());
    while (in_.accept_word("and"));
    return join(SymOp::and_, std::move(operands));
  }
  SymExprPtr negation() {
    if (!in_.accept_word("not")) return comparison();
    Level level(depth_, in_.text());
    return node(SymOp::not_, {negation()});
  }

  std::optional<SymOp> comparison_operator() {
    if (in_.accept("==")) return SymOp::eq;
    if (in_.accept("!=")) return SymOp::ne;
    if (in_.accept("<=")) return SymOp::le;
    if (in_.accept(">=")) return SymOp::ge;
    if (in_.accept("<")) return SymOp::lt;
    if (in_.accept(">")) return SymOp::gt;
    return std::nullopt;
  }
  SymExprPtr comparison() {
    std::vector<SymExprPtr> parts;
    SymExprPtr left = sum();
    while (std::optional<SymOp> op = comparison_operator()) {
      SymExprPtr right = sum();
      parts.push_back(node(*op, {left, right}));
      left = std::move(right);
    }
    return parts.empty() ? left : join(SymOp::and_, std::move(parts));
  }

  SymExprPtr sum() {
    std::vector<SymExprPtr> operands{term()};
    while (true) {
      if (in_.accept("+")) {
        operands.push_back(term());
      } else if (in_.accept("-")) {
        operands.push_back(node(SymOp::neg, {term()}));
      } else {
        return join(SymOp::add, std::move(operands));
      }
    }
  }
  SymExprPtr term() {
    std::vector<SymExprPtr> operands{factor()};
    // `a * b // c` divides the product so far.
    auto divide = [&](SymOp op) {
      SymExprPtr left = join(SymOp::mul, std::exchange(operands, {}));
      operands.push_back(node(op, {std::move(left), factor()}));
    };
    while (true) {
      if (in_.accept("//")) {
        divide(SymOp::floor_div);
      } else if (in_.accept("/")) {
        divide(SymOp::true_div);
      } else if (in_.accept("%")) {
        divide(SymOp::mod);
      } else if (in_.accept("*")) {
        operands.push_back(factor());
      } else {
        return join(SymOp::mul, std::move(operands));
      }
    }
  }
  SymExprPtr factor() {
    Level level(depth_, in_.text());
    if (in_.accept("-")) return node(SymOp::neg, {factor()});
    if (in_.accept("+")) return factor();
    SymExprPtr base = atom();
    if (in_.accept("**")) return node(SymOp::pow, {std::move(base), factor()});
    return base;
  }

  SymExprPtr atom() {
    if (in_.at_number()) return make_number(in_.number());
    if (in_.accept("(")) {
      SymExprPtr inside = disjunction();
      in_.expect(")");
      return inside;
    }
    std::string_view name = in_.name();
    if (name == "math" && in_.accept(".")) name = in_.name();
    if (name == "L" && in_.peek() == '[') return input();
    if (in_.accept("(")) return call(name);
    if (std::optional<SymNumber> constant = find_constant(name)) return make_number(*constant);
    return make_symbol(name);
  }

  // The infix names of functions; others are the constructors of srepr.
  static const Constructor* find_function(std::string_view name) {
    if (name == "max") return find_constructor("Max");
    if (name == "min") return find_constructor("Min");
    if (name == "abs") return find_constructor("Abs");
    if (name == "float") return find_constructor("ToFloat");
    if (name == "floor") return find_constructor("FloorToInt");
    if (name == "ceil" || name == "ceiling") return find_constructor("CeilToInt");
    if (name == "trunc" || name == "int") return find_constructor("TruncToInt");
    return find_constructor(name);
  }
  SymExprPtr call(std::string_view name) {
    const Constructor* row = find_function(name);
    std::string_view function = find_unary_function(name);
    if (!row && function.empty()) in_.fail_here("a known function before this");
    std::vector<SymExprPtr> children;
    do children.push_back(disjunction());
    while (in_.accept(","));
    in_.expect(")");
    const int count = static_cast<int>(children.size());
    const int least = row ? row->least : 1;
    const int most = row ? row->most : 1;
    if (count < least || (most >= 0 && count > most)) in_.fail_here("another number of arguments");
    if (!row) return make_unary_function(function, std::move(children[0]), in_.text());
    return node(row->op, std::move(children));
  }

  // L['x'] and what follows it.
  SymExprPtr input() {
    auto leaf = std::make_shared<SymExprAst>();
    leaf->op = SymOp::input;
    in_.expect("[");
    leaf->name = in_.quoted();
    in_.expect("]");
    while (true) {
      if (in_.accept("[")) {
        leaf->path.push_back(subscript());
      } else if (in_.accept(".")) {
        leaf->path.push_back(member(in_.name()));
      } else {
        return leaf;
      }
    }
  }
  SymAccess subscript() {
    SymAccess access;
    if (in_.at_number() || in_.peek() == '-') {
      access.index = in_.integer();
    } else {
      access.kind = SymAccess::Kind::key;
      access.key = in_.quoted();
    }
    in_.expect("]");
    return access;
  }
  SymAccess member(std::string_view name) {
    if (name == "size" || name == "stride") {
      SymAccess::Kind kind = name == "size" ? SymAccess::Kind::size : SymAccess::Kind::stride;
      in_.expect("(");
      if (in_.accept(")")) return dimension(kind);
      int64_t index = in_.integer();
      in_.expect(")");
      return {.kind = kind, .index = index, .key = {}};
    }
    if (name == "shape") return dimension(SymAccess::Kind::size);
    if (name == "storage_offset" || name == "dim") {
      in_.expect("(");
      in_.expect(")");
      return {.kind = name == "dim" ? SymAccess::Kind::dim : SymAccess::Kind::storage_offset,
              .index = 0,
              .key = {}};
    }
    if (name == "ndim") return {.kind = SymAccess::Kind::dim, .index = 0, .key = {}};
    return {.kind = SymAccess::Kind::attribute, .index = 0, .key = std::string(name)};
  }
  SymAccess dimension(SymAccess::Kind kind) {
    in_.expect("[");
    int64_t index = in_.integer();
    in_.expect("]");
    return {.kind = kind, .index = index, .key = {}};
  }

  Scanner in_;
  int depth_ = 0;
};

}  // namespace

SymExprPtr parse_srepr(std::string_view text) {
  check_length(text);
  return SreprParser(text).parse();
}

SymExprPtr parse_infix(std::string_view text) {
  check_length(text);
  return InfixParser(text).parse();
}

}  // namespace tenon::formats
