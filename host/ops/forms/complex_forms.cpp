// Complex arithmetic on real and imaginary parts.
#include "ops/forms/complex_forms.h"

#include "core/dispatch.h"
#include "ops/kernel_loops.h"
#include "ops/linalg/product.h"
#include "ops/promotion.h"

#include <tenon/ops.h>

#include <algorithm>

namespace tenon {

// A bit for each: every call asks.
static constexpr uint64_t complex_dtypes = [] {
  uint64_t bits = 0;
  for (const detail::DtypeRow& row : detail::dtype_rows)
    if (is_complex(row.dtype)) bits |= uint64_t{1} << static_cast<uint8_t>(row.dtype);
  return bits;
}();

bool has_complex_input(const CallArgs& call) {
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.args[i].tag == Tag::tensor &&
        complex_dtypes >> static_cast<uint8_t>(call.args[i].as<Tensor>()->dtype()) & 1)
      return true;
  return false;
}

void run_complex(const CallArgs& call) {
  const OpDef& row = *call.op->def;
  require(bool(row.complex), ErrorCode::unsupported,
          "{} does not compute on complex tensors; take them apart with real(), imag() or "
          "view_as_real()",
          call.op->name);
  (row.complex.call ? row.complex.call : row.decomp.call)(call);
}

namespace ops {

namespace {

/// An undefined imaginary part: the tensor is real.
struct Parts {
  Tensor re, im;
};

// Whether nobody records what is done to them, neither a graph nor a derivative.
bool are_computed_only(std::initializer_list<const Tensor*> tensors) {
  if (thread_modes.tracer || thread_modes.follower) return false;
  return std::ranges::all_of(tensors, [](const Tensor* t) {
    return !t->is_fake() && t->device().type == DeviceType::cpu &&
           !(thread_modes.grad_enabled && t->requires_grad());
  });
}

// Whether they are pairs of f32 or f64 in the same places.
bool are_alike_pairs(const Tensor& a, const Tensor& b) {
  bool is_computed = a.dtype() == Dtype::c64 || a.dtype() == Dtype::c128;
  return is_computed && a.dtype() == b.dtype() && a.is_contiguous() && b.is_contiguous() &&
         std::ranges::equal(sizes_of(a), sizes_of(b)) && are_computed_only({&a, &b});
}

Parts parts_of(const Tensor& t) {
  if (!is_complex(t.dtype())) return {t, {}};
  Tensor pairs = view_as_real(t);
  return {select(pairs, -1, 0), select(pairs, -1, 1)};
}

Tensor imaginary_of(const Parts& p) { return p.im.defined() ? p.im : zeros_like(p.re); }

Tensor joined(const Tensor& re, const Tensor& im) {
  Dtype dtype = to_float_type(promote_types(re.dtype(), im.dtype()));
  return complex(to(re, dtype), to(im, dtype));
}

Tensor plus(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : add(a, b);
}

template <class F>
Tensor each_part(const Tensor& t, const F& f) {
  Parts p = parts_of(t);
  return joined(f(p.re), f(p.im));
}

// f is linear in both arguments.
template <class F>
Tensor product_of(const Tensor& a, const Tensor& b, const F& f) {
  Parts x = parts_of(a), y = parts_of(b);
  Tensor re = f(x.re, y.re), im;
  if (x.im.defined() && y.im.defined()) re = sub(re, f(x.im, y.im));
  if (y.im.defined()) im = f(x.re, y.im);
  if (x.im.defined()) im = plus(im, f(x.im, y.re));
  return joined(re, im.defined() ? im : zeros_like(re));
}

// The angle of 0 is 0, without a gradient that is not a number.
Tensor angle_of(const Parts& p) {
  Tensor zero = logical_and(eq(p.re, 0), eq(p.im, 0));
  return atan2(p.im, masked_fill(p.re, zero, 1));
}

Tensor length_of(const Parts& p) {
  Tensor zero = logical_and(eq(p.re, 0), eq(p.im, 0));
  return masked_fill(hypot(masked_fill(p.re, zero, 1), p.im), zero, 0);
}

// What is infinite on the real axis stays there: inf * sin(0) is not a number.
Tensor from_polar(const Tensor& length, const Tensor& angle) {
  Tensor on_axis = logical_and(isinf(length), eq(angle, 0));
  return complex(mul(length, cos(angle)), masked_fill(mul(length, sin(angle)), on_axis, 0));
}

Tensor as_complex(const Tensor& t, std::optional<Dtype> dtype) {
  require(!dtype || is_complex(*dtype), ErrorCode::unsupported,
          "a complex tensor gives complex sums, found dtype {}; take real() first",
          dtype.value_or(t.dtype()));
  return dtype ? to(t, *dtype) : t;
}

template <class F>
Tensor true_where_any(const Tensor& t, const F& f) {
  Parts p = parts_of(t);
  return logical_or(f(p.re), f(p.im));
}

}  // namespace

Tensor complex_add(const Tensor& self, const Tensor& other, Number alpha) {
  if (are_alike_pairs(self, other))
    return view_as_complex(add(view_as_real(self), view_as_real(other), alpha));
  Parts a = parts_of(self), b = parts_of(other);
  Tensor im = !b.im.defined() ? a.im : !a.im.defined() ? mul(b.im, alpha) : add(a.im, b.im, alpha);
  return joined(add(a.re, b.re, alpha), im);
}

Tensor complex_add_number(const Tensor& self, Number other, Number alpha) {
  Parts p = parts_of(self);
  return joined(add(p.re, other, alpha), p.im);
}

Tensor complex_sub(const Tensor& self, const Tensor& other, Number alpha) {
  if (are_alike_pairs(self, other))
    return view_as_complex(sub(view_as_real(self), view_as_real(other), alpha));
  Parts a = parts_of(self), b = parts_of(other);
  Tensor im = !b.im.defined()   ? a.im
              : !a.im.defined() ? neg(mul(b.im, alpha))
                                : sub(a.im, b.im, alpha);
  return joined(sub(a.re, b.re, alpha), im);
}

Tensor complex_sub_number(const Tensor& self, Number other, Number alpha) {
  Parts p = parts_of(self);
  return joined(sub(p.re, other, alpha), p.im);
}

Tensor complex_mul(const Tensor& self, const Tensor& other) {
  if (are_alike_pairs(self, other)) {
    Tensor out = make_tensor(contiguous_meta(self.sizes(), self.dtype()));
    multiply_pairs(view_as_real(self).dtype(), data_of<void>(out), data_of<void>(self),
                   data_of<void>(other), numel_of(out));
    return out;
  }
  return product_of(self, other, [](const Tensor& a, const Tensor& b) { return mul(a, b); });
}

Tensor complex_mul_number(const Tensor& self, Number other) {
  if (are_alike_pairs(self, self)) return view_as_complex(mul(view_as_real(self), other));
  return each_part(self, [&](const Tensor& t) { return mul(t, other); });
}

// With the divisor scaled to a largest part of 1, so that its square does not overflow.
Tensor complex_div(const Tensor& self, const Tensor& other) {
  if (!is_complex(other.dtype()))
    return each_part(self, [&](const Tensor& t) { return div(t, other); });
  Parts a = parts_of(self), b = parts_of(other);
  Tensor scale = detach(maximum(abs(b.re), abs(b.im)));
  Tensor c = div(b.re, scale), d = div(b.im, scale);
  Tensor size = add(mul(b.re, c), mul(b.im, d));
  Tensor re = mul(a.re, c), im = neg(mul(a.re, d));
  if (a.im.defined()) {
    re = add(re, mul(a.im, d));
    im = add(im, mul(a.im, c));
  }
  return joined(div(re, size), div(im, size));
}

Tensor complex_div_number(const Tensor& self, Number other) {
  return each_part(self, [&](const Tensor& t) { return div(t, other); });
}

Tensor complex_pow(const Tensor& self, Number exponent) {
  double n = exponent.to_double();
  if (n == 2) return complex_mul(self, self);
  Parts p = parts_of(self);
  return from_polar(pow(length_of(p), exponent), mul(angle_of(p), exponent));
}

Tensor complex_neg(const Tensor& self) {
  return each_part(self, [](const Tensor& t) { return neg(t); });
}

Tensor complex_reciprocal(const Tensor& self) {
  return complex_div(ones_like(parts_of(self).re), self);
}

Tensor complex_abs(const Tensor& self) { return length_of(parts_of(self)); }

Tensor complex_sgn(const Tensor& self) {
  Tensor length = complex_abs(self);
  Tensor divisor = masked_fill(length, eq(length, 0), 1);
  return each_part(self, [&](const Tensor& t) { return div(t, divisor); });
}

Tensor complex_sqrt(const Tensor& self) {
  Parts p = parts_of(self);
  return from_polar(sqrt(length_of(p)), div(angle_of(p), 2));
}

Tensor complex_exp(const Tensor& self) {
  Parts p = parts_of(self);
  return from_polar(exp(p.re), p.im);
}

Tensor complex_log(const Tensor& self) {
  Parts p = parts_of(self);
  return joined(log(length_of(p)), angle_of(p));
}

Tensor complex_sin(const Tensor& self) {
  Parts p = parts_of(self);
  return joined(mul(sin(p.re), cosh(p.im)), mul(cos(p.re), sinh(p.im)));
}

Tensor complex_cos(const Tensor& self) {
  Parts p = parts_of(self);
  return joined(mul(cos(p.re), cosh(p.im)), neg(mul(sin(p.re), sinh(p.im))));
}

Tensor complex_eq(const Tensor& self, const Tensor& other) {
  Parts a = parts_of(self), b = parts_of(other);
  return logical_and(eq(a.re, b.re), eq(imaginary_of(a), imaginary_of(b)));
}

Tensor complex_eq_number(const Tensor& self, Number other) {
  Parts p = parts_of(self);
  return logical_and(eq(p.re, other), eq(p.im, 0));
}

Tensor complex_ne(const Tensor& self, const Tensor& other) {
  return logical_not(complex_eq(self, other));
}

Tensor complex_ne_number(const Tensor& self, Number other) {
  return logical_not(complex_eq_number(self, other));
}

Tensor complex_isnan(const Tensor& self) {
  return true_where_any(self, [](const Tensor& t) { return isnan(t); });
}

Tensor complex_isinf(const Tensor& self) {
  return true_where_any(self, [](const Tensor& t) { return isinf(t); });
}

Tensor complex_isfinite(const Tensor& self) {
  return logical_not(
      true_where_any(self, [](const Tensor& t) { return logical_not(isfinite(t)); }));
}

Tensor complex_where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  require(!is_complex(condition.dtype()), "where: the condition must be bool, found {}",
          condition.dtype());
  Parts a = parts_of(self), b = parts_of(other);
  return joined(where(condition, a.re, b.re), where(condition, imaginary_of(a), imaginary_of(b)));
}

