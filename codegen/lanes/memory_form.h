// Numbers as memory holds them, and as registers do.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>

namespace lanes {

/// How f32 becomes bf16: by an instruction of the processor, or from its bits.
enum class ToBf16 : uint8_t { by_bits, by_instruction };

/// The type of a value of this dtype in memory: i8 for bool, bits for the narrow floats. LLVM takes
/// vectors of those apart where they are loaded under a mask, and calls functions for single
/// elements of bf16.
llvm::Type* memory_type(llvm::LLVMContext& c, int32_t dtype);
llvm::Value* from_memory(llvm::IRBuilderBase& b, llvm::Value* loaded, int32_t dtype);
llvm::Value* to_memory(llvm::IRBuilderBase& b, llvm::Value* value, int32_t dtype, ToBf16 to_bf16);
/// The bits that from_memory() made a number of bf16 or f16 of; null for one that was computed. Moved
/// as they are, they need no instruction, and a NaN keeps its bits.
llvm::Value* bits_as_loaded(llvm::Value* value, int32_t dtype);
/// Of an element of this dtype.
llvm::Align alignment(int32_t dtype);

}  // namespace lanes
