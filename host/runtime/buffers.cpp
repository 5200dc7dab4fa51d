// What views of elements ask of tensors.
#include <tenon/buffers.h>

#include "core/error.h"

namespace tenon::detail {

void check_view(const Tensor& t, Dtype dtype, int64_t rank) {
  require(t.defined(), "a view of {} elements in {} dimensions was given an undefined tensor",
          dtype, rank);
  require(
      t.dtype() == dtype && t.dim() == rank,
      "a view of {} elements in {} dimensions was given {}; convert the tensor with to(), or take "
      "another view",
      dtype, rank, t);
}

void require_contiguous(const Tensor& t, std::string_view what) {
  require(t.is_contiguous(),
          "{}: the elements of {} are not row-major in memory; take an array_view, or give the "
          "function t.contiguous()",
          what, t);
}

}  // namespace tenon::detail
