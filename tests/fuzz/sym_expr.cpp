// Symbolic expressions of archives: one that is taken has a text and a value, or no value.
#include "formats/pt2/pt2_expr.h"
#include "harness/fuzz.h"

using namespace tenon;
using namespace tenon::formats;

namespace {

void check_expression(SymExprPtr (*parse)(std::string_view), std::string_view text) {
  fuzz::accepts({ErrorCode::bad_file}, [&] {
    SymExprPtr expr = parse(text);
    fuzz::check_shown(to_text(*expr));
    for (int64_t value : {int64_t{0}, int64_t{3}, INT64_MIN, INT64_MAX})
      fuzz::accepts({ErrorCode::bad_file},
                    [&] { evaluate(*expr, [&](const SymExprAst&) { return SymNumber(value); }); });
  });
}

}  // namespace

TENON_FUZZ_TARGET(sym_expr) {
  check_expression(parse_srepr, input);
  check_expression(parse_infix, input);
}
