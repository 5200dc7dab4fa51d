// Which steps stay products of a library, and in which form.
//
// Problem: the library takes matrices with one stride of 1, adds a bias of the result's dtype, and
// applies few functions. Method: what it does not take is put around it as loops, which fusion then
// joins with their neighbours: copies of operands that lie otherwise, biases of f64. A product of
// four rows or fewer is bound by reading the other matrix and becomes a sum, whose kernel reads 16
// bytes at once and takes in what stands before and behind it.
#pragma once

#include "step_loops.h"

#include <loopir/kernel.h>

namespace inductor_cuda {

class ProductSteps {
 public:
  explicit ProductSteps(StepLoops& loops) : l_(loops), x_(loops.x) {}
  /// False, with nothing added, where it is better as a sum.
  bool add(loopir::Product p);

 private:
  bool has_few_rows(const loopir::Product& p) const;
  /// In new memory where the library has no form for its strides.
  loopir::View readable(const loopir::View& v, const std::string& name);

  StepLoops& l_;
  loopir::Expressions& x_;
};

/// Whether products here do this epilogue; convolutions have none.
bool can_absorb(const loopir::Program& program, const loopir::Item& item);

}  // namespace inductor_cuda
