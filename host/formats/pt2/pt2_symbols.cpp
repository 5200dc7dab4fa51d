// Which inputs bind the symbols of a program, and its expressions in the engine's form.
#include "formats/pt2/pt2_symbols.h"

#include "core/sym/sym_simplify.h"

#include <algorithm>
#include <functional>
#include <set>

namespace tenon::formats {

namespace {

void collect_symbols(const SymExprAst& expr, std::set<std::string>& names) {
  if (expr.op == SymOp::symbol) names.insert(expr.name);
  for (const SymExprPtr& child : expr.children) collect_symbols(*child, names);
}

int64_t as_integer(const SymNumber& number, const std::string& subject) {
  if (const int64_t* i = std::get_if<int64_t>(&number)) return *i;
  if (const bool* b = std::get_if<bool>(&number)) return *b;
  fail(ErrorCode::bad_file, "{}: expected an integer, found {}", subject, to_text(number));
}

/// A place of a user input whose value the program describes by an expression.
struct Place {
  uint32_t input;
  int32_t dim;
  const Pt2Sym* sym;
};

std::vector<Place> symbolic_places(const Pt2Program& program) {
  std::vector<Place> places;
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    const Pt2Input& input = program.inputs[i];
    if (input.kind != Pt2InputKind::user_input) continue;
    if (input.value.kind == Pt2Kind::symbol) {
      auto found = program.graph.symbols.find(input.value.text);
      if (found != program.graph.symbols.end() && found->second.expr)
        places.push_back({i, -1, &found->second});
    }
    if (input.value.kind != Pt2Kind::tensor) continue;
    const Pt2TensorMeta& meta = program.graph.tensors.at(input.value.text);
    for (size_t d = 0; d < meta.sizes.size(); ++d)
      if (meta.sizes[d].expr) places.push_back({i, static_cast<int32_t>(d), &meta.sizes[d]});
  }
  return places;
}

// The one symbol of `expr` that is not in `known`; nothing when there are none or several.
std::optional<std::string> only_unknown(const SymExprAst& expr,
                                        const std::set<std::string>& known) {
  std::set<std::string> names;
  collect_symbols(expr, names);
  std::optional<std::string> unknown;
  for (const std::string& name : names) {
    if (known.count(name)) continue;
    if (unknown) return std::nullopt;
    unknown = name;
  }
  return unknown;
}

}  // namespace

SymNumber evaluate_with(const SymExprAst& expr, const Pt2SymbolValues& values) {
  return evaluate(expr, [&](const SymExprAst& leaf) -> std::optional<SymNumber> {
    auto found = values.find(leaf.name);
    if (leaf.op != SymOp::symbol || found == values.end()) return std::nullopt;
    return SymNumber(found->second);
  });
}

bool has_all_symbols(const SymExprAst& expr, const Pt2SymbolValues& values) {
  std::set<std::string> names;
  collect_symbols(expr, names);
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return values.count(name) > 0; });
}

std::vector<Pt2SymbolSource> symbol_sources(const Pt2Program& program) {
  std::vector<Pt2SymbolSource> sources;
  std::set<std::string> known;
  std::vector<Place> places = symbolic_places(program);
  for (const Place& p : places)
    if (p.sym->expr->op == SymOp::symbol && known.insert(p.sym->expr->name).second)
      sources.push_back({p.sym->expr->name, p.input, p.dim, nullptr});
  for (bool found = true; found;) {
    found = false;
    for (const Place& p : places) {
      std::optional<std::string> name = only_unknown(*p.sym->expr, known);
      if (!name) continue;
      sources.push_back({*name, p.input, p.dim, p.sym->expr});
      known.insert(*name);
      found = true;
    }
  }
  return sources;
}

int64_t solve_symbol(const Pt2SymbolSource& source, int64_t found, const Pt2SymbolValues& known) {
  if (!source.solve) return found;
  std::string text = to_text(*source.solve);
  auto at = [&](int64_t value) {
    Pt2SymbolValues values = known;
    values[source.symbol] = value;
    return as_integer(evaluate_with(*source.solve, values), text);
  };
  int64_t b = at(0), a;
  require(!__builtin_sub_overflow(at(1), b, &a) && a != 0, ErrorCode::bad_file,
          "size {} does not determine {}, and no other size does", text, source.symbol);
  int64_t rest;
  require(!__builtin_sub_overflow(found, b, &rest) && rest % a == 0,
          "the size must have the form {}, found {}: no integer {} gives it", text, found,
          source.symbol);
  int64_t value = rest / a;
  require(at(value) == found, ErrorCode::unsupported,
          "{} can be found from no input: {} is not linear in it", source.symbol, text);
  return value;
}

Pt2SymbolValues symbol_hints(const Pt2Program& program,
                             const std::vector<Pt2SymbolSource>& sources) {
  Pt2SymbolValues hints;
  for (const Pt2SymbolSource& s : sources) {
    const Pt2Argument& value = program.inputs[s.input].value;
    const Pt2Sym& sym = s.dim < 0 ? program.graph.symbols.at(value.text)
                                  : program.graph.tensors.at(value.text).sizes[s.dim];
    if (!sym.hint || std::holds_alternative<double>(*sym.hint)) continue;
    hints[s.symbol] = solve_symbol(s, as_integer(*sym.hint, s.symbol), hints);
  }
  return hints;
}

// ---- the table

Pt2SymbolTable::Pt2SymbolTable(const Pt2Program& program, std::shared_ptr<ShapeEnv> env)
    : env_(std::move(env)) {
  for (const Pt2Range& r : program.ranges) {
    if (!r.expr || r.expr->op != SymOp::symbol) continue;
    Range range;
    if (r.min) range.lo = std::max(range.lo, *r.min);
    if (r.max) range.hi = std::min(range.hi, *r.max);
    ranges_[r.expr->name] = range;
  }
  std::set<std::string> in_sizes;
  for (const auto& [name, meta] : program.graph.tensors)
    for (const Pt2Sym& size : meta.sizes)
      if (size.expr) collect_symbols(*size.expr, in_sizes);
  for (const std::string& name : in_sizes) is_size_[name] = true;
}

