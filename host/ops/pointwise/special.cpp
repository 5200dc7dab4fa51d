// Special functions, those of two arguments that no formula says, and parts of numbers.
#include "ops/pointwise/special_functions.h"

#include "ops/op.h"
#include "ops/pointwise/by_element.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <type_traits>

namespace tenon::ops {

namespace {

constexpr auto integer_meta = [](const Tensor& self, const Tensor& other) {
  TensorMeta meta = binary_meta(self, other, false);
  require(is_integral(meta.dtype) && meta.dtype != Dtype::bool_, ErrorCode::unsupported,
          "gcd, lcm: integers are expected, found dtype {}", meta.dtype);
  return meta;
};

// The gradient of x log(1 + y) for x: where x is 0 it counts for y that have a logarithm.
Tensor log1p_where_it_counts(const Tensor& g, const Tensor& x, const Tensor& y) {
  return special_xlog1py(g, y).masked_fill(x.eq(0).logical_and(y.le(-1)), 0);
}

int64_t greatest_divisor(int64_t a, int64_t b) { return std::gcd(a, b); }
int64_t least_multiple(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? 0 : std::abs(a / std::gcd(a, b) * b);
}

// Of numbers as the result's dtype holds them: an operand without dimensions may be a wider one.
template <int64_t (*function)(int64_t, int64_t)>
constexpr auto combine_integers = [](Tensor& out, const Tensor& self, const Tensor& other) {
  combine<int64_t>(out, converted(self, out.dtype()), converted(other, out.dtype()), function);
};

// The C library's function is a call for each element, and looks at the exceptions that it raises.
// The neighbour's bits, as a magnitude, go up or down by one.
template <class T>
T neighbour(T from, T towards) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
  constexpr Bits sign = Bits{1} << (8 * sizeof(T) - 1);
  Wide x = from, y = towards;
  if (x != x || y != y) return x != x ? from : towards;
  if (x == y) return towards;
  Bits bits = std::bit_cast<Bits>(from);
  bool grows = (x < y) == (x > 0);
  bits = static_cast<Bits>(bits + 2 * static_cast<Bits>(grows) - 1);  // no branch: signs are random
  return std::bit_cast<T>(x == 0 ? static_cast<Bits>(y > 0 ? 1 : sign | 1) : bits);
}

void nextafter_kernel(Tensor& out, const Tensor& self, const Tensor& other) {
  dispatch_floating(out.dtype(), "nextafter", [&]<class T>() {
    combine<T>(out, self, other, [](T a, T b) { return neighbour(a, b); });
  });
}

// self * 2^other. A whole exponent keeps the dtype of self. It is computed in f64, where no factor
// leaves the range; of f64 itself, in three steps.
Tensor scaled_by_power(const Tensor& self, const Tensor& other) {
  bool is_whole = is_integral(other.dtype()) && other.dtype() != Dtype::bool_;
  if (!is_floating(self.dtype()) || !is_whole) return mul(self, pow(Number(2.0), other));
  const int steps = self.dtype() == Dtype::f64 ? 3 : 1;
  Tensor exponent = clamp(other.to(Dtype::f64), Number(-700.0 * steps), Number(700.0 * steps));
  Tensor result = self.to(Dtype::f64);
  for (int left = steps; left > 1; --left) {
    Tensor part = floor(exponent / double(left));
    result = result * exp2(part);
    exponent = exponent - part;
  }
  return (result * exp2(exponent)).to(self.dtype());
}

// ---- parts of numbers

std::array<TensorMeta, 2> frexp_meta(const Tensor& self) {
  require(is_floating(self.dtype()), "frexp: a floating dtype is expected, found {}", self.dtype());
  return {unary_meta(self, self.dtype()), unary_meta(self, Dtype::i32)};
}

void frexp_kernel(Tensor& mantissa, Tensor& exponent, const Tensor& self) {
  auto part = [](double x) {
    int by = 0;
    std::frexp(x, &by);
    return std::isfinite(x) ? by : 0;
  };
  map_elements(exponent, self, [&](double x) { return static_cast<double>(part(x)); });
  map_elements(mantissa, self, [](double x) {
    int by = 0;
    return std::frexp(x, &by);
  });
}

// Rounds at 10^-decimals; the power itself is exact, so it multiplies or divides.
Tensor round_decimals(const Tensor& self, int64_t decimals) {
  if (decimals == 0 || is_integral(self.dtype()) || self.dtype() == Dtype::bool_)
    return tenon::round(self);
  double power = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return decimals > 0 ? div(tenon::round(mul(self, power)), power)
                      : mul(tenon::round(div(self, power)), power);
}

Tensor mvlgamma_decomp(const Tensor& self, int64_t p) {
  // One term, a few ops of a graph, for each dimension.
  require(p >= 1 && p <= 10000, "mvlgamma: p must be between 1 and 10000, found {}", p);
  Tensor x = to(self, to_float_type(self.dtype())), sum;
  for (int64_t j = 0; j < p; ++j) {
    Tensor term = lgamma(sub(x, static_cast<double>(j) / 2));
    sum = j == 0 ? term : add(sum, term);
  }
  double order = static_cast<double>(p);
  return add(sum, order * (order - 1) / 4 * std::log(std::numbers::pi));
}

Tensor in_double(const Tensor& t) {
  return to(t, is_complex(t.dtype()) ? Dtype::c128 : Dtype::f64);
}

Tensor float_power(const Tensor& self, const Tensor& exponent) {
  return pow(in_double(self), in_double(exponent));
}

}  // namespace

