// Overlapping tensors of a call.
#include "guards/overlap.h"

#include "core/tensor/tensor_impl.h"

namespace tenon {

namespace {

// A filter of 64 bits finds in one pass that all storages are distinct, which is the common case.
bool may_share_storage(std::span<const Tensor* const> tensors) {
  uint64_t seen = 0;
  bool shared = false;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    uint64_t bit = uint64_t{1} << (impl_of(*t)->storage_id * 0x9E3779B97F4A7C15u >> 58);
    shared = shared || (seen & bit);
    seen |= bit;
  }
  return shared;
}

int64_t first_byte(const Tensor& t) {
  return impl_of(t)->storage_offset * static_cast<int64_t>(itemsize(t.dtype()));
}

}  // namespace

std::vector<Overlap> overlaps_of(std::span<const Tensor* const> tensors) {
  std::vector<Overlap> out;
  if (!may_share_storage(tensors)) return out;
  for (uint32_t i = 1; i < tensors.size(); ++i)
    for (uint32_t j = 0; j < i; ++j) {
      const Tensor &a = *tensors[j], &b = *tensors[i];
      if (a.defined() && b.defined() && may_overlap(a, b))
        out.push_back({j, i, first_byte(b) - first_byte(a)});
    }
  return out;
}

}  // namespace tenon
