// What the levels of vectors have in common: one table of kernels for each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace microkernel {

/// What is done to an element of a result, in order; `add` takes the operand's element that lies
/// where the result's does.
struct Finish {
  enum class Kind : uint8_t { relu, hardswish, hardsigmoid, add };
  Kind kind;
  const float* operand = nullptr;
};

/// result = left x right, by rows [0, rows) and panels of packed columns.
struct ProductBlock {
  int64_t rows, k, columns;  // of `packed`, which begins with a panel
  const float* left;
  int64_t left_row;
  const float* packed;
  const float* bias;  // of the first column, or null
  float* result;
  int64_t result_row;
  const Finish* finish;
  size_t n_finish;
};

struct Kernels {
  int64_t panel;  // columns of a full panel
  int64_t lanes;  // the last panel is as wide as its vectors
  void (*multiply)(const ProductBlock& block);
};

extern const Kernels kernels_base, kernels_avx2, kernels_avx512;

/// Those of this CPU.
const Kernels& kernels();
/// Others, in all that is packed and run from now on; for tests.
void use(const Kernels& kernels);

}  // namespace microkernel
