// Determinants from LU factors: the product of the pivots; each exchange of rows turns its sign.
#include "kernels.h"
#include "lu.h"

#include <cmath>

namespace lapack {

namespace {

// Calls f(element of the diagonal, whether its row was exchanged) for matrix i.
template <class T, class F>
void for_pivots(const Factors& factors, int64_t i, F f) {
  int n = rows_of(factors.lu.get());
  const T* lu = factors.lu.data<T>() + i * n * n;
  const int32_t* pivots = factors.pivots.data<int32_t>() + i * n;
  for (int64_t k = 0; k < n; ++k) f(lu[k * n + k], pivots[k] != k + 1);
}

template <class T>
void put_products(const Factors& f, T* out) {
  for (int64_t i = 0; i < f.infos->numel; ++i) {
    T product = 1;
    for_pivots<T>(f, i, [&](T pivot, bool exchanged) { product *= exchanged ? -pivot : pivot; });
    out[i] = product;
  }
}

template <class T>
void put_logarithms(const Factors& f, T* signs, T* sizes) {
  for (int64_t i = 0; i < f.infos->numel; ++i) {
    T sign = 1, size = 0;
    for_pivots<T>(f, i, [&](T pivot, bool exchanged) {
      sign *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;  // 0 and NaN are kept
      if (exchanged) sign = -sign;
      size += std::log(std::abs(pivot));
    });
    signs[i] = sign;
    sizes[i] = size;
  }
}

}  // namespace

bool det(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_square(a)) return false;
  bool turned = false;
  Factors f = factored_as_it_lies(a, turned);
  tensor out = tensor::empty(f.batch, a->dtype);
  by_dtype(a->dtype, [&]<class T>() { put_products(f, out.data<T>()); });
  call.give(0, std::move(out));
  call.give(1, std::move(f.lu));
  call.give(2, std::move(f.pivots));
  return true;
}

bool slogdet(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_square(a)) return false;
  bool turned = false;
  Factors f = factored_as_it_lies(a, turned);
  tensor signs = tensor::empty(f.batch, a->dtype), sizes = tensor::empty(f.batch, a->dtype);
  by_dtype(a->dtype, [&]<class T>() { put_logarithms(f, signs.data<T>(), sizes.data<T>()); });
  call.give(0, std::move(signs));
  call.give(1, std::move(sizes));
  call.give(2, std::move(f.lu));
  call.give(3, std::move(f.pivots));
  return true;
}

}  // namespace lapack
