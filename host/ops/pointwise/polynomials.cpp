// Orthogonal polynomials of a degree that is an element, too: Chebyshev, Hermite, Laguerre, Legendre.
//
// Method: the recurrence of three terms; Chebyshev's by angles inside of [-1, 1] for high degrees.
// A degree is cut to a whole number, a negative one gives 0. Cost: one step a degree, so degrees
// above 100000 are not computed but for Chebyshev's inside of [-1, 1]: they give NaN.
#include "ops/op.h"
#include "ops/pointwise/by_element.h"

#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

constexpr double highest_degree = 100000;

/// p(0), p(1) and p(k) = next(k, p(k - 1), p(k - 2)).
template <class Next>
double recurrence(double n, double first, double second, const Next& next) {
  if (!(n >= 1)) return std::isnan(n) ? n : n > -1 ? first : 0;
  if (n >= highest_degree) return std::numeric_limits<double>::quiet_NaN();
  double before = first, now = second;
  for (double k = 2; k <= std::trunc(n) && !std::isnan(now); ++k) {
    double value = next(k, now, before);
    before = now;
    now = value;
  }
  return now;
}

bool is_even(double n) { return std::fmod(std::trunc(n), 2) == 0; }
bool by_angle(double x, double n) { return n >= 7 && std::abs(x) < 1; }

double chebyshev(double x, double n, double second) {
  return recurrence(n, 1, second, [x](double, double p, double q) { return 2 * x * p - q; });
}

double chebyshev_t(double x, double n) {
  double degree = std::trunc(n);
  if (std::abs(x) == 1 && n >= 0) return x > 0 || is_even(n) ? 1 : -1;
  return by_angle(x, n) ? std::cos(degree * std::acos(x)) : chebyshev(x, n, x);
}

double chebyshev_u(double x, double n) {
  double degree = std::trunc(n);
  if (std::abs(x) == 1 && n >= 0) return (x > 0 || is_even(n) ? 1 : -1) * (degree + 1);
  if (!by_angle(x, n)) return chebyshev(x, n, 2 * x);
  double angle = std::acos(x);
  return std::sin((degree + 1) * angle) / std::sin(angle);
}

double chebyshev_v(double x, double n) {
  double degree = std::trunc(n);
  if (x == 1 && n >= 0) return 1;
  if (x == -1 && n >= 0) return (is_even(n) ? 1 : -1) * (2 * degree + 1);
  if (!by_angle(x, n)) return chebyshev(x, n, 2 * x - 1);
  double angle = std::acos(x);
  return std::cos((degree + 0.5) * angle) / std::cos(angle / 2);
}

double chebyshev_w(double x, double n) {
  double degree = std::trunc(n);
  if (x == 1 && n >= 0) return 2 * degree + 1;
  if (x == -1 && n >= 0) return is_even(n) ? 1 : -1;
  if (!by_angle(x, n)) return chebyshev(x, n, 2 * x + 1);
  double angle = std::acos(x);
  return std::sin((degree + 0.5) * angle) / std::sin(angle / 2);
}

/// On [0, 1] in the place of [-1, 1].
template <double (*polynomial)(double, double)>
double shifted(double x, double n) {
  return polynomial(2 * x - 1, n);
}

double hermite_h(double x, double n) {
  return recurrence(n, 1, 2 * x,
                    [x](double k, double p, double q) { return 2 * (x * p - (k - 1) * q); });
}

double hermite_he(double x, double n) {
  return recurrence(n, 1, x, [x](double k, double p, double q) { return x * p - (k - 1) * q; });
}

double laguerre(double x, double n) {
  return recurrence(n, 1, 1 - x, [x](double k, double p, double q) {
    return ((2 * k - 1 - x) * p - (k - 1) * q) / k;
  });
}

double legendre(double x, double n) {
  if (std::abs(x) == 1 && n >= 0) return x > 0 || is_even(n) ? 1 : -1;
  return recurrence(n, 1, x, [x](double k, double p, double q) {
    return ((2 * k - 1) * x * p - (k - 1) * q) / k;
  });
}

}  // namespace

