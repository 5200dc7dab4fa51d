// Items of a schedule that the vendor's libraries do.
#pragma once

#include "executable.h"

namespace inductor_cuda {

/// Has the products whose sizes are known planned and loaded while the rest is made.
void begin_products(Parts& parts);
/// Makes the products, convolutions and attentions of a schedule. Kernels of our own that products
/// need come from the host's cache where there is a context, and from `saved` where it is given.
/// Throws `error` (TN_FAILED_PRECONDITION) where cuDNN is to do an item and cannot.
void make_library_items(tn_ctx* ctx, Parts& parts, const SavedImages* saved = nullptr);

}  // namespace inductor_cuda
