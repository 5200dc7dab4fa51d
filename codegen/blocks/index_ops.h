// Operations of indices as steps: over numbers, and over blocks of places.
#pragma once

#include "code.h"

#include <loopir/program.h>

#include <tenon/plugin.h>

namespace blocks {

using loopir::IndexKind;

inline Do number_op(IndexKind kind) {
  switch (kind) {
    case IndexKind::floordiv:
      return Do::floordiv;
    case IndexKind::mod:
      return Do::mod;
    case IndexKind::min:
      return Do::least;
    default:
      return Do::most;
  }
}
inline uint16_t primitive_of(IndexKind kind) {
  switch (kind) {
    case IndexKind::floordiv:
      return TN_F_FLOORDIV;
    case IndexKind::mod:
      return TN_F_MOD;
    case IndexKind::min:
      return TN_F_MIN;
    default:
      return TN_F_MAX;
  }
}

}  // namespace blocks
