// Second names of pointwise ops, and forms of them that take a number first.
#include "core/sym/sym_int.h"
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

using Rounding = std::optional<std::string_view>;

/// A number beside a tensor: it does not raise the result's dtype.
Tensor as_tensor(Number number, const Tensor& beside) {
  return scalar_tensor(number, to_float_type(beside.dtype()));
}

}  // namespace

static constexpr OpDef rows[] = {
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
    {.schema = "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
     .decomp =
         [](const Tensor& given, std::optional<SymInt> count) {
           Tensor x = given.dim() ? given : unsqueeze(given, 0);
           SymInt n = count ? *count : x.size(-1);
           require(expect_true(n > 1), "linalg_vander: N must be greater than 1, found {}", n);
           bool whole = is_integral(x.dtype()) || x.dtype() == Dtype::bool_;
           Tensor base = unsqueeze(whole ? to(x, Dtype::i64) : x, -1);
           std::vector<SymInt> sizes(x.sizes().begin(), x.sizes().end());
           sizes.push_back(n - 1);
           return cat({ones_like(base), cumprod(expand(base, sizes), -1)}, -1);
         }},
};

extern constinit const OpFamily op_family_pointwise_aliases{rows};

}  // namespace tenon::ops
