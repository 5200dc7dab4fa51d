// Comparisons, logic and choice: results are bool, or one of two values.
#include "ops/forms/complex_forms.h"
#include "ops/op.h"

#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <limits>

namespace tenon::ops {

static constexpr OpDef pointwise_compare_rows[] =
    {
        {.schema = "eq.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .tags = OpTags::commutative,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x == y; }),
         .complex = fn<complex_eq>},
        {.schema = "eq.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x == y; }),
         .complex = fn<complex_eq_number>},
        {.schema = "ne.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .tags = OpTags::commutative,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x != y; }),
         .complex = fn<complex_ne>},
        {.schema = "ne.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x != y; }),
         .complex = fn<complex_ne_number>},
        {.schema = "not_equal.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x != y; })},
        {.schema = "not_equal.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x != y; })},
        {.schema = "lt.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x < y; })},
        {.schema = "lt.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x < y; })},
        {.schema = "less.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x < y; })},
        {.schema = "less.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x < y; })},
        {.schema = "le.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x <= y; })},
        {.schema = "le.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x <= y; })},
        {.schema = "less_equal.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x <= y; })},
        {.schema = "less_equal.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x <= y; })},
        {.schema = "gt.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x > y; })},
        {.schema = "gt.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x > y; })},
        {.schema = "greater.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x > y; })},
        {.schema = "greater.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x > y; })},
        {.schema = "ge.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x >= y; })},
        {.schema = "ge.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return x >= y; })},
        {.schema = "greater_equal.Tensor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x >= y; })},
        {.schema = "greater_equal.Scalar(Tensor self, Scalar other) -> Tensor",
         .variants = in_place,
         .formula = pointwise<all>([](auto x, auto y) { return x >= y; })},
        {.schema = "logical_and(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .tags = OpTags::commutative,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return (x != 0) & (y != 0); }),
         .complex = [](const Tensor& x, const Tensor& y) { return logical_and(x != 0, y != 0); }},
        {.schema = "logical_or(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .tags = OpTags::commutative,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return (x != 0) | (y != 0); }),
         .complex = [](const Tensor& x, const Tensor& y) { return logical_or(x != 0, y != 0); }},
        {.schema = "logical_xor(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .tags = OpTags::commutative,
         .core = true,
         .formula = pointwise<all>([](auto x, auto y) { return (x != 0) ^ (y != 0); }),
         .complex = [](const Tensor& x, const Tensor& y) { return logical_xor(x != 0, y != 0); }},
        {.schema = "logical_not(Tensor self) -> Tensor",
         .variants = in_place,
         .core = true,
         .formula = pointwise<all>([](auto x) { return x == 0; }),
         .complex = [](const Tensor& x) { return x == 0; }},
        {.schema = "isnan(Tensor self) -> Tensor",
         .core = true,
         .formula = pointwise<all>([](auto x) { return x != x; }),
         .complex = fn<complex_isnan>},
        {.schema = "isinf(Tensor self) -> Tensor",
         .core = true,
         .decomp =
             [](const Tensor& x) {
               if (!is_floating(x.dtype())) return zeros_like(x, Dtype::bool_);
               return x.abs() == Number(std::numeric_limits<double>::infinity());
             },
         .complex = fn<complex_isinf>},
        {.schema = "isfinite(Tensor self) -> Tensor",
         .decomp =
             [](const Tensor& x) {
               if (!is_floating(x.dtype())) return ones_like(x, Dtype::bool_);
               return x.abs() < Number(std::numeric_limits<double>::infinity());
             },
         .complex = fn<complex_isfinite>},
        {.schema = "isposinf(Tensor self) -> Tensor",
         .decomp =
             [](const Tensor& x) {
               if (!is_floating(x.dtype())) return zeros_like(x, Dtype::bool_);
               return x == Number(std::numeric_limits<double>::infinity());
             }},
        {.schema = "isneginf(Tensor self) -> Tensor",
         .decomp =
             [](const Tensor& x) {
               if (!is_floating(x.dtype())) return zeros_like(x, Dtype::bool_);
               return x == Number(-std::numeric_limits<double>::infinity());
             }},
        {.schema = "signbit(Tensor self) -> Tensor",
         .decomp =
             [](const Tensor& x) {
               if (!is_floating(x.dtype())) return x < 0;
               return copysign(ones_like(x), x) < 0;
             }},
        {.schema = "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
         .core = true,
         .formula = pointwise<all, 1>([](auto c, auto x, auto y) { return select(c, x, y); }),
         .complex = fn<complex_where>},
        {.schema = "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
         .formula = pointwise<all, 1>([](auto c, auto x, auto y) { return select(c, x, y); })},
        {.schema = "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
         .formula = pointwise<all, 1>([](auto c, auto x, auto y) { return select(c, x, y); })},
        {.schema = "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
         .formula = pointwise<all, 1>([](auto c, auto x, auto y) { return select(c, x, y); })},
        {.schema = "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, "
                   "bool equal_nan=False) -> Tensor",
         .decomp =
             [](const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
               Tensor close = x == y;
               if (!is_floating(x.dtype()) && !is_complex(x.dtype())) {
                 Tensor a = x.to(Dtype::f64), b = y.to(Dtype::f64);
                 return close.logical_or((a - b).abs() <= b.abs() * rtol + atol);
               }
               if (equal_nan) close = close.logical_or(x.isnan().logical_and(y.isnan()));
               Tensor bound = (y * rtol).abs() + atol, distance = (x - y).abs();
               return close.logical_or(distance.isfinite().logical_and(distance <= bound));
             }},
};

extern constinit const OpFamily op_family_pointwise_compare{pointwise_compare_rows};

}  // namespace tenon::ops
