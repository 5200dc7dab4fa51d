// Tables of block kernels: one function for each primitive, compute type and CPU level.
//
// Included by files that are compiled with the options of a level, so no inline functions here.
#pragma once

#include "core/scalar/fast_formulas.h"

#include <cstdint>

namespace tenon {

/// The types that kernels know, in table order; the first `n_compute_types` compute, the 16-bit
/// floats are converted only.
enum class BlockType : uint8_t { f32, f64, i8, u8, i16, i32, i64, bool_, f16, bf16 };
inline constexpr int n_compute_types = 8;
inline constexpr int n_block_types = 10;

/// Elements of a block: four operands of 8 bytes take 16 KiB, so they stay in the first cache.
inline constexpr int64_t block_size = 512;

/// Computes n elements. Bit i of `uniform`: operand i is a single value. `out` may be one of the
/// operands itself when its elements have the same size.
using BlockFn = void (*)(void* out, const void* const* in, int64_t n, unsigned uniform);
using ConvertFn = void (*)(void* out, const void* in, int64_t n);

/// Groups of four numbers, each from two blocks of philox(seed, block) and the one behind; `out` has
/// room for whole rows of `random_row` groups, which may be written beyond the n-th.
using RandomFn = void (*)(double* out, uint64_t seed, uint64_t block, int64_t n);
inline constexpr int64_t random_row = 16;

/// The formulas of core/scalar/fast_formulas.h.
enum class FastFormula : uint8_t {
#define TENON_FAST(name, inputs, numbers) name,
  TENON_FAST_FORMULAS(TENON_FAST)
#undef TENON_FAST
      none
};

struct BlockKernels {
  BlockFn primitive[64][n_compute_types];             ///< by code and operand type; null: refused
  ConvertFn convert[n_block_types][n_block_types];    ///< from, to
  BlockFn fast[static_cast<int>(FastFormula::none)];  ///< in f32
  RandomFn uniform;                                   ///< [0, 1) with 53 bits
  RandomFn normal;  ///< within 1e-12 of what libm gives; NaN: not so
};

namespace base {
extern const BlockKernels block_kernels;
}
namespace avx2 {
extern const BlockKernels block_kernels;
}
namespace avx512 {
extern const BlockKernels block_kernels;
}

/// The tables of cpu_level().
const BlockKernels& block_kernels();

}  // namespace tenon
