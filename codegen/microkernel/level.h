// The kernels of one level of vectors; each kernels_LEVEL.cpp includes them with its own flags.
//
// Nothing here may be shared between the levels: an inline function that the linker takes from the
// object with the widest vectors would fail on other machines. So all lives in a namespace that is
// the level's, and no header of the standard library with functions in it is used.
#pragma once

#include "kernels.h"

#include "attention_kernel.h"
#include "direct_kernel.h"
#include "pack_kernel.h"
#include "product_kernel.h"
#include "recurrent_kernel.h"
#include "winograd_kernel.h"

namespace microkernel::MICROKERNEL_LEVEL {

template <class T>
constexpr ProductKernels products() {
  constexpr int lanes = LanesOf<T>::count;
  return {panel_vectors * lanes, lanes, &pack<T>, &multiply<Plain<T>>};
}

static int64_t rows_of_tile(int64_t vectors) { return tile_rows(vectors); }

constexpr Kernels table(const ProductKernels* bf16 = nullptr) {
  return {products<float>(),
          products<double>(),
          bf16,
          &attend,
          &convolve_winograd,
          direct_rows_here,
          &sum_directly,
          &rows_of_tile,
          {&apply_gates<LstmCell>, &apply_gates<GruCell>, &apply_gates<TanhCell>,
           &apply_gates<ReluCell>}};
}

}  // namespace microkernel::MICROKERNEL_LEVEL
