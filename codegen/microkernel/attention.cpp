#include "attention.h"

namespace microkernel {

int64_t attention_queries() { return kernels().f32.panel; }

int64_t attention_scratch(int64_t channels, int64_t value_channels) {
  const ProductKernels& k = kernels().f32;
  int64_t value_row = (value_channels + k.lanes - 1) / k.lanes * k.lanes;
  return k.panel * (channels + key_block + 8) + key_block * value_row;
}

void attend(const AttentionTile& tile) { kernels().attend(tile); }

}  // namespace microkernel
