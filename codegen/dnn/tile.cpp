// Tiles: by our transposition where it is faster, else by oneDNN's reorder.
#include "tile.h"

#include "transpose.h"
#include "types.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace onednn {

bool is_channels_last(int64_t channels, const int64_t (&space)[3], const int64_t* strides) {
  int64_t step = channels;
  bool is_dense = strides[1] == 1 || channels == 1;
  for (int d = 2; d >= 0; --d) {
    is_dense &= strides[2 + d] == step || space[d] == 1;
    step *= space[d];
  }
  return is_dense;
}

namespace {

// In the tensor's strides; the image dimension spans all of it.
Desc describe(const Part& p, const Dims& sizes) {
  Dims by{1, p.strides[1]};
  by.insert(by.end(), p.strides + 7 - sizes.size(), p.strides + 5);
  for (size_t d = 1; d < sizes.size(); ++d) by[0] = std::max(by[0], sizes[d] * by[d]);
  return Desc(sizes, data_type(p.dtype), by);
}

/// Whether the positions of a channel lie one behind the other.
bool has_dense_planes(const Part& p, const Dims& sizes) {
  const int64_t* by = p.strides + 7 - sizes.size();  // of the first dimension of space
  int64_t step = 1;
  bool is_dense = true;
  for (size_t d = sizes.size(); d-- > 2;) {
    is_dense &= by[d - 2] == step || (sizes[d] == 1 && d + 1 < sizes.size());
    step *= sizes[d];
  }
  return is_dense;
}

}  // namespace

Move::Move(const Part& part, const Desc& tile, Direction direction, int64_t sets)
    : kind_(Kind::transpose),
      direction_(direction),
      plane_(part.strides[1]),
      element_(element_size(part.dtype)) {
  Dims sizes = tile.dims();
  channels_ = sizes[1];
  positions_ = std::accumulate(sizes.begin() + 2, sizes.end(), int64_t{1}, std::multiplies<>());
  if (has_dense_planes(part, sizes) && transposes_well(channels_, positions_)) return;
  kind_ = Kind::reorder;
  Desc tensor = describe(part, sizes);
  bool in = direction == Direction::to_tile;
  reorder_ = in ? Reorder(tensor, tile, sets) : Reorder(tile, tensor, sets);
}

void Move::operator()(const void* from, void* to) const {
  if (kind_ == Kind::reorder) return reorder_(from, to);
  if (direction_ == Direction::to_tile)
    to_channels_last(from, plane_, to, channels_, positions_, element_);
  else
    from_channels_last(from, to, plane_, channels_, positions_, element_);
}

}  // namespace onednn
