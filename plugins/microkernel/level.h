// The kernels of one level of vectors; each kernels_LEVEL.cpp includes them with its own flags.
//
// Nothing here may be shared between the levels: an inline function that the linker takes from the
// object with the widest vectors would fail on other machines. So all lives in a namespace that is
// the level's, and no header of the standard library with functions in it is used.
#pragma once

#include "kernels.h"

#include "attention_kernel.h"
#include "pack_kernel.h"
#include "product_kernel.h"
#include "winograd_kernel.h"

namespace microkernel::MICROKERNEL_LEVEL {

constexpr Kernels table() {
  return {
      panel_vectors * Lanes::count, Lanes::count, &pack, &multiply, &attend, &convolve_winograd};
}

}  // namespace microkernel::MICROKERNEL_LEVEL
