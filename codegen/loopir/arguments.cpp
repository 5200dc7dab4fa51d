// Arguments of nodes, and the graph's symbolic expressions as indices.
#include "arguments.h"

#include "program.h"

#include <bit>

namespace loopir {

using tenon::plugin::declined;
using tenon::plugin::host;
using tenon::plugin::sv;
using tenon::plugin::text;

void Arguments::import_symbols() {
  std::set<uint32_t> shown;
  for (uint32_t id : graph_.inputs()) see_symbols(graph_, id, shown);
  for (uint32_t s : graph_.symbols()) {
    auto e = graph_.expr(s);
    if ((e.flags & TN_DIM_UNBACKED) && !shown.contains(s))
      throw declined(text("size {} is known at run time only", sv(e.name)));
    auto place = static_cast<uint32_t>(x_.symbols.size());
    if (e.flags & TN_DIM_REAL)
      reals_of_[s] = place;
    else
      imported(s, x_.symbol(place));
    x_.symbols.push_back(
        {e.flags & TN_DIM_HAS_HINT ? e.hint : 8, e.lower, e.upper, std::string(sv(e.name))});
  }
}

Id Arguments::imported(uint32_t expr, Id index) {
  expressions_.emplace(index, expr);
  return imported_[expr] = index;
}

std::optional<uint32_t> Arguments::expression_for(Id index) const {
  if (auto found = expressions_.find(index); found != expressions_.end()) return found->second;
  auto number = x_.number_of(index);
  if (!number) return std::nullopt;
  uint32_t out = 0;
  tenon::plugin::check(host->sym->constant(graph_.get(), *number, &out));
  return out;
}

bool Arguments::are_known_equal(Id a, Id b) const {
  if (a == b) return true;
  auto expr_a = expression_for(a), expr_b = expression_for(b);
  if (!expr_a || !expr_b) return false;
  const uint32_t both[] = {*expr_a, *expr_b};
  uint32_t condition = 0;
  tenon::plugin::check(host->sym->make(graph_.get(), TN_EX_EQ, both, 2, &condition));
  return host->sym->known(graph_.get(), condition) == 1;
}

Id Arguments::index_of(const tn_dim& d) {
  if (d.expr == TN_EXPR_STATIC) return x_.constant(d.value);
  if (auto known = imported_.find(d.expr); known != imported_.end()) return known->second;
  auto e = graph_.expr(d.expr);
  if (e.flags & TN_DIM_REAL) throw declined("a size is not an integer");
  Ids operands;
  for (uint32_t o : e.arguments()) operands.push_back(index_of({0, o, 0}));
  auto folded = [&](auto&& join) {
    Id out = operands.at(0);
    for (size_t i = 1; i < operands.size(); ++i) out = join(out, operands[i]);
    return out;
  };
  Id out = none;
  switch (e.op) {
    case TN_EX_CONST:
      out = x_.constant(e.value);
      break;
    case TN_EX_ADD:
      out = folded([&](Id a, Id b) { return x_.add(a, b); });
      break;
    case TN_EX_MUL:
      out = folded([&](Id a, Id b) { return x_.multiply(a, b); });
      break;
    case TN_EX_FLOORDIV:
      out = x_.floordiv(operands.at(0), operands.at(1));
      break;
    case TN_EX_CEILDIV:
      out = x_.floordiv(x_.add(operands.at(0), x_.subtract(operands.at(1), x_.constant(1))),
                        operands.at(1));
      break;
    case TN_EX_MOD:
      out = x_.mod(operands.at(0), operands.at(1));
      break;
    case TN_EX_MIN:
      out = folded([&](Id a, Id b) { return x_.minimum(a, b); });
      break;
    case TN_EX_MAX:
      out = folded([&](Id a, Id b) { return x_.maximum(a, b); });
      break;
    case TN_EX_POW: {
      constexpr int64_t largest = 8;
      auto exponent = x_.number_of(operands.at(1));
      if (!exponent || *exponent < 0 || *exponent > largest)
        throw declined("a size is a power with a large or unknown exponent");
      out = x_.product_of(Ids(static_cast<size_t>(*exponent), operands[0]));
      break;
    }
    default:
      throw declined(text("a size is an expression of kind {}, which is not compiled", e.op));
  }
  return imported(d.expr, out);
}

Ids Arguments::indices_of(std::span<const tn_dim> dims) {
  Ids out;
  for (const tn_dim& d : dims) out.push_back(index_of(d));
  return out;
}

Id Arguments::index_arg(const tn_arg& a) {
  if (a.kind == TN_ARG_INT) return x_.constant(a.u.i);
  if (a.kind == TN_ARG_SYMINT) return index_of(a.u.sym);
  if (a.kind == TN_ARG_VALUE) {
    auto v = graph_.value_at(a.u.value);
    if (v.kind == TN_VAL_SYMINT) return index_of({0, v.expr, 0});
  }
  throw declined("a size is not an integer");
}

Id Arguments::position_arg(const tn_arg& a, Id size) {
  Id p = index_arg(a);
  Range range = x_.range(p);
  if (range.lower >= 0) return p;
  if (range.upper < 0) return x_.add(p, size);
  // Only the run knows the sign. 1 where it is negative:
  Id below =
      x_.minimum(x_.maximum(x_.multiply(p, x_.constant(-1)), x_.constant(0)), x_.constant(1));
  return x_.add(p, x_.multiply(below, size));
}

Id Arguments::start_arg(const tn_arg& a, Id size) {
  if (a.kind == TN_ARG_NONE) return x_.constant(0);
  return x_.minimum(x_.maximum(position_arg(a, size), x_.constant(0)), size);
}

Ids Arguments::index_list(const tn_arg& a) {
  Ids out;
  if (a.kind == TN_ARG_INTS)
    for (uint32_t i = 0; i < a.count; ++i) out.push_back(x_.constant(a.u.ints[i]));
  else if (a.kind == TN_ARG_SYMINTS)
    for (uint32_t i = 0; i < a.count; ++i) out.push_back(index_of(a.u.syms[i]));
  else if (a.kind != TN_ARG_NONE)
    out.push_back(index_arg(a));
  return out;
}

// ---- numbers

std::optional<uint32_t> Arguments::real_expression(const tn_arg& a) const {
  if (a.kind == TN_ARG_SYMFLOAT) return a.u.sym.expr;
  if (a.kind != TN_ARG_VALUE) return std::nullopt;
  auto v = graph_.value_at(a.u.value);
  return v.kind == TN_VAL_SYMFLOAT ? std::optional(v.expr) : std::nullopt;
}

bool Arguments::is_number(const tn_arg& a) const {
  if (a.kind == TN_ARG_INT || a.kind == TN_ARG_FLOAT || a.kind == TN_ARG_BOOL ||
      a.kind == TN_ARG_SYMINT || real_expression(a))
    return true;
  return a.kind == TN_ARG_VALUE && graph_.value_at(a.u.value).kind == TN_VAL_SYMINT;
}

int32_t Arguments::dtype_of_number(const tn_arg& a) const {
  if (a.kind == TN_ARG_BOOL) return TN_BOOL;
  return a.kind == TN_ARG_FLOAT || real_expression(a) ? TN_F32 : TN_I64;
}

Id Arguments::number(const tn_arg& a, int32_t dtype) {
  if (a.kind == TN_ARG_FLOAT) return x_.number(a.u.f, dtype);
  if (a.kind == TN_ARG_INT || a.kind == TN_ARG_BOOL) return x_.number(a.u.i, dtype);
  if (is_narrow(dtype)) return narrow_number(a, dtype);
  if (auto place = place_of_real(a)) return x_.cast(x_.real_value(*place), dtype);
  return x_.cast(x_.index_value(index_arg(a)), dtype);
}

// Rounded in the table, since no primitive rounds to 16 bits.
Id Arguments::narrow_number(const tn_arg& a, int32_t dtype) {
  using Op = Real::Op;
  auto real = place_of_real(a);
  uint32_t place = real ? *real : add_real({Op::index, 0, index_arg(a)});
  Op rounds = dtype == TN_F16 ? Op::to_f16 : Op::to_bf16;
  return x_.cast(x_.real_value(add_real({rounds, 0, none, place, place})), dtype);
}

std::optional<uint32_t> Arguments::place_of_real(const tn_arg& a) {
  auto expr = real_expression(a);
  return expr ? std::optional(place_of(*expr)) : std::nullopt;
}

// As the host draws: two blocks of its generator serve four elements.
uint32_t Arguments::place_of_draw(Id elements) {
  Id fours = x_.floordiv(x_.add(elements, x_.constant(3)), x_.constant(4));
  uint32_t place = add_real({Real::Op::seed, 0, x_.multiply(fours, x_.constant(2))});
  add_real({Real::Op::first_block});
  return place;
}

uint32_t Arguments::place_of(uint32_t expr) {
  if (expr == TN_EXPR_STATIC) throw declined("a number has no expression");
  if (auto known = reals_of_.find(expr); known != reals_of_.end()) return known->second;
  auto e = graph_.expr(expr);
  if (!(e.flags & TN_DIM_REAL)) throw declined("a number is not a real one");
  return reals_of_[expr] = place_of_made(e);
}

uint32_t Arguments::place_of_made(const tenon::plugin::expression& e) {
  using Op = Real::Op;
  if (e.op == TN_EX_CONST) return add_real({Op::constant, std::bit_cast<double>(e.value)});
  if (e.op == TN_EX_TO_FLOAT) return add_real({Op::index, 0, index_of({0, e.arguments()[0], 0})});
  Op op = e.op == TN_EX_ADD       ? Op::add
          : e.op == TN_EX_MUL     ? Op::multiply
          : e.op == TN_EX_TRUEDIV ? Op::divide
          : e.op == TN_EX_POW     ? Op::power
          : e.op == TN_EX_MIN     ? Op::minimum
          : e.op == TN_EX_MAX     ? Op::maximum
                                  : Op::constant;
  if (op == Op::constant)
    throw declined(text("a number is an expression of kind {}, which is not compiled", e.op));
  uint32_t out = place_of(e.arguments()[0]);
  for (uint32_t operand : e.arguments().subspan(1))
    out = add_real({op, 0, none, out, place_of(operand)});
  return out;
}

uint32_t Arguments::add_real(Real r) {
  reals_.push_back(r);
  return static_cast<uint32_t>(x_.symbols.size() + reals_.size() - 1);
}

int64_t int_arg(const tn_arg& a) {
  if (a.kind == TN_ARG_INT || a.kind == TN_ARG_BOOL || a.kind == TN_ARG_DTYPE) return a.u.i;
  if (a.kind == TN_ARG_SYMINT && a.u.sym.expr == TN_EXPR_STATIC) return a.u.sym.value;
  throw declined("an argument is not a constant integer");
}

size_t dimension(int64_t d, size_t ndim) {
  auto n = static_cast<int64_t>(ndim);
  if (d < -n || d >= n) throw declined("a dimension is out of range");
  return static_cast<size_t>(d < 0 ? d + n : d);
}

std::vector<int64_t> int_list(const tn_arg& a) {
  if (a.kind == TN_ARG_INTS) return {a.u.ints, a.u.ints + a.count};
  if (a.kind == TN_ARG_NONE) return {};
  std::vector<int64_t> out;
  if (a.kind != TN_ARG_SYMINTS) return {int_arg(a)};
  for (uint32_t i = 0; i < a.count; ++i) {
    if (a.u.syms[i].expr != TN_EXPR_STATIC) throw declined("an argument is not a constant integer");
    out.push_back(a.u.syms[i].value);
  }
  return out;
}

std::vector<int64_t> int_list(const tn_arg& a, size_t n) {
  std::vector<int64_t> out = int_list(a);
  if (out.size() == 1) out.resize(n, out[0]);
  return out;
}

double number_arg(const tn_arg& a) {
  return a.kind == TN_ARG_FLOAT ? a.u.f : static_cast<double>(int_arg(a));
}

bool see_symbols(const tenon::plugin::graph& g, uint32_t value, std::set<uint32_t>& seen) {
  auto see = [&](uint32_t expr) {
    return expr != TN_EXPR_STATIC && g.expr(expr).op == TN_EX_SYMBOL && seen.insert(expr).second;
  };
  auto v = g.value_at(value);
  bool is_number = v.kind == TN_VAL_SYMINT || v.kind == TN_VAL_SYMFLOAT;
  if (!v.is_tensor()) return is_number && see(v.expr);
  bool is_first = false;
  for (const tn_dim& d : v.dims()) is_first |= see(d.expr);
  for (const tn_dim& d : v.stride_dims()) is_first |= see(d.expr);
  return is_first;
}

}  // namespace loopir
