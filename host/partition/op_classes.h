// What the partitioner knows about an op: whether it is cheap, fusible, a view, random.
//
// The rows of the op table tell where they can (views, pointwise ops, random ops); a short table
// tells the rest by the name of the packet, which is the op without its overload ("aten.mul"). Ops
// that no row knows go by the table alone.
//
// Threads: pure functions over constant tables.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::partition {

/// Bits of an op.
enum OpClass : uint16_t {
  class_view = 1,            ///< costs nothing; never banned from recomputation
  class_random = 2,          ///< fuses like a pointwise op, though it is random
  class_compute = 4,         ///< matrix products and the like: the denylist
  class_recomputable = 8,    ///< the allowlist
  class_seeded = 16,         ///< draws random numbers: twice is not the same
  class_cat = 32,            ///< producers fuse into it
  class_getitem = 64,        ///< reads one result of a tuple
  class_keep = 128,          ///< equal calls are not merged: random ops and empty
  class_lift = 256,          ///< constants made fresh: never banned
  class_collective = 512,    ///< talks to other processes
  class_copy = 1024,         ///< writes its second argument into its first
  class_data_number = 2048,  ///< a number that depends on data
};

/// "aten.mul" of "aten.mul.Tensor"; names without an overload are their own packets.
std::string_view packet_of(std::string_view target);

/// The bits of a call's target. O(1).
uint16_t classes_of(std::string_view target);

/// Recomputable or random: may be computed inside the loop of a neighbour.
constexpr bool fuses(uint16_t classes) {
  return (classes & (class_recomputable | class_random)) != 0;
}

}  // namespace tenon::partition
