// Bessel functions of order 0 and 1, and Airy's Ai.
//
// Model: J and Y of the C library; I of special_functions.h; K and Ai through the C++ library's
// functions of fractional order, with the expansion in 1/x where those under- or overflow
// (Abramowitz and Stegun 9.7.2, 10.4.14 and 10.4.15).
#include "ops/op.h"
#include "ops/pointwise/by_element.h"
#include "ops/pointwise/special_functions.h"

#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace tenon::ops {

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

double bessel_j0(double x) { return ::j0(x); }
double bessel_j1(double x) { return ::j1(x); }
double bessel_y0(double x) { return x == 0 ? -infinite : x < 0 ? not_a_number : ::y0(x); }
double bessel_y1(double x) { return x == 0 ? -infinite : x < 0 ? not_a_number : ::y1(x); }

// exp(x) K(x) for large x: terms of (4 order^2 - 1^2)(4 order^2 - 3^2) ... / (k! (8x)^k).
double expanded_k(double order, double x) {
  double term = 1, sum = 1;
  for (int k = 1; k <= 20; ++k) {
    double odd = 2 * k - 1, next = term * (4 * order * order - odd * odd) / (k * 8 * x);
    if (std::abs(next) >= std::abs(term)) break;
    sum += term = next;
  }
  return std::sqrt(std::numbers::pi / (2 * x)) * sum;
}

template <int order>
double scaled_k(double x) {
  if (x == 0) return infinite;
  if (!(x > 0)) return not_a_number;
  if (std::isinf(x)) return 0;
  return x > 30 ? expanded_k(order, x) : std::exp(x) * std::cyl_bessel_k(order, x);
}

template <int order>
double plain_k(double x) {
  if (x == 0) return infinite;
  if (!(x > 0)) return not_a_number;
  return x > 30 ? std::exp(-x) * scaled_k<order>(x) : std::cyl_bessel_k(order, x);
}

double spherical_j0(double x) {
  if (std::isinf(x)) return 0;
  return std::abs(x) < 0.5 ? 1 - x * x / 6 * (1 - x * x / 20 * (1 - x * x / 42 * (1 - x * x / 72)))
                           : std::sin(x) / x;
}

double airy_ai(double x) {
  constexpr double third = 1.0 / 3;
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0;
  if (std::abs(x) < 1e-8) return 0.35502805388781723926 - 0.25881940379280679841 * x;
  double size = std::abs(x), root = std::sqrt(size), z = 2 * third * size * root;
  if (x > 0) {
    double k = z > 30 ? std::exp(-z) * expanded_k(third, z) : std::cyl_bessel_k(third, z);
    return std::numbers::inv_pi * std::sqrt(size / 3) * k;
  }
  return root / 2 *
         (std::cyl_bessel_j(third, z) - std::cyl_neumann(third, z) * std::numbers::inv_sqrt3);
}

// Of a function of order 1: that of order 0 less the function over x. Both odd ones begin with x/2.
Tensor order_1_vjp(const Tensor& g, const Tensor& order_0, const Tensor& y, const Tensor& x) {
  return g.mul(order_0.sub(y.div(x)));
}

Tensor odd_order_1_vjp(const Tensor& g, const Tensor& order_0, const Tensor& y, const Tensor& x) {
  return where(x.eq(0), g.mul(0.5), order_1_vjp(g, order_0, y, x));
}

}  // namespace

static constexpr OpDef pointwise_bessel_rows[] = {
    {.schema = "special_bessel_j0(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<bessel_j0>,
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) { return g.mul(special_bessel_j1(x)).neg(); }}}},
    {.schema = "special_bessel_j1(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<bessel_j1>,
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return odd_order_1_vjp(g, special_bessel_j0(x), y, x);
              }}}},
    {.schema = "special_bessel_y0(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<bessel_y0>,
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) { return g.mul(special_bessel_y1(x)).neg(); }}}},
    {.schema = "special_bessel_y1(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<bessel_y1>,
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return order_1_vjp(g, special_bessel_y0(x), y, x);
              }}}},
    {.schema = "special_modified_bessel_i0(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<bessel_i0>,
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) {
                return g.mul(special_modified_bessel_i1(x));
              }}}},
    {.schema = "special_modified_bessel_i1(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<bessel_i1>,
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return odd_order_1_vjp(g, special_modified_bessel_i0(x), y, x);
              }}}},
    {.schema = "special_modified_bessel_k0(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<plain_k<0>>,
     .vjp = {{"self", "grad, self",
              [](const Tensor& g, const Tensor& x) {
                return g.mul(special_modified_bessel_k1(x)).neg();
              }}}},
    {.schema = "special_modified_bessel_k1(Tensor self) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<plain_k<1>>,
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return order_1_vjp(g, special_modified_bessel_k0(x).neg(), y, x);
              }}}},
    {.schema = "special_scaled_modified_bessel_k0(Tensor x) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<scaled_k<0>>},
    {.schema = "special_scaled_modified_bessel_k1(Tensor x) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<scaled_k<1>>},
    {.schema = "special_spherical_bessel_j0(Tensor x) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<spherical_j0>},
    {.schema = "special_airy_ai(Tensor x) -> Tensor",
     .meta = float_meta,
     .eager = map_kernel<airy_ai>},
};

extern constinit const OpFamily op_family_pointwise_bessel{pointwise_bessel_rows};

}  // namespace tenon::ops
