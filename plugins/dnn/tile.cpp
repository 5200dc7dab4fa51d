// Tiles: by our transposition where it is faster, else by oneDNN's reorder.
#include "tile.h"

#include "transpose.h"
#include "types.h"

#include <algorithm>

namespace onednn {

bool is_channels_last(int64_t channels, int64_t width, const int64_t* strides) {
  return (strides[1] == 1 || channels == 1) && (strides[3] == channels || width == 1) &&
         strides[2] == channels * width;
}

namespace {

// In the tensor's strides; the image dimension spans all of it.
Desc describe(const Part& p) {
  const int64_t* by = p.strides;
  int64_t span = std::max({p.channels * by[1], p.rows * by[2], p.width * by[3]});
  return Desc({1, p.channels, p.rows, p.width}, data_type(p.dtype),
              Dims{span, by[1], by[2], by[3]});
}

}  // namespace

Move::Move(const Part& part, const Desc& tile, Direction direction, int64_t sets)
    : kind_(Kind::transpose),
      direction_(direction),
      channels_(part.channels),
      positions_(part.rows * part.width),
      plane_(part.strides[1]),
      element_(element_size(part.dtype)) {
  bool planes = part.strides[3] == 1 && (part.strides[2] == part.width || part.rows == 1);
  if (planes && transposes_well(channels_, positions_)) return;
  kind_ = Kind::reorder;
  Desc tensor = describe(part);
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
