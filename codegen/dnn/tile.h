// A part of an image in a channels-last tile, and back.
//
// oneDNN's fast convolutions want dense channels-last tensors. What lies otherwise (NCHW, a range
// of the channels) is brought into a tile that stays in the second-level cache.
#pragma once

#include "engine.h"

#include <cstdint>

namespace onednn {

/// A part of one image with the sizes of a tile.
struct Part {
  const int64_t* strides;  ///< n, c, d, h, w of the tensor; a tile without depth has h and w
  int32_t dtype;
};

/// Whether a tensor's images are dense channels-last as a whole.
bool is_channels_last(int64_t channels, const int64_t (&space)[3], const int64_t* strides);

/// One way between a tensor and a tile; without a plan the tensor itself is the tile.
class Move {
 public:
  enum class Direction { to_tile, from_tile };
  Move() = default;
  /// `sets`: how many threads do it at the same time.
  Move(const Part& part, const Desc& tile, Direction direction, int64_t sets);
  explicit operator bool() const { return kind_ != Kind::none; }
  void operator()(const void* from, void* to) const;

 private:
  enum class Kind { none, transpose, reorder };
  Kind kind_ = Kind::none;
  Direction direction_ = Direction::to_tile;
  int64_t channels_ = 0, positions_ = 0, plane_ = 0, element_ = 0;
  Reorder reorder_;
};

}  // namespace onednn
