// Where the handle of a captured tensor is kept, so that later calls find what it holds by then.
#pragma once

#include "capture/recording.h"

#include <tenon/detail/compiled.h>

namespace tenon {

/// `real` is the handle that the body has used.
ImplicitInput locate(const Tensor& real, const detail::Body& body);

}  // namespace tenon
