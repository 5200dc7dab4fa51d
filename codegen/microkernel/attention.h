// Scaled dot-product attention of one tile of queries, in f32.
#pragma once

#include "kernels.h"

namespace microkernel {

/// Queries of a tile, at most.
int64_t attention_queries();

/// Floats of scratch memory that run() of a tile needs, for these sizes of a row.
int64_t attention_scratch(int64_t channels, int64_t value_channels);

/// result[m, e] = softmax(scale * query[m, d] x key[n, d]^T + mask[m, n]) x value[n, e], a query
/// that may see no key giving 0. Rows are dense; `_row` is the step from one to the next. Different
/// tiles may run at the same time, each with scratch memory of its own, aligned to 64 bytes.
void attend(const AttentionTile& tile);

}  // namespace microkernel