const Expr* Pt2SymbolTable::declare(const std::string& name, int64_t hint, SymbolSource source) {
  auto found = ranges_.find(name);
  Range range = found == ranges_.end() ? Range{} : found->second;
  return known_[name] = env_->declare_symbol(name, ExprKind::integer, SymValue::of_int(hint), range,
                                             source, name);
}

// What only the run knows. Its recorded range is asserted by nodes, which must not be simplified
// away because of it; that a size is not negative is certain.
const Expr* Pt2SymbolTable::symbol(const std::string& name) {
  if (auto found = known_.find(name); found != known_.end()) return found->second;
  bool real = name.starts_with("z");
  Range range = is_size_.count(name) ? Range::at_least(0) : Range{};
  const Expr* made =
      env_->declare_symbol(name, real ? ExprKind::real : ExprKind::integer, std::nullopt, range,
                           {SymbolSource::Kind::node_value}, name);
  if (is_size_.count(name) && !real) env_->mark_size_like(SymInt::from_expr(made));
  return known_[name] = made;
}

const Expr* Pt2SymbolTable::fresh(ExprKind kind) {
  std::string name = "x" + std::to_string(fresh_++);
  return env_->declare_symbol(name, kind, std::nullopt, {}, {SymbolSource::Kind::node_value}, name);
}

const Expr* Pt2SymbolTable::convert(const Pt2Sym& sym) {
  if (sym.expr) return convert(*sym.expr);
  if (const int64_t* i = std::get_if<int64_t>(&sym.value)) return intern_integer(*i);
  if (const bool* b = std::get_if<bool>(&sym.value)) return intern_boolean(*b);
  return intern_real(std::get<double>(sym.value));
}

const Expr* Pt2SymbolTable::convert(const SymExprAst& expr) {
  switch (expr.op) {
    case SymOp::integer:
      return intern_integer(std::get<int64_t>(expr.number));
    case SymOp::real:
      return intern_real(std::get<double>(expr.number));
    case SymOp::boolean:
      return intern_boolean(std::get<bool>(expr.number));
    case SymOp::symbol:
      return symbol(expr.name);
    default:
      break;
  }
  std::vector<const Expr*> operands;
  for (const SymExprPtr& child : expr.children) {
    operands.push_back(convert(*child));
    if (!operands.back()) return nullptr;
  }
  return combine(expr, operands);
}

namespace {

using Operands = std::vector<const Expr*>;
using Engine = tenon::SymOp;

// Operations of the same meaning, operands in the same order.
std::optional<Engine> same_operation(SymOp op) {
  switch (op) {
    case SymOp::add:
      return Engine::add;
    case SymOp::mul:
      return Engine::mul;
    case SymOp::max:
      return Engine::max;
    case SymOp::min:
      return Engine::min;
    case SymOp::and_:
      return Engine::and_;
    case SymOp::or_:
      return Engine::or_;
    case SymOp::not_:
      return Engine::not_;
    case SymOp::to_float:
      return Engine::to_float;
    case SymOp::trunc_to_int:
      return Engine::trunc;
    case SymOp::floor_to_int:
      return Engine::floor_to_int;
    case SymOp::ceil_to_int:
      return Engine::ceil_to_int;
    case SymOp::round_to_int:
      return Engine::round_to_int;
    case SymOp::pow:
      return Engine::pow;
    case SymOp::floor_div:
    case SymOp::clean_div:
      return Engine::floordiv;
    case SymOp::mod:
      return Engine::mod;
    case SymOp::rational:
    case SymOp::true_div:
      return Engine::truediv;
    case SymOp::eq:
      return Engine::eq;
    case SymOp::ne:
      return Engine::ne;
    case SymOp::lt:
      return Engine::lt;
    case SymOp::le:
      return Engine::le;
    case SymOp::where:
      return Engine::select;
    default:
      return std::nullopt;
  }
}

}  // namespace

const Expr* Pt2SymbolTable::combine(const SymExprAst& expr, const Operands& v) {
  const SymFacts* facts = &env_->facts();
  auto make = [&](Engine op, Operands operands) { return make_expr(op, operands, facts); };
  if (auto same = same_operation(expr.op)) return make(*same, v);
  auto negated = [&](const Expr* e) { return make(Engine::mul, {intern_integer(-1), e}); };
  auto power_of_two = [&](const Expr* e) { return make(Engine::pow, {intern_integer(2), e}); };
  switch (expr.op) {
    case SymOp::identity:
      return v[0];
    case SymOp::neg:
      return negated(v[0]);
    case SymOp::abs:
      return make(Engine::max, {v[0], negated(v[0])});
    case SymOp::trunc_to_float:
      return make(Engine::to_float, {make(Engine::trunc, {v[0]})});
    case SymOp::gt:
      return make(Engine::lt, {v[1], v[0]});
    case SymOp::ge:
      return make(Engine::le, {v[1], v[0]});
    case SymOp::l_shift:
      return make(Engine::mul, {v[0], power_of_two(v[1])});
    case SymOp::r_shift:
      return make(Engine::floordiv, {v[0], power_of_two(v[1])});
    case SymOp::modular_indexing:
      return make(Engine::mod, {make(Engine::floordiv, {v[0], v[1]}), v[2]});
    case SymOp::unary_function:
      if (expr.name == "sqrt") return make(Engine::pow, {v[0], intern_real(0.5)});
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace tenon::formats
