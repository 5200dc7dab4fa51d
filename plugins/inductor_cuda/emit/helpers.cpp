// Remainders of real numbers and powers of integers, as loops.
#include "helpers.h"

#include "math/real_functions.h"
#include "real_power.h"

#include <llvm/IR/IRBuilder.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace inductor_cuda {

using llvm::BasicBlock;
using llvm::IRBuilder;
using llvm::Value;

namespace {

/// An empty function of two operands; the builder stands at its begin.
void begin(llvm::Function& f, IRBuilder<>& b) {
  f.setLinkage(llvm::GlobalValue::InternalLinkage);
  b.SetInsertPoint(BasicBlock::Create(f.getContext(), "entry", &f));
}

/// The exponent of a positive number as the place of its highest bit: that of 1.0 is 1023.
Value* exponent_of(IRBuilder<>& b, Value* x) {
  constexpr uint64_t fraction_bits = 52, unused_bits = 11;
  Value* bits = b.CreateBitCast(x, b.getInt64Ty());
  Value* field = b.CreateLShr(bits, fraction_bits);
  Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, bits, b.getFalse());
  Value* subnormal = b.CreateSub(b.getInt64(unused_bits + 1), zeros);
  return b.CreateSelect(b.CreateICmpEQ(field, b.getInt64(0)), subnormal, field);
}

/// 2^n for n from 0 to 1023.
Value* power_of_two(IRBuilder<>& b, Value* n) {
  constexpr uint64_t bias = 1023, fraction_bits = 52;
  return b.CreateBitCast(b.CreateShl(b.CreateAdd(n, b.getInt64(bias)), fraction_bits),
                         b.getDoubleTy());
}

// x - n y without rounding: as long as x is not below y, the largest y 2^k that is not above x is
// taken away, which is exact.
void real_fmod(llvm::Function& f) {
  IRBuilder<> b(f.getContext());
  begin(f, b);
  Value* infinity = llvm::ConstantFP::getInfinity(b.getDoubleTy());
  auto positive = [&](Value* v) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  Value *x = positive(f.getArg(0)), *y = positive(f.getArg(1));
  BasicBlock* entry = b.GetInsertBlock();
  auto* loop = BasicBlock::Create(f.getContext(), "loop", &f);
  auto* body = BasicBlock::Create(f.getContext(), "body", &f);
  auto* end = BasicBlock::Create(f.getContext(), "end", &f);
  Value* zero = llvm::ConstantFP::get(b.getDoubleTy(), 0);
  Value* has_one = b.CreateAnd(b.CreateFCmpOLT(x, infinity), b.CreateFCmpOGT(y, zero));
  b.CreateCondBr(has_one, loop, end);
  b.SetInsertPoint(loop);
  llvm::PHINode* left = b.CreatePHI(b.getDoubleTy(), 2);
  left->addIncoming(x, entry);
  b.CreateCondBr(b.CreateFCmpOGE(left, y), body, end);
  b.SetInsertPoint(body);
  Value* k = b.CreateSub(exponent_of(b, left), exponent_of(b, y));
  Value* half = b.CreateLShr(k, 1);
  Value* taken =
      b.CreateFMul(b.CreateFMul(y, power_of_two(b, half)), power_of_two(b, b.CreateSub(k, half)));
  Value* is_above = b.CreateFCmpOGT(taken, left);
  taken = b.CreateSelect(is_above, b.CreateFMul(taken, llvm::ConstantFP::get(b.getDoubleTy(), 0.5)),
                         taken);
  left->addIncoming(b.CreateFSub(left, taken), body);
  b.CreateBr(loop);
  b.SetInsertPoint(end);
  llvm::PHINode* out = b.CreatePHI(b.getDoubleTy(), 2);
  out->addIncoming(llvm::ConstantFP::getNaN(b.getDoubleTy()), entry);
  out->addIncoming(left, loop);
  b.CreateRet(b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, out, f.getArg(0)));
}

// By squaring; of negative exponents only powers of 1 and -1 are not 0.
void integer_power(llvm::Function& f) {
  IRBuilder<> b(f.getContext());
  begin(f, b);
  llvm::Type* type = b.getInt64Ty();
  Value *base = f.getArg(0), *exponent = f.getArg(1);
  Value *zero = b.getInt64(0), *one = b.getInt64(1), *minus = b.getInt64(~uint64_t{0});
  Value* is_odd = b.CreateICmpNE(b.CreateAnd(exponent, one), zero);
  Value* of_minus = b.CreateSelect(is_odd, minus, one);
  Value* small = b.CreateSelect(b.CreateICmpEQ(base, minus), of_minus, zero);
  small = b.CreateSelect(b.CreateICmpEQ(base, one), one, small);
  Value* is_negative = b.CreateICmpSLT(exponent, zero);
  Value* first = b.CreateSelect(is_negative, zero, exponent);
  BasicBlock* entry = b.GetInsertBlock();
  auto* loop = BasicBlock::Create(f.getContext(), "loop", &f);
  auto* end = BasicBlock::Create(f.getContext(), "end", &f);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode *left = b.CreatePHI(type, 2), *power = b.CreatePHI(type, 2),
                *out = b.CreatePHI(type, 2);
  left->addIncoming(first, entry);
  power->addIncoming(base, entry);
  out->addIncoming(one, entry);
  Value* takes = b.CreateICmpNE(b.CreateAnd(left, one), zero);
  Value* product = b.CreateSelect(takes, b.CreateMul(out, power), out);
  Value* rest = b.CreateLShr(left, 1);
  left->addIncoming(rest, loop);
  power->addIncoming(b.CreateMul(power, power), loop);
  out->addIncoming(product, loop);
  b.CreateCondBr(b.CreateICmpNE(rest, zero), loop, end);
  b.SetInsertPoint(end);
  b.CreateRet(b.CreateSelect(is_negative, small, product));
}

/// By the names under which code of the host has them.
constexpr std::pair<const char*, void (*)(llvm::Function&)> helpers[] = {
    {"tenon_real_fmod", real_fmod},
    {"tenon_integer_power", integer_power},
    {"tenon_inductor_pow_f64", define_real_power},
};

}  // namespace

void add_helpers(llvm::Module& module) {
  for (auto [name, make] : helpers)
    if (llvm::Function* f = module.getFunction(name)) make(*f);
  for (const RealFunction& function : real_functions())
    if (llvm::Function* f = module.getFunction(function.name)) define(*f, function);
  std::string missing;
  for (const llvm::Function& f : module)
    if (f.isDeclaration() && !f.isIntrinsic())
      missing += (missing.empty() ? "" : ", ") + f.getName().str();
  if (!missing.empty()) throw tenon::plugin::declined("there is no code on GPUs for " + missing);
}

}  // namespace inductor_cuda
