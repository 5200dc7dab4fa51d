// Strides of tensors to be made, by memory format.
#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/tensor/tensor_impl.h"

namespace tenon {

Dims contiguous_strides(SymIntList sizes) {
  Dims strides(sizes.size());
  SymInt running = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = running;
    running = running * sym_max(sizes[i], 1);
  }
  return strides;
}

Dims strides_for(SymIntList sizes, MemoryFormat format) {
  bool three_d = format == MemoryFormat::channels_last_3d;
  if (!three_d && format != MemoryFormat::channels_last) return contiguous_strides(sizes);
  size_t rank = three_d ? 5 : 4;
  require(sizes.size() == rank,
          "memory format {} needs a tensor with {} dimensions, found shape {}", format, rank,
          sizes);
  Dims strides(rank);
  SymInt running = 1;
  auto place = [&](size_t dim) {
    strides[dim] = running;
    running = running * sym_max(sizes[dim], 1);
  };
  place(1);
  for (size_t dim = rank - 1; dim >= 2; --dim) place(dim);
  place(0);
  return strides;
}

}  // namespace tenon
