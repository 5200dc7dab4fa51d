// as_strided() with an offset names elements by their place in the memory, wherever the tensor
// begins that it is called on: such code is for tensors that begin where the recorded one did.
#include "core/error.h"
#include "guards/guard_kind.h"

#include <algorithm>

namespace tenon {

using detail::Leaves;

static bool begins_there(const PlaceGuard& guard, const Leaves& leaves) {
  return impl_of(*leaves.tensors[guard.tensor])->storage_offset == guard.offset;
}

bool PlaceGuards::begin_there(const GuardSet& g, const Leaves& leaves) {
  return std::ranges::all_of(g.places,
                             [&](const PlaceGuard& p) { return begins_there(p, leaves); });
}

void PlaceGuards::record(GuardSet& g, const GuardedCall& call) {
  for (uint32_t leaf : call.by_place)
    g.places.push_back({leaf, call.leaves.tensors[leaf]->storage_offset()});
}

std::string PlaceGuards::why(const GuardSet& g, const Leaves& leaves) {
  auto other = std::ranges::find_if_not(
      g.places, [&](const PlaceGuard& p) { return begins_there(p, leaves); });
  return message(
      "tensor argument {}: storage offset expected {}, found {}, and the body uses as_strided with "
      "an offset, which counts from where the memory begins; leave the offset out",
      other->tensor, other->offset, leaves.tensors[other->tensor]->storage_offset());
}

std::string PlaceGuards::text(const GuardSet& g) {
  std::string out;
  for (const PlaceGuard& p : g.places)
    out += message("tensor {}: storage offset {}\n", p.tensor, p.offset);
  return out;
}

}  // namespace tenon
