// Whether tensors share elements, and whether one names an element twice: declared in tensor_impl.h.
#include "core/tensor/tensor_impl.h"

#include <algorithm>

namespace tenon {

Extent extent_of(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  auto rank = static_cast<size_t>(impl->ndim);
  return {IntList(impl->sizes, rank), IntList(impl->strides, rank), impl->storage_offset,
          static_cast<int64_t>(itemsize(t.dtype()))};
}

namespace {

// Blocks of columns of one matrix: a row of `x` ends before the block of `y` begins, and the next
// row of `x` begins after that block has ended. `x` begins first.
bool are_columns_apart(const Extent& x, const Extent& y) {
  if (x.sizes.size() != 2 || y.sizes.size() != 2 || x.itemsize != y.itemsize) return false;
  int64_t row = x.strides[0];
  if (x.strides[1] != 1 || y.strides[1] != 1 || y.strides[0] != row || row <= 0) return false;
  int64_t column = (y.offset - x.offset) % row;
  return column >= x.sizes[1] && column + y.sizes[1] <= row;
}

}  // namespace

bool may_overlap(const Extent& a, const Extent& b) {
  const Extent &x = a.offset * a.itemsize <= b.offset * b.itemsize ? a : b, &y = &x == &a ? b : a;
  int64_t x_span = span_of(x.sizes, x.strides), y_span = span_of(y.sizes, y.strides);
  if (x_span == 0 || y_span == 0) return false;
  return (x.offset + x_span) * x.itemsize > y.offset * y.itemsize && !are_columns_apart(x, y);
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  return shares_storage(a, b) && may_overlap(extent_of(a), extent_of(b));
}

bool has_internal_overlap(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  if (impl->flags & (TN_T_CONTIGUOUS | TN_T_CHANNELS_LAST)) return false;
  InlineVector<int32_t, 8> order;
  for (int32_t i = 0; i < impl->ndim; ++i)
    if (impl->sizes[i] > 1) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return impl->strides[a] < impl->strides[b]; });
  int64_t reached = 0;  // highest offset that the dimensions so far produce
  for (int32_t dim : order) {
    if (impl->strides[dim] <= reached) return true;
    int64_t reach = 0;
    if (__builtin_mul_overflow(impl->sizes[dim] - 1, impl->strides[dim], &reach) ||
        __builtin_add_overflow(reached, reach, &reached))
      return true;  // no memory is that large: what a file says
  }
  return false;
}

}  // namespace tenon