static constexpr OpDef pointwise_special_rows[] =
    {
        {.schema = "i0(Tensor self) -> Tensor",
         .variants = in_place,
         .meta = float_meta,
         .eager = map_kernel<bessel_i0>,
         .vjp = {{"self", "grad, self",
                  [](const Tensor& g, const Tensor& x) { return g.mul(special_i1(x)); }}}},
        {.schema = "special_i0(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return i0(self); }},
        {.schema = "special_i0e(Tensor self) -> Tensor",
         .meta = float_meta,
         .eager = map_kernel<bessel_i0e>,
         .vjp = {{"self", "grad, self, result",
                  [](const Tensor& g, const Tensor& x, const Tensor& y) {
                    return g.mul(special_i1e(x).sub(x.sign().mul(y)));
                  }}}},
        {.schema = "special_i1(Tensor self) -> Tensor",
         .meta = float_meta,
         .eager = map_kernel<bessel_i1>,
         .vjp = {{"self", "grad, self, result",
                  [](const Tensor& g, const Tensor& x, const Tensor& y) {
                    Tensor quotient = y.div(x).masked_fill(x.eq(0), 0.5);
                    return g.mul(i0(x).sub(quotient));
                  }}}},
        {.schema = "special_i1e(Tensor self) -> Tensor",
         .meta = float_meta,
         .eager = map_kernel<bessel_i1e>,
         .vjp = {{"self", "grad, self, result",
                  [](const Tensor& g, const Tensor& x, const Tensor& y) {
                    Tensor slope = special_i0e(x).sub(y.mul(x.sign().add(x.reciprocal())));
                    return g.mul(slope.masked_fill(x.eq(0), 0.5));
                  }}}},
        {.schema = "special_erfcx(Tensor self) -> Tensor",
         .meta = float_meta,
         .eager = map_kernel<scaled_erfc>,
         .vjp = {{"self", "grad, self, result",
                  [](const Tensor& g, const Tensor& x, const Tensor& y) {
                    return g.mul(x.mul(y).mul(2.0).sub(1.1283791670955126));
                  }}}},
        {.schema = "special_log_ndtr(Tensor self) -> Tensor",
         .meta = float_meta,
         .eager = map_kernel<log_normal_share>,
         .vjp = {{"self", "grad, self, result",
                  [](const Tensor& g, const Tensor& x, const Tensor& y) {
                    return g.mul(x.mul(x).mul(-0.5).sub(y).exp().mul(0.3989422804014327));
                  }}}},
        {.schema = "special_ndtri(Tensor self) -> Tensor",
         .meta = float_meta,
         .eager = map_kernel<normal_quantile>,
         .vjp = {{"self", "grad, result",
                  [](const Tensor& g, const Tensor& y) {
                    return g.mul(y.mul(y).mul(0.5).exp().mul(2.5066282746310002));
                  }}}},
        {.schema = "special_ndtr(Tensor self) -> Tensor",
         .formula = pointwise([](auto x) { return erfc(x * -0.70710678118654752440) * 0.5; })},
        {.schema = "special_entr(Tensor self) -> Tensor",
         .formula = pointwise([](auto x) {
           return select(x != x, x, select(x > 0, -x * log(x), select(x == 0, 0, -INFINITY)));
         }),
         .vjp = {{"self", "grad, self",
                  [](const Tensor& g, const Tensor& x) { return g.mul(x.log().add(1).neg()); }}}},
        {.schema = "special_xlog1py(Tensor self, Tensor other) -> Tensor",
         .formula = pointwise(
             [](auto x, auto y) { return select(y != y, y, select(x == 0, 0, x * log1p(y))); }),
         .vjp = {{"self", "grad, self, other", fn<log1p_where_it_counts>},
                 {"other", "grad, self, other",
                  [](const Tensor& g, const Tensor& x, const Tensor& y) {
                    return g.mul(x).div(y.add(1));
                  }}}},
        {.schema = "special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor",
         .formula = pointwise(
             [](auto x, auto y) { return select(y != y, y, select(x == 0, 0, x * log1p(y))); }),
         .vjp = {{"self", "grad, self, other",
                  [](const Tensor& g, const Tensor& x, Number y) {
                    return log1p_where_it_counts(g, x, as_tensor(y, x));
                  }}}},
        {.schema = "special_zeta(Tensor self, Tensor other) -> Tensor",
         .meta = binary_float_meta,
         .eager = combine_kernel<hurwitz_zeta>},
        {.schema = "polygamma(int n, Tensor self) -> Tensor",
         .meta =
             [](int64_t n, const Tensor& self) {
               require(n >= 0, "polygamma: n must not be negative, found {}", n);
               return float_meta(self);
             },
         .eager =
             [](Tensor& out, int64_t n, const Tensor& self) {
               if (n == 0) return copy_elements(out, digamma(self));
               map_elements(out, self, [n](double x) { return polygamma_of(n, x); });
             },
         .vjp = {{"self", "grad, self, n",
                  [](const Tensor& g, const Tensor& x, int64_t n) {
                    return g.mul(polygamma(n + 1, x));
                  }}}},
        {.schema = "special_polygamma(int n, Tensor self) -> Tensor",
         .decomp = [](int64_t n, const Tensor& self) { return polygamma(n, self); }},
        {.schema = "mvlgamma(Tensor self, int p) -> Tensor",
         .variants = in_place,
         .decomp = fn<mvlgamma_decomp>},
        {.schema = "special_multigammaln(Tensor self, int p) -> Tensor",
         .decomp = [](const Tensor& self, int64_t p) { return mvlgamma(self, p); }},
        {.schema = "igamma(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .meta = binary_float_meta,
         .eager = combine_kernel<lower_gamma>,
         .vjp = {{"other", "grad, self, other",
                  [](const Tensor& g, const Tensor& a, const Tensor& x) {
                    return g.mul(x.log().mul(a.sub(1)).sub(x).sub(a.lgamma()).exp());
                  }}}},
        {.schema = "igammac(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .meta = binary_float_meta,
         .eager = combine_kernel<upper_gamma>,
         .vjp = {{"other", "grad, self, other",
                  [](const Tensor& g, const Tensor& a, const Tensor& x) {
                    return g.mul(x.log().mul(a.sub(1)).sub(x).sub(a.lgamma()).exp()).neg();
                  }}}},
        {.schema = "special_gammainc(Tensor self, Tensor other) -> Tensor",
         .decomp = [](const Tensor& self, const Tensor& other) { return igamma(self, other); }},
        {.schema = "special_gammaincc(Tensor self, Tensor other) -> Tensor",
         .decomp = [](const Tensor& self, const Tensor& other) { return igammac(self, other); }},
        {.schema = "gcd(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .meta = integer_meta,
         .eager = combine_integers<greatest_divisor>},
        {.schema = "lcm(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .meta = integer_meta,
         .eager = combine_integers<least_multiple>},
        {.schema = "nextafter(Tensor self, Tensor other) -> Tensor",
         .variants = in_place,
         .meta = binary_float_meta,
         .eager = fn<nextafter_kernel>,
         .vjp = {{"self", "grad, self, other",
                  [](const Tensor& g, const Tensor& x, const Tensor& y) {
                    return g.masked_fill(x.eq(y), 0);  // there the result is the other number
                  }},
                 {"other", "grad", [](const Tensor& g) { return g.zeros_like(); }}},
         .linear = Without{"the smallest number is next to zero"}},
        {.schema = "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
         .meta = fn<frexp_meta>,
         .eager = fn<frexp_kernel>,
         .vjp = {{"self", "grad, result1",
                  [](const Tensor& g,
                     const Tensor& exponent) { return g.div(exponent.to(g.dtype()).exp2()); }}}},
        {.schema = "ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
         .decomp = fn<scaled_by_power>},
        {.schema = "round.decimals(Tensor self, *, int decimals) -> Tensor",
         .variants = in_place,
         .decomp = fn<round_decimals>},
        {.schema = "special_round(Tensor self, *, int decimals=0) -> Tensor",
         .decomp = fn<round_decimals>},
        {.schema = "isreal(Tensor self) -> Tensor",
         .decomp =
             [](const Tensor& self) {
               return is_complex(self.dtype()) ? eq(imag(self), 0) : ones_like(self, Dtype::bool_);
             }},
        {.schema = "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
         .decomp = fn<float_power>},
        {.schema = "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
         .decomp = [](const Tensor& self,
                      Number exponent) { return pow(in_double(self), exponent); }},
        {.schema = "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
         .decomp =
             [](Number self, const Tensor& exponent) {
               return pow(Number(self.to_double()), in_double(exponent));
             }},
        {.schema = "special_log1p(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return log1p(self); }},
        {.schema = "special_expm1(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return expm1(self); }},
        {.schema = "special_exp2(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return exp2(self); }},
        {.schema = "special_erf(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return erf(self); }},
        {.schema = "special_erfc(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return erfc(self); }},
        {.schema = "special_erfinv(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return erfinv(self); }},
        {.schema = "special_digamma(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return digamma(self); }},
        {.schema = "special_psi(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return digamma(self); }},
        {.schema = "special_gammaln(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return lgamma(self); }},
        {.schema = "special_expit(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return sigmoid(self); }},
        {.schema = "special_logit(Tensor self, float? eps=None) -> Tensor",
         .decomp = [](const Tensor& self, std::optional<double> eps) { return logit(self, eps); }},
        {.schema = "special_sinc(Tensor self) -> Tensor",
         .decomp = [](const Tensor& self) { return sinc(self); }},
        {.schema = "special_xlogy(Tensor self, Tensor other) -> Tensor",
         .decomp = [](const Tensor& self, const Tensor& other) { return xlogy(self, other); }},
        {.schema = "special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
         .decomp = [](const Tensor& self, IntList dim,
                      bool keepdim) { return logsumexp(self, dim, keepdim); }},
        {.schema = "special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
         .decomp = [](const Tensor& self, int64_t dim,
                      std::optional<Dtype> dtype) { return softmax(self, dim, dtype); }},
        {.schema = "special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
         .decomp = [](const Tensor& self, int64_t dim,
                      std::optional<Dtype> dtype) { return log_softmax(self, dim, dtype); }},
};

extern constinit const OpFamily op_family_pointwise_special{pointwise_special_rows};

}  // namespace tenon::ops
