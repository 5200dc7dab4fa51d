// Running formulas: broadcasting, promotion, results and the in-place form of every pointwise row.
#pragma once

#include "ops/op_table.h"

#include <vector>

namespace tenon {

/// The kernel of every row with a formula.
void run_pointwise(const CallArgs& call);
/// The program of one of the row's formulas.
const ScalarProgram& pointwise_program(const OpEntry& op, int entry);
/// Which of the row's formulas the call is for.
int pointwise_entry(const OpEntry& op, const CallArgs& call);
/// Gives an op whose row has one formula without a recording function its program; before anybody
/// calls it.
void set_pointwise_program(const OpEntry& op, ScalarProgram program);
/// A call seen as inputs of a formula; borrows the program and the tensors.
struct FormulaCall {
  const ScalarProgram* program;
  Dtype compute;
  std::vector<const Tensor*> tensors;  ///< by input; null: a number
  std::vector<Number> numbers;         ///< by input
  Metas results;
};
FormulaCall formula_call(const CallArgs& call);
/// Dtype, broadcast shape and memory order of the results.
void pointwise_meta(const CallArgs& call, Metas& metas);

/// `op_`: computes into self where no other operand partly overlaps it, else through a result of
/// its own; bumps the version and returns self.
void run_derived_in_place(const CallArgs& call);
/// Throws UserError unless the functional result fits self in shape and can be cast to its dtype.
void check_derived_in_place(const CallArgs& call);

}  // namespace tenon
