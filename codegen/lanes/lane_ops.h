// One scalar primitive of a formula as LLVM IR, on a scalar or on a vector of lanes.
#pragma once

#include "vector_math.h"

#include <loopir/indices.h>

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <span>

namespace lanes {

/// The type of a value of this dtype in a register: i1 for bool, float for the narrow floats.
llvm::Type* lane_type(llvm::LLVMContext& c, int32_t dtype);
/// `scalar`, or a vector of `width` of it where width > 0.
llvm::Type* widened(llvm::Type* scalar, unsigned width);

llvm::Value* constant_of(llvm::Type* type, double number);
llvm::Value* constant_of(llvm::Type* type, int64_t number);

/// `code` (TN_F_...) on operands of dtype `operand`, giving `result`. Throws `declined` for what
/// has no lowering. Semantics: the table of scalar primitives in <tenon/plugin.h>.
llvm::Value* emit_primitive(llvm::IRBuilderBase& b, uint16_t code, int32_t result, int32_t operand,
                            llvm::Value* x, llvm::Value* y, llvm::Value* z);
/// min, max, a / b and a % b of two indices as Python has them; plain ones where nothing is negative.
llvm::Value* emit_index_op(llvm::IRBuilderBase& b, loopir::IndexKind kind, llvm::Value* x,
                           llvm::Value* y, bool is_plain);
/// x of dtype `from` as `to`.
llvm::Value* emit_cast(llvm::IRBuilderBase& b, llvm::Value* x, int32_t from, int32_t to);
/// The lesser or greater of real numbers, NaN if either is; of zeros any, so that folds may take
/// their elements in any order, and need one instruction.
llvm::Value* any_extreme(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, bool maximum);
/// Whether it becomes calls lane by lane, of which wide vectors would make too many.
bool is_called(uint16_t code, int32_t operand);

}  // namespace lanes
