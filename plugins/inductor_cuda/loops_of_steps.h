// Products and convolutions as loops, for machines without a library for them.
#pragma once

#include <loopir/program.h>

namespace inductor_cuda {

/// Each product, convolution and gradient of one becomes a fold over the elements that it sums, and
/// a loop that makes its result of that. Fusion goes on from there. Throws `declined` for attention
/// and recurrent layers, which the host decomposes where a backend does not keep them.
void replace_library_steps(loopir::Program& program);

}  // namespace inductor_cuda