Tensor complex_sum(const Tensor& self, std::optional<Dtype> dtype) {
  return each_part(as_complex(self, dtype), [](const Tensor& t) { return sum(t); });
}

Tensor complex_sum_dims(const Tensor& self, OptIntList dim, bool keepdim,
                        std::optional<Dtype> dtype) {
  return each_part(as_complex(self, dtype), [&](const Tensor& t) { return sum(t, dim, keepdim); });
}

Tensor complex_mean(const Tensor& self, std::optional<Dtype> dtype) {
  return each_part(as_complex(self, dtype), [](const Tensor& t) { return mean(t); });
}

Tensor complex_mean_dims(const Tensor& self, OptIntList dim, bool keepdim,
                         std::optional<Dtype> dtype) {
  return each_part(as_complex(self, dtype), [&](const Tensor& t) { return mean(t, dim, keepdim); });
}

Tensor complex_cumsum(const Tensor& self, int64_t dim, std::optional<Dtype> dtype) {
  return each_part(as_complex(self, dtype), [&](const Tensor& t) { return cumsum(t, dim); });
}

Tensor complex_prod(const Tensor& self, std::optional<Dtype> dtype) {
  return complex_prod_dim(reshape(self, {-1}), 0, false, dtype);
}

// Filled up with ones to a power of two, one half times the other until one element is left: sizes
// between two powers are one case.
Tensor complex_prod_dim(const Tensor& self, int64_t dim, bool keepdim, std::optional<Dtype> dtype) {
  Tensor t = as_complex(self, dtype);
  if (t.dim() == 0) return clone(t);
  SymInt n = t.size(dim);
  int64_t length = 1;
  while (n >= length) length *= 2;
  Dims rest(t.sizes().begin(), t.sizes().end());
  rest[static_cast<size_t>(dim < 0 ? dim + t.dim() : dim)] = length - n;
  Tensor ones = full(list_of(rest), 1, t.dtype(), std::nullopt, t.device());
  t = cat({t, ones}, dim);
  for (int64_t half = length / 2; half > 0; half /= 2)
    t = mul(narrow(t, dim, 0, half), narrow(t, dim, half, half));
  return keepdim ? clone(t) : clone(squeeze(t, dim));
}

