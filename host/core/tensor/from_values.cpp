// Tensors out of values of the program: numbers in a row, and rows that are tensors.
#include "core/tensor/from_values.h"

#include "core/device/device_memory.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <cstring>

namespace tenon {

Tensor (*literal_slot)(const Tensor&) = nullptr;

namespace detail {

namespace {

Tensor on_default_device(Tensor t) {
  bool is_set = thread_modes.include & ~thread_modes.exclude & bit(Key::defaults);
  return is_set ? literal_slot(t) : t;
}

}  // namespace

Tensor tensor_from_bytes(const void* values, size_t count, IntList sizes, Dtype dtype) {
  int64_t wanted = 1;
  for (int64_t s : sizes) wanted *= s;
  require(static_cast<int64_t>(count) == wanted, "tensor: shape {} needs {} values, found {}",
          sizes, wanted, count);
  Tensor t = make_tensor(sizes, dtype);
  if (count) std::memcpy(impl_of(t)->data, values, count * itemsize(dtype));
  return on_default_device(std::move(t));
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
    if (bytes) std::memcpy(to, impl_of(on_host(row))->data, bytes);
    to += bytes;
  }
  return on_default_device(std::move(t));
}

}  // namespace detail
}  // namespace tenon
