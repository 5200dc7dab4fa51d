// What hand-written kernels share: code chosen by dtype, walks over strided tensors, plain copies.
//
//   dispatch_dtype(t.dtype(), "sort", [&]<class T>() { sort_rows<T>(...); });
//
//   Walk<2> walk;
//   add_dims(walk, sizes_of(out), {strides_of(out), strides_of(in)});
//   for_each_row(walk, [&](const Offsets<2>& at, int64_t n, const Offsets<2>& step) { ... });
#pragma once

#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <array>
#include <cstring>

namespace tenon {

// ---- code by dtype

/// Runs `f.operator()<T>()` with the element type of f32, f64, f16 or bf16.
template <class F>
decltype(auto) dispatch_floating(Dtype dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case Dtype::f32:
      return f.template operator()<float>();
    case Dtype::f64:
      return f.template operator()<double>();
    case Dtype::f16:
      return f.template operator()<Half>();
    case Dtype::bf16:
      return f.template operator()<BFloat16>();
    default:
      break;
  }
  fail(ErrorCode::unsupported, "{} computes on floating dtypes only, found {}; cast the input", op,
       dtype);
}

/// The same for the six integer dtypes, too.
template <class F>
decltype(auto) dispatch_dtype(Dtype dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case Dtype::i64:
      return f.template operator()<int64_t>();
    case Dtype::i32:
      return f.template operator()<int32_t>();
    case Dtype::i16:
      return f.template operator()<int16_t>();
    case Dtype::i8:
      return f.template operator()<int8_t>();
    case Dtype::u8:
      return f.template operator()<uint8_t>();
    case Dtype::bool_:
      return f.template operator()<bool>();
    default:
      break;
  }
  if (is_floating(dtype)) return dispatch_floating(dtype, op, f);
  fail(ErrorCode::unsupported, "{} does not compute on dtype {}; cast the input to a real dtype",
       op, dtype);
}

struct Element16 {
  uint64_t words[2];
};

/// Runs `f.operator()<T>()` with a type of the dtype's size, for code that only moves elements.
template <class F>
decltype(auto) dispatch_itemsize(Dtype dtype, F&& f) {
  switch (itemsize(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      return f.template operator()<Element16>();
  }
}

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
inline constexpr bool is_float_type = std::is_floating_point_v<T> || is_half_type<T>;
/// The type that elements of T are computed in.
template <class T>
using ComputeOf = std::conditional_t<is_half_type<T>, float, T>;

template <class T>
bool is_nan(T value) {
  if constexpr (is_half_type<T>)
    return is_nan(static_cast<float>(value));
  else if constexpr (std::is_floating_point_v<T>)
    return value != value;
  else
    return false;
}

// ---- tensors as memory

inline IntList sizes_of(const Tensor& t) {
  return {impl_of(t)->sizes, static_cast<size_t>(impl_of(t)->ndim)};
}
inline IntList strides_of(const Tensor& t) {
  return {impl_of(t)->strides, static_cast<size_t>(impl_of(t)->ndim)};
}
inline int64_t numel_of(const Tensor& t) { return impl_of(t)->numel; }
template <class T>
T* data_of(const Tensor& t) {
  return static_cast<T*>(impl_of(t)->data);
}

// ---- walks

template <size_t N>
using Offsets = std::array<int64_t, N>;

/// An iteration over dimensions, outermost first, of N operands. Dimensions that lie dense in every
/// operand are merged.
template <size_t N>
struct Walk {
  InlineVector<int64_t, 8> sizes;
  InlineVector<Offsets<N>, 8> strides;

  void add(int64_t size, const Offsets<N>& step) {
    if (size == 1) return;
    if (!sizes.empty() && merges(size, step)) {
      sizes[sizes.size() - 1] *= size;
      strides[strides.size() - 1] = step;
      return;
    }
    sizes.push_back(size);
    strides.push_back(step);
  }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }

 private:
  bool merges(int64_t size, const Offsets<N>& step) const {
    const Offsets<N>& outer = strides[strides.size() - 1];
    for (size_t i = 0; i < N; ++i)
      if (outer[i] != size * step[i]) return false;
    return true;
  }
};

template <size_t N>
void add_dims(Walk<N>& walk, IntList sizes, const std::array<IntList, N>& strides) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    Offsets<N> step;
    for (size_t i = 0; i < N; ++i) step[i] = strides[i][d];
    walk.add(sizes[d], step);
  }
}

/// Calls `row(offsets, n, steps)` for each run of the innermost dimension, in row-major order.
template <size_t N, class F>
void for_each_row(const Walk<N>& walk, F&& row) {
  size_t rank = walk.sizes.size();
  Offsets<N> at{};
  if (rank == 0) return row(std::as_const(at), int64_t{1}, std::as_const(at));
  for (int64_t s : walk.sizes)
    if (s == 0) return;
  InlineVector<int64_t, 8> index(rank, 0);
  while (true) {
    row(std::as_const(at), walk.sizes[rank - 1], walk.strides[rank - 1]);
    size_t d = rank - 1;
    while (true) {
      if (d == 0) return;
      --d;
      for (size_t i = 0; i < N; ++i) at[i] += walk.strides[d][i];
      if (++index[d] < walk.sizes[d]) break;
      for (size_t i = 0; i < N; ++i) at[i] -= walk.sizes[d] * walk.strides[d][i];
      index[d] = 0;
    }
  }
}

/// Calls `f(offsets)` for each element, in row-major order.
template <size_t N, class F>
void for_each_offset(const Walk<N>& walk, F&& f) {
  for_each_row(walk, [&](Offsets<N> at, int64_t n, const Offsets<N>& step) {
    for (int64_t i = 0; i < n; ++i) {
      f(std::as_const(at));
      for (size_t k = 0; k < N; ++k) at[k] += step[k];
    }
  });
}

// ---- products, ops/kernel_loops.cpp

/// out[i] = a[i] b[i] of n pairs of real numbers, complex ones, of f32 or f64.
void multiply_pairs(Dtype real, void* out, const void* a, const void* b, int64_t n);

// ---- copies, ops/kernel_loops.cpp

/// dst[i] = src[i] converted, for any two dtypes and strides; same sizes, no overlap.
void copy_elements(const Tensor& dst, const Tensor& src);
/// The same with `src` broadcast to the shape of `dst`.
void copy_broadcast(const Tensor& dst, const Tensor& src);
/// `t` itself where it is row-major, else a row-major copy.
Tensor contiguous_of(const Tensor& t);
/// `t` itself where it has the dtype, else a row-major copy converted to it.
Tensor converted(const Tensor& t, Dtype dtype);
/// The result of a copy that keeps the strides of `t` too, as the `_scatter` ops make it.
TensorMeta strided_like(const Tensor& t);
/// Every element becomes `value`, converted to the dtype.
void fill_elements(const Tensor& t, Number value);
/// One element at `at` as a number, and a number stored there; any dtype whose values are real.
Number load_number(const void* at, Dtype dtype);
void store_number(void* at, Dtype dtype, Number value);

}  // namespace tenon
