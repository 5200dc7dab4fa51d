// Symbolic expressions of archives: one that is taken has a text, which gives it again, and a value
// or none.
#include "formats/pt2/pt2_expr.h"
#include "harness/fuzz.h"

using namespace tenon;
using namespace tenon::formats;

TENON_FUZZ_TARGET(sym_expr) {
  Pt2Expressions expressions;
  auto place = [&](std::string_view name) { return expressions.symbol(name); };
  fuzz::accepts({ErrorCode::bad_file}, [&] {
    const Expr* expr = expressions.read_guard(input, place);
    if (!expr) return;
    fuzz::check_shown(expressions.env()->text(expr));
    for (int64_t value : {int64_t{0}, int64_t{3}, INT64_MIN, INT64_MAX})
      evaluate(expr, [&](const Expr* symbol) -> std::optional<SymValue> {
        bool real = symbol->kind == ExprKind::real;
        return real ? SymValue::of_real(static_cast<double>(value)) : SymValue::of_int(value);
      });
  });
}
