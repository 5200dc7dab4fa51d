// Unary mathematics: one value in, one out, same shape.
#include "ops/op.h"

#include <tenon/ops.h>

namespace tenon::ops {

static constexpr OpDef rows[] = {
    {.schema = "abs(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise<numbers>([](auto x) { return abs(x); })},
    {.schema = "neg(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise<numbers>([](auto x) { return -x; })},
    {.schema = "sign(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise<all>([](auto x) { return sign(x); })},
    {.schema = "sgn(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise<all>([](auto x) { return sign(x); })},
    {.schema = "positive(Tensor(a) self) -> Tensor(a)", .decomp = [](const Tensor& x) { return x.alias(); }},
    {.schema = "square(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise<numbers>([](auto x) { return x * x; })},
    {.schema = "reciprocal(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return 1 / x; })},
    {.schema = "sqrt(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return sqrt(x); })},
    {.schema = "rsqrt(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return rsqrt(x); })},
    {.schema = "exp(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return exp(x); })},
    {.schema = "exp2(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return exp2(x); })},
    {.schema = "expm1(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return expm1(x); })},
    {.schema = "log(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return log(x); })},
    {.schema = "log2(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return log2(x); })},
    {.schema = "log10(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return log10(x); })},
    {.schema = "log1p(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return log1p(x); })},
    {.schema = "sin(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return sin(x); })},
    {.schema = "cos(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return cos(x); })},
    {.schema = "tan(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return tan(x); })},
    {.schema = "asin(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return asin(x); })},
    {.schema = "acos(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return acos(x); })},
    {.schema = "atan(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return atan(x); })},
    {.schema = "sinh(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return sinh(x); })},
    {.schema = "cosh(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return cosh(x); })},
    {.schema = "tanh(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return tanh(x); })},
    {.schema = "asinh(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return asinh(x); })},
    {.schema = "acosh(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return acosh(x); })},
    {.schema = "atanh(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return atanh(x); })},
    {.schema = "sigmoid(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return sigmoid(x); })},
    {.schema = "erf(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise([](auto x) { return erf(x); })},
    {.schema = "erfc(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return erfc(x); })},
    {.schema = "erfinv(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return erfinv(x); })},
    {.schema = "lgamma(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return lgamma(x); })},
    {.schema = "digamma(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return digamma(x); })},
    {.schema = "floor(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise<numbers>([](auto x) { return floor(x); })},
    {.schema = "ceil(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise<numbers>([](auto x) { return ceil(x); })},
    {.schema = "trunc(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise<numbers>([](auto x) { return trunc(x); })},
    {.schema = "round(Tensor self) -> Tensor", .variants = in_place, .core = true,
     .formula = pointwise<numbers>([](auto x) { return round(x); })},
    {.schema = "frac(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return x - trunc(x); })},
    {.schema = "deg2rad(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return x * 0.017453292519943295769; })},
    {.schema = "rad2deg(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) { return x * 57.295779513082320877; })},
    {.schema = "logit(Tensor self, float? eps=None) -> Tensor", .variants = in_place,
     .formula = by_presence({
         {0, pointwise([](auto x) { return log(x / (1 - x)); })},
         {1, pointwise([](auto x, auto eps) {
            auto z = select(x < eps, eps, select(x > 1 - eps, 1 - eps, x));
            return log(z / (1 - z));
          })}})},
    {.schema = "sinc(Tensor self) -> Tensor", .variants = in_place,
     .formula = pointwise([](auto x) {
       auto p = x * 3.14159265358979323846;
       return select(x == 0, 1, sin(p) / p);
     })},
    {.schema = "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
     .decomp = [](const Tensor& x, std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf) {
       if (!is_floating(x.dtype())) return x.clone();
       double largest = x.dtype() == Dtype::f64 ? 1.7976931348623157e308 : x.dtype() == Dtype::f16 ? 65504
                        : x.dtype() == Dtype::bf16 ? 3.3895313892515355e38 : 3.4028234663852886e38;
       Tensor y = where(x.isnan(), Number(nan.value_or(0)), x);
       y = where(x == Number(1 / 0.0), Number(posinf.value_or(largest)), y);
       return where(x == Number(-1 / 0.0), Number(neginf.value_or(-largest)), y);
     }},
};

extern constinit const OpFamily op_family_pointwise_math{rows};

}  // namespace tenon::ops
