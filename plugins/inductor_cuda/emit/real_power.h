// pow of doubles as code of a module.
#pragma once

#include <llvm/IR/Function.h>

namespace inductor_cuda {

/// Gives a body to a declared function double(double, double): x to the power y, special values as
/// C's pow. Within 1 ulp where |y log x| < 8, within 1e-14 of the result up to the borders of doubles.
void define_real_power(llvm::Function& f);

}  // namespace inductor_cuda
