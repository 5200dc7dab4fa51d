// Arithmetic on symbolic numbers, as nodes of imported graphs. Plain and symbolic numbers mean the
// same, so meta and kernel are one function.
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "ops/op.h"
#include "ops/shapes.h"

namespace tenon::ops {

namespace {

bool any_float(Number a, Number b) { return a.is_floating() || b.is_floating(); }

Number arithmetic(SymOp op, Number a, Number b) {
  if (any_float(a, b)) {
    SymFloat x = a.sym_float(), y = b.sym_float();
    return sym_float_op(op, x, y);
  }
  SymInt x = a.sym_int(), y = b.sym_int();
  switch (op) {
    case SymOp::add:
      return x + y;
    case SymOp::mul:
      return x * y;
    case SymOp::floordiv:
      return x / y;
    case SymOp::mod:
      return x % y;
    case SymOp::min:
      return sym_min(x, y);
    case SymOp::max:
      return sym_max(x, y);
    default:
      return sym_pow(x, y);
  }
}

SymBool compare(SymOp op, Number a, Number b) {
  if (any_float(a, b)) return sym_float_compare(op, a.sym_float(), b.sym_float());
  SymInt x = a.sym_int(), y = b.sym_int();
  switch (op) {
    case SymOp::eq:
      return x == y;
    case SymOp::ne:
      return x != y;
    case SymOp::lt:
      return x < y;
    default:
      return x <= y;
  }
}

Number chosen(Number condition, Number a, Number b) {
  require(!any_float(a, b), ErrorCode::unsupported,
          "sym.ite: a choice between real numbers is not supported; expected integers");
  return sym_select(condition.sym_bool(), a.sym_int(), b.sym_int());
}

Number negate(Number a) { return arithmetic(SymOp::mul, a, Number(-1)); }

}  // namespace

static constexpr OpDef sym_scalar_rows[] = {
    {.schema = "sym::add(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::add, a, b); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::add, a, b); }},
    {.schema = "sym::sub(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::add, a, negate(b)); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::add, a, negate(b)); }},
    {.schema = "sym::mul(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::mul, a, b); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::mul, a, b); }},
    {.schema = "sym::floordiv(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::floordiv, a, b); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::floordiv, a, b); }},
    {.schema = "sym::mod(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::mod, a, b); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::mod, a, b); }},
    {.schema = "sym::pow(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::pow, a, b); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::pow, a, b); }},
    {.schema = "sym::min(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::min, a, b); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::min, a, b); }},
    {.schema = "sym::max(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return arithmetic(SymOp::max, a, b); },
     .eager = [](Number a, Number b) { return arithmetic(SymOp::max, a, b); }},
    {.schema = "sym::truediv(Scalar a, Scalar b) -> Scalar",
     .meta =
         [](Number a, Number b) {
           if (any_float(a, b))
             return Number(sym_float_op(SymOp::truediv, a.sym_float(), b.sym_float()));
           return Number(sym_truediv(a.sym_int(), b.sym_int()));
         },
     .eager = [](Number a, Number b) { return Number(a.to_double() / b.to_double()); }},
    {.schema = "sym::neg(Scalar a) -> Scalar",
     .meta = [](Number a) { return negate(a); },
     .eager = [](Number a) { return negate(a); }},
    {.schema = "sym::pos(Scalar a) -> Scalar",
     .meta = [](Number a) { return a; },
     .eager = [](Number a) { return a; }},
    {.schema = "sym::eq(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(compare(SymOp::eq, a, b)); },
     .eager = [](Number a, Number b) { return Number(compare(SymOp::eq, a, b)); }},
    {.schema = "sym::ne(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(compare(SymOp::ne, a, b)); },
     .eager = [](Number a, Number b) { return Number(compare(SymOp::ne, a, b)); }},
    {.schema = "sym::lt(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(compare(SymOp::lt, a, b)); },
     .eager = [](Number a, Number b) { return Number(compare(SymOp::lt, a, b)); }},
    {.schema = "sym::le(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(compare(SymOp::le, a, b)); },
     .eager = [](Number a, Number b) { return Number(compare(SymOp::le, a, b)); }},
    {.schema = "sym::gt(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(compare(SymOp::lt, b, a)); },
     .eager = [](Number a, Number b) { return Number(compare(SymOp::lt, b, a)); }},
    {.schema = "sym::ge(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(compare(SymOp::le, b, a)); },
     .eager = [](Number a, Number b) { return Number(compare(SymOp::le, b, a)); }},
    {.schema = "sym::and_(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(a.sym_bool() & b.sym_bool()); },
     .eager = [](Number a, Number b) { return Number(a.sym_bool() & b.sym_bool()); }},
    {.schema = "sym::or_(Scalar a, Scalar b) -> Scalar",
     .meta = [](Number a, Number b) { return Number(a.sym_bool() | b.sym_bool()); },
     .eager = [](Number a, Number b) { return Number(a.sym_bool() | b.sym_bool()); }},
    {.schema = "sym::not_(Scalar a) -> Scalar",
     .meta = [](Number a) { return Number(!a.sym_bool()); },
     .eager = [](Number a) { return Number(!a.sym_bool()); }},
    {.schema = "sym::ite(Scalar condition, Scalar a, Scalar b) -> Scalar",
     .meta = [](Number c, Number a, Number b) { return chosen(c, a, b); },
     .eager = [](Number c, Number a, Number b) { return chosen(c, a, b); }},
    {.schema = "sym::to_float(Scalar a) -> Scalar",
     .meta = [](Number a) { return Number(a.sym_float()); },
     .eager = [](Number a) { return Number(a.sym_float()); }},
    {.schema = "sym::to_int(Scalar a) -> Scalar",
     .meta = [](Number a) { return Number(a.sym_int()); },
     .eager = [](Number a) { return Number(a.sym_int()); }},
    {.schema = "sym::sqrt(Scalar a) -> Scalar",
     .meta =
         [](Number a) { return Number(sym_float_op(SymOp::pow, a.sym_float(), SymFloat(0.5))); },
     .eager =
         [](Number a) { return Number(sym_float_op(SymOp::pow, a.sym_float(), SymFloat(0.5))); }},
};

extern constinit const OpFamily op_family_sym_scalar{sym_scalar_rows};

}  // namespace tenon::ops
