// Products and convolutions in the forms that there is code for.
#pragma once

#include "products/convolution_steps.h"

namespace inductor_cuda {

/// Products stay what they are and convolutions become products, as products/product_steps.h and
/// products/convolution_steps.h have it, or stay where cuDNN does them. Each of the others becomes a fold over the elements that it
/// sums, and a loop that makes its result of that. Fusion goes on
/// from there. Throws `declined` for recurrent layers, which the host decomposes where a backend does not
/// keep them.
void replace_library_steps(loopir::Program& program, const StepOptions& options);

}  // namespace inductor_cuda
