// Operations of the library that a run along a recorded path takes as one.
//
// Problem: the update of one parameter is up to twenty small operations, so comparing each with the
// recorded one is most of what it costs to follow a training step. Model: a unit is a run of
// operations that depend on nothing but its tensors and what its number stands for, such as the
// options of an optimiser, and on facts that are compared word by word, and that leave nothing but
// what they write to these tensors and tensors that are named as results. A recording remembers
// where units lie in its graph; a later run that comes to such a place with the same number and facts
// and with tensors that fit has done all of the unit's operations. Otherwise they are compared one
// by one, as if there were no unit.
//
// Threads: a unit lives on one thread.
#pragma once

#include "core/dispatch.h"

#include <tenon/tensor.h>

#include <exception>
#include <span>
#include <vector>

namespace tenon {

class OpUnit {
 public:
  /// `number` is one that nothing else has, see new_op_unit_number(); `tensors` and `facts` outlive the
  /// unit.
  OpUnit(uint64_t number, std::span<const Tensor* const> tensors,
         std::span<const uint64_t> facts = {});
  ~OpUnit();
  OpUnit(const OpUnit&) = delete;

  /// Whether there is nothing left to do: its operations must not be called.
  bool is_done() const { return is_done_; }
  uint64_t number() const { return number_; }
  std::span<const Tensor* const> tensors() const { return tensors_; }
  std::span<const uint64_t> facts() const { return facts_; }
  /// Of a unit that was called, told at its end; of one that is done, in the same order.
  std::vector<Tensor> results;
  std::vector<uint64_t> notes;  ///< likewise
  /// Where it began in a recording.
  struct Start {
    uint64_t trace = 0;  ///< which one; 0: in none
    size_t n_nodes = 0, n_values = 0;
  };
  /// A recording has begun meanwhile, and has its operations so far.
  void begin(const Start& start) { start_ = start; }
  /// What was called is no unit after all.
  void forget() { start_ = {}; }

  /// Whether a unit may be done, or is to be remembered; else there is no need of one.
  static bool is_of_use();
  /// Whether the thread is within one.
  static bool is_any_open() { return n_open_ > 0; }

 private:
  const uint64_t number_;
  const std::span<const Tensor* const> tensors_;
  const std::span<const uint64_t> facts_;
  const int n_exceptions_ = std::uncaught_exceptions();
  bool is_done_ = false;
  Start start_;
  static constinit thread_local int n_open_;
};

/// Of this process.
uint64_t new_op_unit_number();

/// What the thread's run or recording makes of units; filled in by capture/op_units.cpp.
extern bool (*may_have_op_unit_slot)();
extern bool (*take_op_unit_slot)(OpUnit& unit);
extern OpUnit::Start (*begin_op_unit_slot)();
extern void (*end_op_unit_slot)(const OpUnit& unit, const OpUnit::Start& start);

}  // namespace tenon
