// What is found out about the parts of an executable while they are made, whoever makes the code of
// its kernels.
#pragma once

#include "executable.h"

namespace inductor {

/// Whether a convolution or a gradient of one has a fast kernel, for the sizes seen and on every
/// processor that the code is for.
bool has_fast_kernel(const loopir::Program& p, const loopir::Step& step, const RunOptions& options);
bool needs_layout(const loopir::Program& p, const loopir::Convolution& c,
                  const RunOptions& options);
/// Whether a library does the item, with its epilogue, in one fast call for the sizes seen.
bool is_fast(const loopir::Program& p, const loopir::Item& item, const RunOptions& options);
/// By buffer: whether it is static once what is prepacked has run.
std::vector<bool> static_when_prepacked(Parts& parts);
void find_regions_of(Parts& parts, const std::vector<loopir::Nest>& nests,
                     const std::vector<bool>& is_static);

/// What a call asks of each item: memory, and arguments of the ops that the host runs.
void describe_items(Parts& parts);
/// Statistics of the items and of the regions.
void count_items(Parts& parts);
void count_regions(Parts& parts);

}  // namespace inductor
