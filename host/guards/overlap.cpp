// Overlapping tensors of a call.
#include "guards/overlap.h"

#include "core/tensor/exposure.h"
#include "core/tensor/tensor_impl.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tenon {

namespace {

const Storage& storage_of(const Tensor& t) { return *impl_of(t)->storage_ref.get(); }

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

bool any_share_lent_memory(std::span<const Tensor* const> tensors) {
  auto is_lent = [](const Tensor* t) { return t->defined() && is_exposed(storage_of(*t)); };
  if (std::ranges::count_if(tensors, is_lent) < 2) return false;
  std::vector<const Tensor*> lent;
  std::ranges::copy_if(tensors, std::back_inserter(lent), is_lent);
  std::ranges::sort(lent, {}, [](const Tensor* t) {
    return std::pair(reinterpret_cast<uintptr_t>(storage_of(*t).data), storage_of(*t).id);
  });
  // One may reach over several that begin behind it.
  const Tensor* longest = lent[0];
  auto end = [](const Tensor* t) {
    return reinterpret_cast<uintptr_t>(storage_of(*t).data) + storage_of(*t).bytes;
  };
  for (const Tensor* t : std::span(lent).subspan(1)) {
    if (share_lent_memory(*longest, *t)) return true;
    if (end(t) > end(longest)) longest = t;
  }
  return false;
}

int64_t first_byte(const Tensor& t) {
  return impl_of(t)->storage_offset * static_cast<int64_t>(itemsize(t.dtype()));
}

int64_t address(const Tensor& t) { return reinterpret_cast<intptr_t>(t.head()->data); }

}  // namespace

bool share_lent_memory(const Tensor& a, const Tensor& b) {
  const Storage &x = storage_of(a), &y = storage_of(b);
  if (&x == &y || !is_exposed(x) || !is_exposed(y) || x.fake || y.fake || x.device != y.device)
    return false;
  auto begin = [](const Storage& s) { return reinterpret_cast<uintptr_t>(s.data); };
  return begin(x) < begin(y) + y.bytes && begin(y) < begin(x) + x.bytes;
}

std::vector<Overlap> overlaps_of(std::span<const Tensor* const> tensors) {
  std::vector<Overlap> out;
  if (!may_share_storage(tensors) && !any_share_lent_memory(tensors)) return out;
  for (uint32_t i = 1; i < tensors.size(); ++i)
    for (uint32_t j = 0; j < i; ++j) {
      const Tensor &a = *tensors[j], &b = *tensors[i];
      if (!a.defined() || !b.defined()) continue;
      if (may_overlap(a, b)) out.push_back({j, i, first_byte(b) - first_byte(a)});
      if (share_lent_memory(a, b)) out.push_back({j, i, address(b) - address(a)});
    }
  return out;
}

}  // namespace tenon
