// Kernels of functions that no formula says: element by element, computed in f64.
#pragma once

#include "core/sym/sym_int.h"
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <tenon/ops/create.h>

namespace tenon::ops {

// ---- one argument, computed in f64

inline TensorMeta unary_meta(const Tensor& self, Dtype dtype) {
  return {dtype, self.device(), dims_of(self.sizes()), preserved_strides(self)};
}

inline constexpr auto float_meta = [](const Tensor& self) {
  require(!is_complex(self.dtype()), ErrorCode::unsupported,
          "special functions take real tensors, found dtype {}", self.dtype());
  return unary_meta(self, to_float_type(self.dtype()));
};

template <class F>
void map_elements(const Tensor& out, const Tensor& self, const F& f) {
  Tensor x = converted(contiguous_of(self), Dtype::f64);
  Tensor y = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  const double* from = data_of<double>(x);
  double* to = data_of<double>(y);
  parallel_for(0, numel_of(y), 1024, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) to[i] = f(from[i]);
  });
  copy_elements(out, y);
}

/// The row's kernel of a function of one number.
template <double (*function)(double)>
inline constexpr auto map_kernel =
    [](Tensor& out, const Tensor& self) { map_elements(out, self, function); };

// ---- two arguments

inline TensorMeta binary_meta(const Tensor& self, const Tensor& other, bool to_float) {
  Promotion promotion;
  promotion.add(self);
  promotion.add(other);
  std::vector<Tensor> both = {self, other};
  Dims sizes = broadcast_sizes(both);
  Dtype dtype = to_float ? to_float_type(promotion.result()) : promotion.result();
  return {dtype, self.device(), sizes, pointwise_strides(list_of(sizes), both)};
}

inline Tensor spread(const Tensor& t, const Tensor& out, Dtype dtype) {
  Tensor wide =
      make_view(t, out.sizes(), list_of(broadcast_strides(t.sizes(), t.strides(), out.sizes())),
                t.storage_offset());
  return contiguous_of(converted(wide, dtype));
}

/// A number beside a tensor: it does not raise the result's dtype.
inline Tensor as_tensor(Number number, const Tensor& beside) {
  return scalar_tensor(number, to_float_type(beside.dtype()));
}

template <class T, class F>
void combine(const Tensor& out, const Tensor& self, const Tensor& other, const F& f) {
  Tensor a = spread(self, out, dtype_of<T>), b = spread(other, out, dtype_of<T>);
  Tensor y = make_tensor(contiguous_meta(out.sizes(), dtype_of<T>));
  const T *left = data_of<T>(a), *right = data_of<T>(b);
  T* to = data_of<T>(y);
  parallel_for(0, numel_of(y), 1024, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) to[i] = f(left[i], right[i]);
  });
  copy_elements(out, y);
}

inline constexpr auto binary_float_meta = [](const Tensor& self, const Tensor& other) {
  return binary_meta(self, other, true);
};

/// The row's kernel of a function of two numbers.
template <double (*function)(double, double)>
inline constexpr auto combine_kernel = [](Tensor& out, const Tensor& self, const Tensor& other) {
  combine<double>(out, self, other, function);
};

}  // namespace tenon::ops
