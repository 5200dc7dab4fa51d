// The tensors that an op of the host is lent over memory of a call.
//
// Problem: operands lie in the arena, whose memory later items and calls use again. An op of the
// program or of a plugin may keep what it is given, as it may where nothing is compiled. Model: once
// the op has returned, it is looked whether somebody holds a lent tensor or a view of it. The memory
// is left to him then, as it is, and the call goes on in a copy. An op that was seen to keep its
// operands gets copies from the next call on, so that what it keeps is not whole arenas. Cost: of
// an op that keeps nothing two counts are read for each operand.
#pragma once

#include "memory.h"
#include "prepacking.h"

#include <tenon/plugin.hpp>

#include <atomic>
#include <vector>

namespace inductor {

/// What a call lends of.
struct CallMemory {
  Memory& arena;
  std::vector<Memory>& blocks;
  Prepacked* prepacked;  ///< or null
  std::vector<void*>& pointers;
  const std::vector<bool>& in_arena;  ///< by buffer, as the pointers
};

/// The operands of one op in one call.
class LentOperands {
 public:
  /// `operands`: empty, kept by the caller for its memory. `keeps`: whether the op once kept some.
  LentOperands(CallMemory memory, std::vector<tenon::plugin::tensor>& operands,
               std::atomic<bool>& keeps)
      : memory_(memory), operands_(operands), keeps_(keeps) {}

  /// Runs `f`, which runs the op and lets go of its results where is_lent() holds.
  template <class F>
  void during(F f) {
    try {
      f();
    } catch (...) {
      take_back();
      throw;
    }
    take_back();
  }
  /// What the op gets for an operand: `t`, or a copy of it. Lives until `f` is over.
  tn_tensor* give(tenon::plugin::tensor t);
  /// Whether the tensor lies in the call's memory.
  bool is_lent(const tn_tensor* t) const;

 private:
  void take_back();
  void move_out_of(Memory& left);

  CallMemory memory_;
  std::vector<tenon::plugin::tensor>& operands_;
  std::atomic<bool>& keeps_;
};

}  // namespace inductor
