// Arithmetic of two values, with broadcasting and promotion; minimum, maximum, clamp and
// interpolation.
#include "core/scalar/fast_formulas.h"
#include "ops/forms/complex_forms.h"
#include "ops/op.h"
#include "ops/pointwise/by_element.h"
#include "ops/promotion.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <cmath>

namespace tenon::ops {

namespace {

constexpr Formula clamp_formula = by_presence(
    {{1, pointwise<all>([](auto x, auto lo) { return max(x, lo); })},
     {2, pointwise<all>([](auto x, auto hi) { return min(x, hi); })},
     {3, pointwise<all>([](auto x, auto lo, auto hi) { return min(max(x, lo), hi); })}});

constexpr Formula div_mode_formula =
    by_arg("rounding_mode",
           {{"none", pointwise([](auto x, auto y) { return x / y; })},
            {"trunc", pointwise<numbers>([](auto x, auto y) { return truncdiv(x, y); })},
            {"floor", pointwise<numbers>([](auto x, auto y) { return floordiv(x, y); })}});

// fmax and fmin give the first argument where it wins, and where the other one is NaN.
Tensor is_first(const Tensor& wins, const Tensor& other) { return wins.logical_or(other.isnan()); }

// NaN lies nowhere, so it has no gradient.
Tensor outside(const Tensor& x, std::optional<Number> low, std::optional<Number> high) {
  Tensor inside = low ? x.ge(*low) : x.le(*high);
  if (low && high) inside = inside.logical_and(x.le(*high));
  return inside.logical_not();
}

// The gradient of x log(y) for x: where x is 0 it counts for y that have a logarithm.
Tensor log_where_it_counts(const Tensor& g, const Tensor& x, const Tensor& y) {
  return xlogy(g, y).masked_fill(x.eq(0).logical_and(y.le(0)), 0);
}

// 0 at the origin, where no angle is.
Tensor one_over_square_of_length(const Tensor& y, const Tensor& x) {
  auto wide = [](const Tensor& t) { return itemsize(t.dtype()) < 4 ? t.to(Dtype::f32) : t; };
  Tensor square = wide(y).mul(wide(y)).add(wide(x).mul(wide(x)));
  return square.reciprocal().masked_fill(square.eq(0), 0);
}

}  // namespace

static constexpr OpDef pointwise_arithmetic_rows[] = {
    {.schema = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .tags = OpTags::commutative,
     .core = true,
     .formula = pointwise<all>([](auto x, auto y, auto alpha) { return x + y * alpha; }),
     .complex = fn<complex_add>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }},
             {"other", "grad, alpha",
              [](const Tensor& g, Number alpha) { return scaled(g, alpha); }}}},
    {.schema = "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<all>([](auto x, auto y, auto alpha) { return x + y * alpha; }),
     .complex = fn<complex_add_number>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }}}},
    {.schema = "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y, auto alpha) { return x - y * alpha; }),
     .complex = fn<complex_sub>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }},
             {"other", "grad, alpha",
              [](const Tensor& g, Number alpha) { return scaled(g.neg(), alpha); }}}},
    {.schema = "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y, auto alpha) { return x - y * alpha; }),
     .complex = fn<complex_sub_number>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }}}},
    {.schema = "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
     .formula = pointwise<numbers>([](auto x, auto y, auto alpha) { return y - x * alpha; }),
     .complex = [](const Tensor& self, const Tensor& other,
                   Number alpha) { return complex_sub(other, self, alpha); }},
    {.schema = "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
     .formula = pointwise<numbers>([](auto x, auto y, auto alpha) { return y - x * alpha; }),
     .complex =
         [](const Tensor& self, Number other, Number alpha) {
           return complex_add_number(complex_mul_number(self, alpha).neg(), other, 1);
         }},
    {.schema = "mul.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .tags = OpTags::commutative,
     .core = true,
     .formula = pointwise<all>([](auto x, auto y) { return x * y; }),
     .complex = fn<complex_mul>,
     .vjp = {{"self", "grad, other", [](const Tensor& g, const Tensor& b) { return g.mul(b); }},
             {"other", "grad, self", [](const Tensor& g, const Tensor& a) { return g.mul(a); }}}},
    {.schema = "mul.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<all>([](auto x, auto y) { return x * y; }),
     .complex = fn<complex_mul_number>,
     .vjp = {{"self", "grad, other", [](const Tensor& g, Number b) { return g.mul(b); }}}},
    {.schema = "multiply.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .formula = pointwise<all>([](auto x, auto y) { return x * y; }),
     .complex = fn<complex_mul>},
    {.schema = "multiply.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .formula = pointwise<all>([](auto x, auto y) { return x * y; }),
     .complex = fn<complex_mul_number>},
    {.schema = "div.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise([](auto x, auto y) { return x / y; }),
     .complex = fn<complex_div>,
     .vjp = {{"self", "grad, other", [](const Tensor& g, const Tensor& b) { return g.div(b); }},
             {"other", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.neg().mul(a.div(b).div(b)); }}}},
    {.schema = "div.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise([](auto x, auto y) { return x / y; }),
     .complex = fn<complex_div_number>,
     .vjp = {{"self", "grad, other", [](const Tensor& g, Number b) { return g.div(b); }}}},
    {.schema = "true_divide.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x, auto y) { return x / y; }),
     .complex = fn<complex_div>},
    {.schema = "true_divide.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x, auto y) { return x / y; }),
     .complex = fn<complex_div_number>},
    {.schema = "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = div_mode_formula},
    {.schema = "floor_divide(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .formula = pointwise<numbers>([](auto x, auto y) { return floordiv(x, y); }),
     .vjp = nondiff},
    {.schema = "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y) { return fmod(x, y); })},
    {.schema = "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y) { return mod(x, y); })},
    {.schema = "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = div_mode_formula},
    {.schema = "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .formula = pointwise<numbers>([](auto x, auto y) { return floordiv(x, y); }),
     .vjp = nondiff},
    {.schema = "fmod.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y) { return fmod(x, y); })},
    {.schema = "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y) { return mod(x, y); })},
    {.schema = "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
     .formula = pointwise<numbers>([](auto x, auto y) { return mod(x, y); })},
    {.schema = "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y) { return pow(x, y); })},
    {.schema = "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
     .core = true,
     .formula = pointwise<all>([](auto x, auto y) { return pow(x, y); }),
     .complex = fn<complex_pow>},
    {.schema = "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
     .core = true,
     .formula = pointwise<numbers>([](auto x, auto y) { return pow(x, y); })},
    {.schema = "maximum(Tensor self, Tensor other) -> Tensor",
     .core = true,
     .formula = pointwise<all>([](auto x, auto y) { return max(x, y); })},
    {.schema = "minimum(Tensor self, Tensor other) -> Tensor",
     .core = true,
     .formula = pointwise<all>([](auto x, auto y) { return min(x, y); })},
    {.schema = "max.other(Tensor self, Tensor other) -> Tensor",
     .formula = pointwise<all>([](auto x, auto y) { return max(x, y); })},
    {.schema = "min.other(Tensor self, Tensor other) -> Tensor",
     .formula = pointwise<all>([](auto x, auto y) { return min(x, y); })},
    {.schema = "fmax(Tensor self, Tensor other) -> Tensor",
     .formula = pointwise<all>(
         [](auto x, auto y) { return select(x != x, y, select(y != y, x, max(x, y))); }),
     .vjp = {{"self", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.masked_fill(is_first(a.ge(b), b).logical_not(), 0); }},
             {"other", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.masked_fill(is_first(a.ge(b), b), 0); }}}},
    {.schema = "fmin(Tensor self, Tensor other) -> Tensor",
     .formula = pointwise<all>(
         [](auto x, auto y) { return select(x != x, y, select(y != y, x, min(x, y))); }),
     .vjp = {{"self", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.masked_fill(is_first(a.le(b), b).logical_not(), 0); }},
             {"other", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.masked_fill(is_first(a.le(b), b), 0); }}}},
    {.schema = "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = clamp_formula,
     .vjp = {{"self", "grad, self, min, max",
              [](const Tensor& g, const Tensor& x, std::optional<Number> low,
                 std::optional<Number> high) { return g.masked_fill(outside(x, low, high), 0); }}}},
    {.schema = "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = clamp_formula,
     .vjp = {{"self", "grad, self, min, max",
              [](const Tensor& g, const Tensor& x, const Tensor& low, const Tensor& high) {
                Tensor inside = low.defined() ? x.ge(low) : x.le(high);
                if (low.defined() && high.defined()) inside = inside.logical_and(x.le(high));
                return g.masked_fill(inside.logical_not(), 0);
              }},
             {"min", "grad, self, min, max",
              [](const Tensor& g, const Tensor& x, const Tensor& low, const Tensor& high) {
                Tensor below = x.lt(low);
                if (high.defined()) below = below.logical_and(low.lt(high));
                return g.masked_fill(below.logical_not(), 0);
              }},
             {"max", "grad, self, min, max",
              [](const Tensor& g, const Tensor& x, const Tensor& low, const Tensor& high) {
                Tensor above = x.gt(high);
                if (low.defined()) above = above.logical_or(high.lt(low));
                return g.masked_fill(above.logical_not(), 0);
              }}}},
    {.schema = "clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
     .variants = in_place,
     .formula = clamp_formula},
    {.schema = "clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
     .variants = in_place,
     .formula = clamp_formula},
    {.schema = "clamp_min(Tensor self, Scalar min) -> Tensor",
     .variants = in_place,
     .formula = pointwise<all>([](auto x, auto lo) { return max(x, lo); }),
     .vjp = {{"self", "grad, self, min",
              [](const Tensor& g, const Tensor& x,
                 Number low) { return g.masked_fill(outside(x, low, std::nullopt), 0); }}}},
    {.schema = "clamp_max(Tensor self, Scalar max) -> Tensor",
     .variants = in_place,
     .formula = pointwise<all>([](auto x, auto hi) { return min(x, hi); }),
     .vjp = {{"self", "grad, self, max",
              [](const Tensor& g, const Tensor& x,
                 Number high) { return g.masked_fill(outside(x, std::nullopt, high), 0); }}}},
    {.schema = "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
     .variants = in_place,
     .formula = pointwise<all>([](auto x, auto lo) { return max(x, lo); }),
     .vjp = {{"self", "grad, self, min",
              [](const Tensor& g, const Tensor& x,
                 const Tensor& low) { return g.masked_fill(x.ge(low).logical_not(), 0); }},
             {"min", "grad, self, min",
              [](const Tensor& g, const Tensor& x,
                 const Tensor& low) { return g.masked_fill(x.lt(low).logical_not(), 0); }}}},
    {.schema = "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
     .variants = in_place,
     .formula = pointwise<all>([](auto x, auto hi) { return min(x, hi); }),
     .vjp = {{"self", "grad, self, max",
              [](const Tensor& g, const Tensor& x,
                 const Tensor& high) { return g.masked_fill(x.le(high).logical_not(), 0); }},
             {"max", "grad, self, max",
              [](const Tensor& g, const Tensor& x,
                 const Tensor& high) { return g.masked_fill(x.gt(high).logical_not(), 0); }}}},
    {.schema = "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
     .variants = in_place,
     .formula = pointwise(fast::lerp)},
    {.schema = "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
     .variants = in_place,
     .formula = pointwise(fast::lerp)},
    {.schema = "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     .variants = in_place,
     .formula =
         pointwise<numbers>([](auto x, auto a, auto b, auto value) { return x + value * a * b; })},
    {.schema = "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x, auto a, auto b, auto value) { return x + value * a / b; })},
    {.schema = "atan2(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .core = true,
     .formula = pointwise([](auto y, auto x) { return atan2(y, x); }),
     .vjp = {{"self", "grad, self, other",
              [](const Tensor& g, const Tensor& y,
                 const Tensor& x) { return g.mul(x).mul(one_over_square_of_length(y, x)); }},
             {"other", "grad, self, other",
              [](const Tensor& g, const Tensor& y,
                 const Tensor&
                     x) { return g.mul(y.neg()).mul(one_over_square_of_length(y, x)); }}}},
    {.schema = "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x, auto y) { return copysign(x, y); })},
    {.schema = "copysign.Scalar(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x, auto y) { return copysign(x, y); })},
    {.schema = "hypot(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .formula = pointwise([](auto x, auto y) {
       auto a = max(abs(x), abs(y));
       auto b = min(abs(x), abs(y));
       auto q = b / a;
       auto length =
           select(a == b, a * 1.41421356237309504880, select(b == 0, a, a * sqrt(1 + q * q)));
       // An infinite side is infinitely long whatever the other is, also where that is no number.
       return select((abs(x) == INFINITY) | (abs(y) == INFINITY), INFINITY, length);
     })},
    {.schema = "logaddexp(Tensor self, Tensor other) -> Tensor",
     .formula = pointwise([](auto x, auto y) {
       auto m = max(x, y);
       return select(x == y, x + 0.69314718055994530942, m + log1p(exp(-abs(x - y))));
     }),
     .vjp = {{"self", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.div(b.sub(a).exp().add(1)); }},
             {"other", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.div(a.sub(b).exp().add(1)); }}}},
    {.schema = "logaddexp2(Tensor self, Tensor other) -> Tensor",
     .formula = pointwise([](auto x, auto y) {
       auto m = max(x, y);
       return select(x == y, x + 1, m + log1p(exp2(-abs(x - y))) * 1.4426950408889634074);
     }),
     .vjp = {{"self", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.div(b.sub(a).exp2().add(1)); }},
             {"other", "grad, self, other",
              [](const Tensor& g, const Tensor& a,
                 const Tensor& b) { return g.div(a.sub(b).exp2().add(1)); }}}},
    {.schema = "heaviside(Tensor self, Tensor values) -> Tensor",
     .variants = in_place,
     .formula =
         pointwise<all>([](auto x, auto v) { return select(x == 0, v, select(x > 0, 1, 0)); }),
     .vjp = nondiff},
    {.schema = "xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
     .variants = in_place,
     .formula =
         pointwise([](auto x, auto y) { return select((x == 0) & (y == y), 0, x * log(y)); }),
     .vjp = {{"self", "grad, self, other", fn<log_where_it_counts>},
             {"other", "grad, self, other",
              [](const Tensor& g, const Tensor& x, const Tensor& y) { return g.mul(x).div(y); }}}},
    {.schema = "xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor",
     .variants = in_place,
     .formula =
         pointwise([](auto x, auto y) { return select((x == 0) & (y == y), 0, x * log(y)); }),
     .vjp = {{"self", "grad, self, other",
              [](const Tensor& g, const Tensor& x,
                 Number y) { return log_where_it_counts(g, x, as_tensor(y, x)); }}}},
    {.schema = "xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor",
     .formula =
         pointwise([](auto x, auto y) { return select((x == 0) & (y == y), 0, x * log(y)); })},
};

extern constinit const OpFamily op_family_pointwise_arithmetic{pointwise_arithmetic_rows};

}  // namespace tenon::ops
