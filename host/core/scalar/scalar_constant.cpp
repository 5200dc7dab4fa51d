// Constants of scalar programs; see scalar_constant.h.
#include "core/scalar/scalar_constant.h"

#include "core/cpu_level.h"
#include "core/error.h"

#include <cstring>

namespace tenon {

const BlockKernels& block_kernels() {
  static const BlockKernels* const tables[] = {&base::block_kernels, &avx2::block_kernels,
                                               &avx512::block_kernels};
  return *tables[static_cast<int>(cpu_level())];
}

BlockType block_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return BlockType::f32;
    case Dtype::f64:
      return BlockType::f64;
    case Dtype::i8:
      return BlockType::i8;
    case Dtype::u8:
      return BlockType::u8;
    case Dtype::i16:
      return BlockType::i16;
    case Dtype::i32:
      return BlockType::i32;
    case Dtype::i64:
      return BlockType::i64;
    case Dtype::bool_:
      return BlockType::bool_;
    case Dtype::f16:
      return BlockType::f16;
    case Dtype::bf16:
      return BlockType::bf16;
    default:
      fail(ErrorCode::unsupported, "no kernel computes in {}; convert the tensor with to()", dtype);
  }
}

uint64_t constant_bits(ScalarLiteral value, Dtype compute) {
  uint64_t bits = 0;
  auto from = static_cast<int>(value.is_float ? BlockType::f64 : BlockType::i64);
  block_kernels().convert[from][static_cast<int>(block_type(compute))](&bits, &value.bits, 1);
  return bits;
}

bool has_kernel(ScalarCode code, Dtype compute) {
  auto type = static_cast<int>(block_type(compute));
  return block_kernels().primitive[static_cast<int>(code)][type] != nullptr;
}

ScalarLiteral fold_constant(ScalarCode code, Dtype compute, const ScalarLiteral* operands) {
  auto type = static_cast<int>(block_type(compute));
  BlockFn run = block_kernels().primitive[static_cast<int>(code)][type];
  ensure(run != nullptr, "a constant of a primitive that its type does not have");
  uint64_t words[3], bits = 0;
  const void* in[3] = {&words[0], &words[1], &words[2]};
  for (int i = 0; i < info_of(code).operands; ++i) words[i] = constant_bits(operands[i], compute);
  run(&bits, in, 1, 7);
  ScalarLiteral result{0, is_floating(compute)};
  auto to = static_cast<int>(result.is_float ? BlockType::f64 : BlockType::i64);
  block_kernels().convert[type][to](&result.bits, &bits, 1);
  return result;
}

}  // namespace tenon
