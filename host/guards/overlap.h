// Which tensors of a call share elements: what code that writes a tensor takes for granted.
#pragma once

#include <tenon/tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

/// Two tensors, by place, that share elements, and how far apart they begin.
struct Overlap {
  uint32_t first, second;
  int64_t bytes;  ///< from the first element of `first` to that of `second`
  friend bool operator==(const Overlap&, const Overlap&) = default;
};

/// Whether tensors of different storages lie in one piece of memory, which the program has lent or
/// whose address it was given.
bool share_lent_memory(const Tensor& a, const Tensor& b);

/// Adds how two tensors, by place, share elements, if they do.
void add_overlap(std::vector<Overlap>& out, const Tensor& a, uint32_t first, const Tensor& b,
                 uint32_t second);

/// All overlapping pairs, by `second`, then `first`; undefined tensors overlap nothing. Cost: one
/// pass while all storages are distinct, O(n²) for those that share one or lie in lent memory.
std::vector<Overlap> overlaps_of(std::span<const Tensor* const> tensors);

}  // namespace tenon