static constexpr OpDef pointwise_polynomials_rows[] = {
    {.schema = "special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<chebyshev_t>},
    {.schema = "special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_chebyshev_polynomial_t(as_tensor(x, n), n); }},
    {.schema = "special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_chebyshev_polynomial_t(x, as_tensor(n, x)); }},
    {.schema = "special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<chebyshev_u>},
    {.schema = "special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_chebyshev_polynomial_u(as_tensor(x, n), n); }},
    {.schema = "special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_chebyshev_polynomial_u(x, as_tensor(n, x)); }},
    {.schema = "special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<chebyshev_v>},
    {.schema = "special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_chebyshev_polynomial_v(as_tensor(x, n), n); }},
    {.schema = "special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_chebyshev_polynomial_v(x, as_tensor(n, x)); }},
    {.schema = "special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<chebyshev_w>},
    {.schema = "special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_chebyshev_polynomial_w(as_tensor(x, n), n); }},
    {.schema = "special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_chebyshev_polynomial_w(x, as_tensor(n, x)); }},
    {.schema = "special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<shifted<chebyshev_t>>},
    {.schema = "special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp =
         [](Number x, const Tensor& n) {
           return special_shifted_chebyshev_polynomial_t(as_tensor(x, n), n);
         }},
    {.schema = "special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_shifted_chebyshev_polynomial_t(x, as_tensor(n, x)); }},
    {.schema = "special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<shifted<chebyshev_u>>},
    {.schema = "special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp =
         [](Number x, const Tensor& n) {
           return special_shifted_chebyshev_polynomial_u(as_tensor(x, n), n);
         }},
    {.schema = "special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_shifted_chebyshev_polynomial_u(x, as_tensor(n, x)); }},
    {.schema = "special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<shifted<chebyshev_v>>},
    {.schema = "special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp =
         [](Number x, const Tensor& n) {
           return special_shifted_chebyshev_polynomial_v(as_tensor(x, n), n);
         }},
    {.schema = "special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_shifted_chebyshev_polynomial_v(x, as_tensor(n, x)); }},
    {.schema = "special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<shifted<chebyshev_w>>},
    {.schema = "special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp =
         [](Number x, const Tensor& n) {
           return special_shifted_chebyshev_polynomial_w(as_tensor(x, n), n);
         }},
    {.schema = "special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_shifted_chebyshev_polynomial_w(x, as_tensor(n, x)); }},
    {.schema = "special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<hermite_h>},
    {.schema = "special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_hermite_polynomial_h(as_tensor(x, n), n); }},
    {.schema = "special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_hermite_polynomial_h(x, as_tensor(n, x)); }},
    {.schema = "special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<hermite_he>},
    {.schema = "special_hermite_polynomial_he.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_hermite_polynomial_he(as_tensor(x, n), n); }},
    {.schema = "special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_hermite_polynomial_he(x, as_tensor(n, x)); }},
    {.schema = "special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<laguerre>},
    {.schema = "special_laguerre_polynomial_l.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_laguerre_polynomial_l(as_tensor(x, n), n); }},
    {.schema = "special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_laguerre_polynomial_l(x, as_tensor(n, x)); }},
    {.schema = "special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor",
     .meta = binary_float_meta,
     .eager = combine_kernel<legendre>},
    {.schema = "special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n) -> Tensor",
     .decomp = [](Number x,
                  const Tensor& n) { return special_legendre_polynomial_p(as_tensor(x, n), n); }},
    {.schema = "special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n) -> Tensor",
     .decomp = [](const Tensor& x,
                  Number n) { return special_legendre_polynomial_p(x, as_tensor(n, x)); }},
};

extern constinit const OpFamily op_family_pointwise_polynomials{pointwise_polynomials_rows};

}  // namespace tenon::ops
