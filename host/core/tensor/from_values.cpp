// Tensors out of values of the program: numbers in a row, and rows that are tensors.
#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <cstring>

namespace tenon::detail {

Tensor tensor_from_bytes(const void* values, size_t count, IntList sizes, Dtype dtype) {
  int64_t wanted = 1;
  for (int64_t s : sizes) wanted *= s;
  require(static_cast<int64_t>(count) == wanted, "tensor: shape {} needs {} values, found {}",
          sizes, wanted, count);
  Tensor t = make_tensor(sizes, dtype);
  if (count) std::memcpy(impl_of(t)->data, values, count * itemsize(dtype));
  return t;
}

Tensor tensor_from_rows(const std::vector<Tensor>& rows) {
  const Tensor& first = rows.at(0);
  std::vector<int64_t> sizes{static_cast<int64_t>(rows.size())};
  for (SymInt s : first.sizes()) sizes.push_back(s);
  Tensor t = make_tensor(sizes, first.dtype());
  auto* to = static_cast<std::byte*>(impl_of(t)->data);
  size_t bytes = static_cast<size_t>(first.numel().guard_int()) * itemsize(first.dtype());
  for (const Tensor& row : rows) {
    require(row.sizes() == first.sizes(), "tensor: rows of shapes {} and {}; expected equal ones",
            first.sizes(), row.sizes());
    if (bytes) std::memcpy(to, impl_of(row)->data, bytes);
    to += bytes;
  }
  return t;
}

}  // namespace tenon::detail
