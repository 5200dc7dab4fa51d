// Which inputs bind the symbols of a program, and its expressions in the engine's form.
#include "formats/pt2/pt2_symbols.h"

#include "core/sym/sym_simplify.h"
#include "core/sym/symbol_numbers.h"

#include <algorithm>

namespace tenon::formats {

namespace {

/// A place of a user input whose value the program describes by an expression.
struct Place {
  uint32_t input;
  int32_t dim;
  const Pt2Sym* sym;
  Pt2SourceKind kind;
};

bool is_open(const Pt2Sym& sym) { return sym.expr && sym.is_symbolic(); }

std::vector<Place> symbolic_places(const Pt2Program& program) {
  std::vector<Place> places;
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    const Pt2Input& input = program.inputs[i];
    if (input.kind != Pt2InputKind::user_input) continue;
    if (input.value.kind == Pt2Kind::symbol) {
      auto found = program.graph.symbols.find(input.value.text);
      if (found != program.graph.symbols.end() && is_open(found->second))
        places.push_back({i, -1, &found->second, Pt2SourceKind::value});
    }
    if (input.value.kind != Pt2Kind::tensor) continue;
    const Pt2TensorMeta& meta = program.graph.tensors.at(input.value.text);
    for (size_t d = 0; d < meta.sizes.size(); ++d)
      if (is_open(meta.sizes[d]))
        places.push_back({i, static_cast<int32_t>(d), &meta.sizes[d], Pt2SourceKind::size});
  }
  return places;
}

// Sizes and numbers come before these.
void add_layout_places(const Pt2Program& program, std::vector<Place>& places) {
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    const Pt2Input& input = program.inputs[i];
    if (input.kind != Pt2InputKind::user_input || input.value.kind != Pt2Kind::tensor) continue;
    const Pt2TensorMeta& meta = program.graph.tensors.at(input.value.text);
    for (size_t d = 0; d < meta.strides.size(); ++d)
      if (is_open(meta.strides[d]))
        places.push_back({i, static_cast<int32_t>(d), &meta.strides[d], Pt2SourceKind::stride});
    if (is_open(meta.storage_offset))
      places.push_back({i, -1, &meta.storage_offset, Pt2SourceKind::offset});
  }
}

// The one symbol of `expr` that is not in `known`; null when there are none or several.
const Expr* only_unknown(const Expr* expr, const std::unordered_set<const Expr*>& known) {
  const Expr* unknown = nullptr;
  for (const Expr* symbol : free_symbols(expr)) {
    if (known.count(symbol)) continue;
    if (unknown) return nullptr;
    unknown = symbol;
  }
  return unknown;
}

}  // namespace

std::string to_text(const Pt2Sym& sym) { return sym.expr ? symbol_text(sym.expr) : "?"; }

std::optional<int64_t> evaluate_with(const Expr* expr, const Pt2SymbolValues& values) {
  if (!expr) return std::nullopt;
  auto value = evaluate(expr, [&](const Expr* symbol) -> std::optional<SymValue> {
    auto found = values.find(symbol);
    return found == values.end() ? std::nullopt : std::optional(SymValue::of_int(found->second));
  });
  bool is_integer = value && value->kind == ExprKind::integer;
  return is_integer ? std::optional(value->integer()) : std::nullopt;
}

const Expr* express_with(const Expr* expr,
                         const std::function<std::optional<SymInt>(const Expr*)>& numbers) {
  bool is_known = true;
  const Expr* over_numbers = substitute(expr, [&](const Expr* symbol) -> const Expr* {
    std::optional<SymInt> number = numbers(symbol);
    is_known = is_known && number;
    return number ? as_expr(*number) : nullptr;
  });
  return is_known ? over_numbers : nullptr;
}

