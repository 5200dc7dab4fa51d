// Operations of the library that a run along a recorded path takes as one.
//
// Problem: the update of one parameter is up to twenty small operations, so comparing each with the
// recorded one is most of what it costs to follow a training step. Model: a unit is a run of
// operations that depend on nothing but its tensors and what its number stands for, such as the
// options of an optimiser, and that leave nothing but what they write to these tensors. A recording
// remembers where units lie in its graph; a later run that comes to such a place with the same number
// and with tensors that fit has done all of the unit's operations. Otherwise they are compared one
// by one, as if there were no unit.
//
// Threads: a unit lives on one thread.
#pragma once

#include "core/dispatch.h"

#include <tenon/tensor.h>

#include <span>

namespace tenon {

class OpUnit {
 public:
  /// `number` is one that nothing else has, see new_op_unit_number(); `tensors` are defined and outlive
  /// the unit.
  OpUnit(uint64_t number, std::span<const Tensor* const> tensors);
  ~OpUnit();
  OpUnit(const OpUnit&) = delete;

  /// Whether there is nothing left to do: its operations must not be called.
  bool is_done() const { return is_done_; }
  uint64_t number() const { return number_; }
  std::span<const Tensor* const> tensors() const { return tensors_; }

  /// Where it began in a recording.
  struct Start {
    uint64_t trace = 0;  ///< which one; 0: in none
    size_t n_nodes = 0, n_values = 0;
  };

 private:
  const uint64_t number_;
  const std::span<const Tensor* const> tensors_;
  bool is_done_ = false;
  Start start_;
};

/// Of this process.
uint64_t new_op_unit_number();

/// What the thread's run or recording makes of units; filled in by capture/op_units.cpp.
extern bool (*take_op_unit_slot)(const OpUnit& unit);
extern OpUnit::Start (*begin_op_unit_slot)();
extern void (*end_op_unit_slot)(const OpUnit& unit, const OpUnit::Start& start);

}  // namespace tenon
