// A product by a kernel of our own: tiles through shared memory, any strides.
//
// Problem: the vendor's library may be missing, or have no algorithm for a problem. Model: a block
// of 256 threads makes a tile of 64 x 64 sums, 4 x 4 a thread, in f32 (f64 for f64); 16 columns of
// the left tile and 16 rows of the right one at a time lie in shared memory. Elements beyond the
// matrices are 0 there. Cost: no tensor cores, so some tenths of the library's speed at best.
#pragma once

#include "frame.h"

#include "inductor_cuda/products/problem.h"

#include <string>

namespace inductor_cuda {

/// What the code of such a kernel depends on.
struct ProductKernel {
  int32_t dtype = TN_F32, result_dtype = TN_F32;  // of operands; of the result and what is added
  std::optional<int32_t> bias_dtype;
  bool adds = false;
  Function function = Function::identity;
  bool contracts = true;

  std::string text() const;
};

constexpr int64_t product_tile = 64;  // rows and columns of a block
constexpr unsigned product_threads = 256;

/// The parameters of a launch, in order. Pointers are to first elements; those that a kernel does not use
/// are not read. Strides are in elements.
struct ProductArguments {
  const void *left, *right, *bias, *added;
  void* result;
  int64_t m, n, k;
  int64_t left_batch, left_row, left_column;
  int64_t right_batch, right_row, right_column;
  int64_t result_batch, result_row, result_column;
  int64_t bias_column;
  double alpha;
};
constexpr size_t product_words = sizeof(ProductArguments) / 8;

/// Adds the function `symbol`. Blocks: tiles of a row of tiles first, then rows, then batches.
void emit_product(llvm::Module& module, const ProductKernel& kernel, const std::string& symbol,
                  ThreadTarget& target);

}  // namespace inductor_cuda