std::optional<SymInt> evaluate_with(const Expr* expr, const Pt2SymbolNumbers& values) {
  if (!expr || expr->kind != ExprKind::integer) return std::nullopt;
  const Expr* known = express_with(expr, [&](const Expr* symbol) -> std::optional<SymInt> {
    auto found = values.find(symbol);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
  return known ? std::optional(as_sym_int(known)) : std::nullopt;
}

std::vector<Pt2SymbolSource> symbol_sources(const Pt2Program& program) {
  std::vector<Pt2SymbolSource> sources;
  std::unordered_set<const Expr*> known;
  std::vector<Place> places = symbolic_places(program);
  add_layout_places(program, places);
  for (const Place& p : places)
    if (p.sym->expr->is_symbol() && known.insert(p.sym->expr).second)
      sources.push_back({p.sym->expr, p.input, p.dim, nullptr, p.kind});
  for (bool found = true; found;) {
    found = false;
    for (const Place& p : places) {
      const Expr* symbol = only_unknown(p.sym->expr, known);
      if (!symbol) continue;
      sources.push_back({symbol, p.input, p.dim, p.sym->expr, p.kind});
      known.insert(symbol);
      found = true;
    }
  }
  return sources;
}

namespace {

std::optional<int64_t> difference(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}
std::optional<SymInt> difference(SymInt a, SymInt b) { return a - b; }

template <class Int>
Int solve(const Pt2SymbolSource& source, Int found, const std::map<const Expr*, Int>& known) {
  if (!source.solve) return found;
  const std::string size = symbol_text(source.solve), symbol = symbol_text(source.symbol);
  auto at = [&](Int value) {
    std::map<const Expr*, Int> values = known;
    values[source.symbol] = value;
    auto result = evaluate_with(source.solve, values);
    require(result.has_value(), ErrorCode::bad_file, "size {} has no value where {} is {}", size,
            symbol, value);
    return *result;
  };
  Int b = at(0);
  std::optional<Int> a = difference(at(1), b), rest = difference(found, b);
  require(a && bool(*a != 0), ErrorCode::bad_file,
          "size {} does not determine {}, and no other size does", size, symbol);
  require(rest && bool(*rest % *a == 0),
          "the size must have the form {}, found {}: no integer {} gives it", size, found, symbol);
  Int value = *rest / *a;
  require(bool(at(value) == found), ErrorCode::unsupported,
          "{} can be found from no input: {} is not linear in it", symbol, size);
  return value;
}

}  // namespace

int64_t solve_symbol(const Pt2SymbolSource& source, int64_t found, const Pt2SymbolValues& known) {
  return solve(source, found, known);
}

SymInt solve_symbol(const Pt2SymbolSource& source, SymInt found, const Pt2SymbolNumbers& known) {
  return solve(source, found, known);
}

const Pt2Sym& sym_at(const Pt2Program& program, const Pt2SymbolSource& source) {
  const std::string& name = program.inputs[source.input].value.text;
  auto dim = static_cast<size_t>(std::max(source.dim, 0));
  if (source.kind == Pt2SourceKind::value) return program.graph.symbols.at(name);
  const Pt2TensorMeta& meta = program.graph.tensors.at(name);
  return source.kind == Pt2SourceKind::size     ? meta.sizes[dim]
         : source.kind == Pt2SourceKind::stride ? meta.strides[dim]
                                                : meta.storage_offset;
}

std::string place_text(const Pt2SymbolSource& source) {
  switch (source.kind) {
    case Pt2SourceKind::size:
      return message("dimension {}", source.dim);
    case Pt2SourceKind::stride:
      return message("stride {}", source.dim);
    case Pt2SourceKind::offset:
      return "storage offset";
    case Pt2SourceKind::value:
      break;
  }
  return "value";
}

Pt2SymbolValues symbol_hints(const Pt2Program& program,
                             const std::vector<Pt2SymbolSource>& sources) {
  Pt2SymbolValues hints;
  for (const Pt2SymbolSource& s : sources) {
    const Pt2Sym& sym = sym_at(program, s);
    if (!sym.hint || sym.hint->kind == ExprKind::real) continue;
    hints[s.symbol] = solve_symbol(s, sym.hint->integer(), hints);
  }
  return hints;
}

// ---- the table

Pt2SymbolTable::Pt2SymbolTable(const Pt2Program& program, std::shared_ptr<ShapeEnv> env)
    : env_(std::move(env)) {
  for (const Pt2Range& r : program.ranges) {
    if (!r.expr || !r.expr->is_symbol()) continue;
    Range range;
    range.lo = std::max(range.lo, r.traced_min);
    if (r.max) range.hi = std::min(range.hi, *r.max);
    ranges_[r.expr] = range;
  }
  for (const auto& [name, meta] : program.graph.tensors)
    for (const Pt2Sym& size : meta.sizes)
      if (size.expr)
        for (const Expr* symbol : free_symbols(size.expr)) in_sizes_.insert(symbol);
}

const Expr* Pt2SymbolTable::declare(const Expr* symbol, int64_t hint, SymbolSource source) {
  auto found = ranges_.find(symbol);
  Range range = found == ranges_.end() ? Range{} : found->second;
  // 0 and 1 have graphs of their own, so that those of usual sizes need not think of them.
  if (hint < range.lo) {
    range = Range::only(hint);
    has_untraced_ = true;
  }
  std::string name = symbol_text(symbol);
  return known_[symbol] = env_->declare_symbol(name, ExprKind::integer, SymValue::of_int(hint),
                                               range, source, name);
}

// What only the run knows. Its recorded range is asserted by nodes, which must not be simplified
// away because of it; that a size is not negative is certain.
const Expr* Pt2SymbolTable::symbol(const Expr* of_program) {
  if (const Expr* known = find(of_program)) return known;
  bool is_size = in_sizes_.count(of_program) > 0;
  std::string name = symbol_text(of_program);
  const Expr* made = env_->declare_symbol(name, of_program->kind, std::nullopt,
                                          is_size ? Range::at_least(0) : Range{},
                                          {SymbolSource::Kind::node_value}, name);
  if (is_size && made->kind == ExprKind::integer) env_->mark_size_like(SymInt::from_expr(made));
  return known_[of_program] = made;
}

const Expr* Pt2SymbolTable::find(const Expr* symbol) const {
  auto found = known_.find(symbol);
  return found == known_.end() ? nullptr : found->second;
}

const Expr* Pt2SymbolTable::convert(const Pt2Sym& sym, ExprKind kind) {
  if (!sym.expr) {
    std::string name = "x" + std::to_string(fresh_++);
    return env_->declare_symbol(name, kind, std::nullopt, {}, {SymbolSource::Kind::node_value},
                                name);
  }
  return substitute(
      sym.expr, [this](const Expr* s) { return symbol(s); }, &env_->facts());
}

}  // namespace tenon::formats
