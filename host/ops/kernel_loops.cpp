// Copies between tensors of any dtype and strides, and single elements as numbers.
#include "ops/kernel_loops.h"

#include "core/kernels/pointwise_loop.h"
#include "core/threads/thread_pool.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <algorithm>

namespace tenon {

namespace {

void copy_with_strides(const Tensor& dst, const Tensor& src, const int64_t* src_strides) {
  if (numel_of(dst) == 0) return;
  copy_strided({impl_of(dst)->data, dst.dtype(), impl_of(dst)->strides},
               {impl_of(src)->data, src.dtype(), src_strides},
               {impl_of(dst)->sizes, static_cast<size_t>(dst.dim())});
}

void convert_one(void* to, Dtype to_dtype, const void* from, Dtype from_dtype) {
  copy_strided({to, to_dtype, nullptr}, {const_cast<void*>(from), from_dtype, nullptr}, {});
}

template <class T>
void multiply_pairs(T* out, const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i, out += 2, a += 2, b += 2) {
    T re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];
    out[0] = re, out[1] = im;
  }
}

}  // namespace

void multiply_pairs(Dtype real, void* out, const void* a, const void* b, int64_t n) {
  parallel_for(0, n, 16 * 1024, [&](int64_t lo, int64_t hi) {
    auto run = [&]<class T>() {
      auto at = [lo](const void* p) { return static_cast<const T*>(p) + 2 * lo; };
      multiply_pairs(static_cast<T*>(out) + 2 * lo, at(a), at(b), hi - lo);
    };
    real == Dtype::f32 ? run.template operator()<float>() : run.template operator()<double>();
  });
}

void copy_elements(const Tensor& dst, const Tensor& src) {
  copy_with_strides(dst, src, impl_of(src)->strides);
}

void copy_broadcast(const Tensor& dst, const Tensor& src) {
  Dims strides = broadcast_strides(src.sizes(), src.strides(), dst.sizes());
  copy_with_strides(dst, src, reinterpret_cast<const int64_t*>(strides.data()));
}

Tensor contiguous_of(const Tensor& t) { return converted(t, t.dtype()); }

Tensor converted(const Tensor& t, Dtype dtype) {
  if (t.dtype() == dtype && t.is_contiguous()) return t;
  require(
      is_complex(dtype) || !is_complex(t.dtype()), ErrorCode::unsupported,
      "the op computes on real numbers only, found {}; take the parts apart with view_as_real()",
      t);
  Tensor out = make_tensor(contiguous_meta(t.sizes(), dtype));
  copy_elements(out, t);
  return out;
}

TensorMeta like(const Tensor& self) {
  TensorMeta meta = meta_of(self);
  meta.strides = preserved_strides(self);
  return meta;
}

TensorMeta strided_like(const Tensor& t) {
  TensorMeta meta = meta_of(t);
  if (has_internal_overlap(t)) meta.strides = preserved_strides(t);
  return meta;
}

Number load_number(const void* at, Dtype dtype) {
  require(!is_complex(dtype), ErrorCode::unsupported,
          "an element of dtype {} cannot be read as a number; take its real part first", dtype);
  if (is_floating(dtype)) {
    double value;
    convert_one(&value, Dtype::f64, at, dtype);
    return value;
  }
  int64_t value;
  convert_one(&value, Dtype::i64, at, dtype);
  return dtype == Dtype::bool_ ? Number(value != 0) : Number(value);
}

void store_number(void* at, Dtype dtype, Number value) {
  if (value.is_floating()) {
    double plain = value.to_double();
    convert_one(at, dtype, &plain, Dtype::f64);
    return;
  }
  int64_t plain = value.is_boolean() ? value.to_bool() : value.to_int();
  convert_one(at, dtype, &plain, Dtype::i64);
}

void fill_elements(const Tensor& t, Number value) {
  Element16 element{};
  store_number(&element, t.dtype(), value);
  Walk<1> walk;
  add_dims<1>(walk, sizes_of(t), {strides_of(t)});
  dispatch_itemsize(t.dtype(), [&]<class T>() {
    T one;
    std::memcpy(&one, &element, sizeof one);
    T* to = data_of<T>(t);
    for_each_row(walk, [&](const Offsets<1>& at, int64_t n, const Offsets<1>& step) {
      if (step[0] == 1)
        std::fill_n(to + at[0], n, one);
      else
        for (int64_t i = 0; i < n; ++i) to[at[0] + i * step[0]] = one;
    });
  });
}

}  // namespace tenon
