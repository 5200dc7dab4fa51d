// max_autotune: which way to do a product or a convolution, by trying.
#pragma once

#include <inductor_runtime/executable.h>

namespace inductor {

/// Sets `way` of the products and convolutions of known sizes that more than one way can do. What
/// was found is kept: for this process, and in the host's cache. Results of other ways may differ
/// in rounding. Cost: some 20 ms for each way of each distinct shape, on the host's threads.
void choose_ways(tn_ctx* ctx, Parts& parts, const std::vector<bool>& is_static);

}  // namespace inductor
