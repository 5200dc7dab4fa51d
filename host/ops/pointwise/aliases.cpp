// Second names of pointwise ops, and forms of them that take a number first.
#include "core/sym/sym_int.h"
#include "ops/op.h"
#include "ops/pointwise/by_element.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

using Rounding = std::optional<std::string_view>;
}  // namespace

static constexpr OpDef pointwise_aliases_rows[] = {
    {.schema = "absolute(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return abs(x); }},
    {.schema = "negative(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return neg(x); }},
    {.schema = "fix(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return trunc(x); }},
    {.schema = "arccos(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return acos(x); }},
    {.schema = "arccosh(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return acosh(x); }},
    {.schema = "arcsin(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return asin(x); }},
    {.schema = "arcsinh(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return asinh(x); }},
    {.schema = "arctan(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return atan(x); }},
    {.schema = "arctanh(Tensor self) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& x) { return atanh(x); }},
    {.schema = "arctan2(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& y, const Tensor& x) { return atan2(y, x); }},
    {.schema = "subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& a, const Tensor& b, Number alpha) { return sub(a, b, alpha); }},
    {.schema = "subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& a, Number b, Number alpha) { return sub(a, b, alpha); }},
    {.schema = "divide.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& a, const Tensor& b) { return div(a, b); }},
    {.schema = "divide.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& a, Number b) { return div(a, b); }},
    {.schema = "divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& a, const Tensor& b, Rounding mode) { return div(a, b, mode); }},
    {.schema = "divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
     .variants = in_place,
     .decomp = [](const Tensor& a, Number b, Rounding mode) { return div(a, b, mode); }},
    {.schema = "special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor",
     .decomp = [](Number s, const Tensor& q) { return special_zeta(as_tensor(s, q), q); }},
    {.schema = "special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor",
     .decomp = [](const Tensor& s, Number q) { return special_zeta(s, as_tensor(q, s)); }},
    {.schema = "special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor",
     .decomp = [](Number x, const Tensor& y) { return special_xlog1py(as_tensor(x, y), y); }},
    {.schema = "special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor",
     .decomp = [](Number x, const Tensor& y) { return xlogy(as_tensor(x, y), y); }},
    {.schema = "special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor",
     .decomp = [](const Tensor& x, Number y) { return xlogy(x, as_tensor(y, x)); }},
    {.schema = "chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
     .decomp = [](const Tensor& x, std::optional<MemoryFormat>) { return to(x, Dtype::c32); }},
};

extern constinit const OpFamily op_family_pointwise_aliases{pointwise_aliases_rows};

}  // namespace tenon::ops