// Each element times the one before it, two before it, four and so on.
Tensor complex_cumprod(const Tensor& self, int64_t dim, std::optional<Dtype> dtype) {
  Tensor t = as_complex(self, dtype);
  if (t.dim() == 0) return clone(t);
  SymInt n = t.size(dim);
  int64_t step = 1;
  for (; n > step; step *= 2) {
    Tensor product = mul(narrow(t, dim, 0, n - step), narrow(t, dim, step, n - step));
    t = cat({narrow(t, dim, 0, step), product}, dim);
  }
  return step > 1 ? t : clone(t);
}

Tensor complex_vector_norm(const Tensor& self, Number ord, OptIntList dim, bool keepdim,
                           std::optional<Dtype> dtype) {
  return linalg_vector_norm(complex_abs(self), ord, dim, keepdim, dtype);
}

Tensor complex_mm(const Tensor& self, const Tensor& mat2) {
  require_same_dtype("mm", self, mat2);
  return product_of(self, mat2, [](const Tensor& a, const Tensor& b) { return mm(a, b); });
}

Tensor complex_bmm(const Tensor& self, const Tensor& mat2) {
  require_same_dtype("bmm", self, mat2);
  return product_of(self, mat2, [](const Tensor& a, const Tensor& b) { return bmm(a, b); });
}

Tensor complex_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, Number beta,
                     Number alpha) {
  return added_product(self, mm(mat1, mat2), beta, alpha);
}

Tensor complex_vdot(const Tensor& self, const Tensor& other) { return sum(mul(conj(self), other)); }

}  // namespace ops

}  // namespace tenon
