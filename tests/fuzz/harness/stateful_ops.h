// The operations of stateful programs: tensors in, a tensor out, by a number that tells which.
#pragma once

#include "../../unit/random_program.h"

#include <tenon/tenon.h>

#include <cmath>

namespace tenon::fuzz {

constexpr int64_t most_dims = 3;

inline bool is_of_floats(const Tensor& t) {
  return t.dtype() == Dtype::f32 || t.dtype() == Dtype::f64;
}
inline Tensor as_float(const Tensor& t) { return is_of_floats(t) ? t : t.to(Dtype::f32); }

inline Tensor in_floats(const Tensor& t) { return t.dtype() == Dtype::f32 ? t : t.to(Dtype::f32); }

inline bool same_sizes(const Tensor& a, const Tensor& b) {
  bool same = a.dim() == b.dim();
  for (int64_t d = 0; same && d < a.dim(); ++d) same = static_cast<bool>(a.size(d) == b.size(d));
  return same;
}
inline Tensor fit(const Tensor& a, const Tensor& b) {
  return same_sizes(a, b) ? b : as_float(b).mean();
}
inline bool is_small(const Tensor& t) { return static_cast<bool>(t.numel() < 64); }

/// Whether elements share memory, which no op may write.
inline bool is_expanded(const Tensor& t) {
  bool is = false;
  for (int64_t d = 0; d < t.dim(); ++d)
    is = is || (static_cast<bool>(t.stride(d) == 0) && static_cast<bool>(t.size(d) > 1));
  return is;
}

/// Integers have no fractions as factors.
inline Tensor add_scaled(const Tensor& a, const Tensor& b, double real) {
  bool is_fraction = is_of_floats(a) || is_of_floats(b);
  return a.add(b, is_fraction ? Number(real) : Number(static_cast<int64_t>(real) + 2));
}

/// `real` is a number of the host.
inline Tensor computed(const Tensor& a, const Tensor& b, uint32_t kind, uint32_t n, double real) {
  int64_t d = pick_dim(a, n);
  switch (kind) {
    case 0:
    case 1:
      return a + fit(a, b);
    case 2:
      return a * fit(a, b);
    case 3:
      return as_float(a).sin();
    case 4:
      return as_float(a).tanh();
    case 5:
      return a.dim() ? a.sum(d, n % 2 == 0) : a.neg();
    case 6:
      return a.clone();
    case 7:
      return a.contiguous();
    case 8:
      return where(a > 0.0, a, a * 0.25);
    case 9: {
      // A product with one column has other bits the first time than later, also without compile.
      bool fits = a.dim() == 2 && b.dim() == 2 && static_cast<bool>(a.size(1) == b.size(1)) &&
                  static_cast<bool>(b.size(0) > 1);
      return fits ? a.to(Dtype::f32).matmul(b.to(Dtype::f32).t()) : a.abs();
    }
    case 10:
      return a.dim() ? softmax(as_float(a), d) : a * 1.5;
    case 11:
      return (a > fit(a, b)).to(Dtype::f32);
    case 12:
      return a.dim() && static_cast<bool>(a.numel() > 0) ? a.amax({d}) : a.neg();
    case 13:
      return a.dim() ? std::get<0>(a.sort(d)) : a.relu();
    case 14:
      return a.dim() && static_cast<bool>(a.size(d) > 1) ? a.chunk(2, d)[n / 4 % 2] : a.relu();
    default:
      return add_scaled(a, fit(a, b), real);
  }
}

inline Tensor converted(const Tensor& t, uint32_t kind) {
  constexpr Dtype to[] = {Dtype::f64, Dtype::f32, Dtype::i64};
  return kind < 3 ? t.to(to[kind]) : (t > 0.0).to(Dtype::f32);
}

inline Tensor resized(const Tensor& t, const Tensor& other, uint32_t kind, uint32_t n) {
  int64_t d = pick_dim(t, n);
  if (t.dim() == 0) return t.reshape({1});
  switch (kind) {
    case 0:
      return is_small(t) ? cat({t, t}, d) : t.neg();
    case 1:
      return is_small(t) && t.dim() < 3 ? stack({t, fit(t, other).to(t.dtype()).expand_as(t)}, 0)
                                        : t.abs();
    case 2:
      return t.reshape({-1});
    case 3:
      return t.flatten();
    case 4:
      return masked_select(t, t > 0.25);
    case 5:
      return t.nonzero().to(Dtype::f32);
    case 6: {
      Tensor own = t.clone();
      own.unsqueeze_(d);
      return own;
    }
    case 7:
      // An index out of range would be an error of the code, behind what the body does then.
      return t.size(d) > 0 ? t.index_select(d, arange(2).clamp_max(t.size(d) - 1)) : t.neg();
    default:
      return zeros_like(t) + 1;
  }
}

inline Tensor drawn(const Tensor& t, uint32_t kind) {
  switch (kind) {
    case 0:
      return rand_like(as_float(t));
    case 1:
      return randn({3}) + as_float(t).mean();
    case 2:
      return dropout(as_float(t), 0.5, true);
    default:
      return randint(0, 5, {3}).to(Dtype::f32);
  }
}

// ---- numbers of the data

// Numbers of data stay small, so that programs do not depend on NaN and infinity alone.
inline float tamed(float v) { return std::isfinite(v) ? std::fmod(v, 4.0f) : 1.0f; }

/// A view of one element.
inline Tensor first_of(Tensor t) {
  while (t.dim() > 0) t = t.select(0, 0);
  return t;
}

inline float number_in(const Tensor& t) { return tamed(t.to(Dtype::f32).sum().item<float>()); }

inline bool tests_data(const Tensor& a, const Tensor& b, uint32_t kind) {
  switch (kind) {
    case 0:
      return number_in(a) > 0.5f;
    case 1:
      return static_cast<bool>((a > 0.5).any());
    case 2:
      return a.to(Dtype::f32).sum().item<float>() > b.to(Dtype::f32).sum().item<float>();
    case 3:
      return a.numel() > 0 && a.argmax().item<int64_t>() % 2 == 1;
    case 4:
      return a.dtype() == b.dtype() && a.equal(b);
    default:
      return (as_float(a).norm() > 1.5).item<bool>();
  }
}

}  // namespace tenon::fuzz
