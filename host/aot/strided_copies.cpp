// Copies for compiled code, which reads its inputs by the strides that its graph states.
#include "aot/strided_copies.h"

#include "core/tensor/tensor_impl.h"
#include "ops/kernel_loops.h"

#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

namespace tenon {

Tensor copy_with_strides(const Tensor& t, SymIntList strides) {
  Tensor out = t.new_empty_strided(t.sizes(), strides);
  if (t.is_fake() || t.numel() == 0 || !has_internal_overlap(out)) return out.copy_(t);
  // copy_ refuses to write an element twice.
  Tensor memory = t.new_zeros({SymInt(span_of(sizes_of(out), strides_of(out)))});
  return memory.as_strided_scatter(t, t.sizes(), strides, 0).as_strided(t.sizes(), strides, 0);
}

Tensor with_strides(Tensor t, SymIntList strides) {
  for (size_t d = 0; d < strides.size(); ++d) {
    auto dim = static_cast<int64_t>(d);
    if (t.size(dim) != 1 && t.stride(dim) != strides[d]) return copy_with_strides(t, strides);
  }
  return t;
}

}  // namespace tenon
