// The instructions of AVX-512 for the exponent of a number; see vector_math_formulas.h.
#include "vector_math_formulas.h"

#include <llvm/IR/Function.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace lanes {

namespace {

namespace id = llvm::Intrinsic;

constexpr int current_rounding = 4;

/// An intrinsic with the usual last operands: value and mask of lanes that it leaves, rounding.
Lanes masked(llvm::Intrinsic::ID which, Lanes x, std::initializer_list<llvm::Value*> operands) {
  llvm::SmallVector<llvm::Value*, 6> all(operands);
  all.push_back(llvm::Constant::getNullValue(x.type()));
  all.push_back(llvm::Constant::getAllOnesValue(x.b->getIntNTy(x.count())));
  all.push_back(x.b->getInt32(current_rounding));
  return x.with(x.b->CreateIntrinsic(which, {}, all));
}

}  // namespace

bool has_exponent_instructions(Lanes x) {
  if (!x.type()->isVectorTy() || x.bits() * x.count() != 512) return false;
  llvm::Function* function = x.b->GetInsertBlock()->getParent();
  llvm::StringRef features = function->getFnAttribute("target-features").getValueAsString();
  return features.contains("+avx512f");
}

Lanes scaled_at_once(Lanes p, Lanes n) {
  bool wide = p.bits() == 64;
  return masked(wide ? id::x86_avx512_mask_scalef_pd_512 : id::x86_avx512_mask_scalef_ps_512, p,
                {p.v, n.v});
}

Lanes mantissa_of(Lanes x) {
  // Interval [3/4, 3/2); NaN for a negative number, but 1 for -0.
  llvm::Value* form = x.b->getInt32(0b1111);
  bool wide = x.bits() == 64;
  return masked(wide ? id::x86_avx512_mask_getmant_pd_512 : id::x86_avx512_mask_getmant_ps_512, x,
                {x.v, form});
}

Lanes exponent_of(Lanes x, Lanes mantissa) {
  bool wide = x.bits() == 64;
  auto which = wide ? id::x86_avx512_mask_getexp_pd_512 : id::x86_avx512_mask_getexp_ps_512;
  // The instruction counts from [1, 2), so that of a mantissa below 1 is -1.
  return masked(which, x, {x.v}) - masked(which, x, {mantissa.v});
}

}  // namespace lanes
