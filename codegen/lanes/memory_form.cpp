// Conversions between registers and memory.
#include "memory_form.h"

#include "lane_ops.h"

#include <loopir/program.h>

#include <llvm/IR/PatternMatch.h>

namespace lanes {

using llvm::IRBuilderBase;
using llvm::Value;

namespace {

// The nearest one, of two the even one. Where the processor lacks the instruction it is found from
// the bits, since LLVM would call a function for each number. NaN stays NaN.
Value* rounded_to_bf16(IRBuilderBase& b, Value* v, ToBf16 to_bf16) {
  llvm::Type* type = v->getType();
  if (to_bf16 == ToBf16::by_instruction)
    return b.CreateFPTrunc(v, type->getWithNewType(b.getBFloatTy()));
  llvm::Type* words = type->getWithNewType(b.getInt32Ty());
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(words, n); };
  Value* bits = b.CreateBitCast(v, words);
  Value* high = b.CreateLShr(bits, number(16));
  Value* half = b.CreateAdd(b.CreateAnd(high, number(1)), number(0x7fff));
  Value* nearest = b.CreateLShr(b.CreateAdd(bits, half), number(16));
  Value* quiet = b.CreateOr(high, number(0x40));
  Value* out = b.CreateSelect(b.CreateFCmpUNO(v, v), quiet, nearest);
  return b.CreateTrunc(out, type->getWithNewType(b.getInt16Ty()));
}

}  // namespace

llvm::Type* memory_type(llvm::LLVMContext& c, int32_t dtype) {
  if (dtype == TN_BOOL) return llvm::Type::getInt8Ty(c);
  if (dtype == TN_F16 || dtype == TN_BF16) return llvm::Type::getInt16Ty(c);
  return lane_type(c, dtype);
}

llvm::Align alignment(int32_t dtype) {
  return llvm::Align(static_cast<uint64_t>(loopir::item_size(dtype)));
}

Value* from_memory(IRBuilderBase& b, Value* loaded, int32_t dtype) {
  if (dtype == TN_BOOL)
    return b.CreateICmpNE(loaded, llvm::Constant::getNullValue(loaded->getType()));
  if (dtype == TN_F16) {
    Value* half = b.CreateBitCast(loaded, loaded->getType()->getWithNewType(b.getHalfTy()));
    Value* wide = b.CreateFPExt(half, half->getType()->getWithNewType(b.getFloatTy()));
    // Else LLVM would compare the halves, number by number.
    return b.CreateArithmeticFence(wide, wide->getType());
  }
  if (dtype == TN_BF16) {
    llvm::Type* words = loaded->getType()->getWithNewType(b.getInt32Ty());
    Value* bits = b.CreateShl(b.CreateZExt(loaded, words), llvm::ConstantInt::get(words, 16));
    return b.CreateBitCast(bits, words->getWithNewType(b.getFloatTy()));
  }
  return loaded;
}

Value* bits_as_loaded(Value* v, int32_t dtype) {
  using namespace llvm::PatternMatch;
  Value* bits = nullptr;
  bool is_loaded = dtype == TN_BF16
                       ? match(v, m_BitCast(m_Shl(m_ZExt(m_Value(bits)), m_SpecificInt(16))))
                       : match(v, m_Intrinsic<llvm::Intrinsic::arithmetic_fence>(
                                      m_FPExt(m_BitCast(m_Value(bits)))));
  return is_loaded && bits->getType()->isIntOrIntVectorTy(16) ? bits : nullptr;
}

Value* to_memory(IRBuilderBase& b, Value* v, int32_t dtype, ToBf16 to_bf16) {
  llvm::Type* type = v->getType()->getWithNewType(memory_type(b.getContext(), dtype));
  if (dtype == TN_BOOL) return b.CreateZExt(v, type);
  if (dtype != TN_F16 && dtype != TN_BF16) return v;
  if (Value* bits = bits_as_loaded(v, dtype)) return bits;
  if (dtype == TN_F16)
    return b.CreateBitCast(b.CreateFPTrunc(v, type->getWithNewType(b.getHalfTy())), type);
  return b.CreateBitCast(rounded_to_bf16(b, v, to_bf16), type);
}

}  // namespace lanes
