// Overlapping tensors of a call.
#include "guards/overlap.h"

#include "core/inline_vector.h"
#include "core/tensor/exposure.h"
#include "core/tensor/tensor_impl.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace tenon {

namespace {

const Storage& storage_of(const Tensor& t) { return *impl_of(t)->storage_ref.get(); }

// A table with open addressing over the numbers of storages; 0 is none's.
bool any_share_storage(std::span<const Tensor* const> tensors) {
  const int bits = std::bit_width(2 * tensors.size());
  InlineVector<uint64_t, 128> table(size_t{1} << bits);
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    const uint64_t id = impl_of(*t)->storage_id;
    size_t at = id * 0x9E3779B97F4A7C15u >> (64 - bits);
    while (table[at] && table[at] != id) at = (at + 1) & (table.size() - 1);
    if (table[at]) return true;
    table[at] = id;
  }
  return false;
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

void add_overlap(std::vector<Overlap>& out, const Tensor& a, uint32_t first, const Tensor& b,
                 uint32_t second) {
  if (may_overlap(a, b)) out.push_back({first, second, first_byte(b) - first_byte(a)});
  if (share_lent_memory(a, b)) out.push_back({first, second, address(b) - address(a)});
}

std::vector<Overlap> overlaps_of(std::span<const Tensor* const> tensors) {
  std::vector<Overlap> out;
  if (!any_share_storage(tensors) && !any_share_lent_memory(tensors)) return out;
  for (uint32_t i = 1; i < tensors.size(); ++i)
    for (uint32_t j = 0; j < i; ++j) {
      const Tensor &a = *tensors[j], &b = *tensors[i];
      if (a.defined() && b.defined()) add_overlap(out, a, j, b, i);
    }
  return out;
}

}  // namespace tenon
