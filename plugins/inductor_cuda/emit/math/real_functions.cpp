// The list of functions, and their bodies.
#include "real_functions.h"

#include <limits>

namespace inductor_cuda {

namespace {

#define TENON_REAL(name) \
  { "tenon_inductor_" #name "_f64", real_##name }
#define TENON_BOTH(name) \
  TENON_REAL(name), { "tenon_inductor_" #name "_f32", real_##name }
constexpr RealFunction functions[] = {
    TENON_REAL(exp2),   TENON_REAL(expm1),   TENON_REAL(log1p),
    TENON_REAL(log2),   TENON_REAL(log10),   TENON_REAL(sinh),
    TENON_REAL(cosh),   TENON_REAL(asinh),   TENON_REAL(acosh),
    TENON_REAL(atanh),  TENON_REAL(sin),     TENON_REAL(cos),
    TENON_REAL(tan),    TENON_REAL(asin),    TENON_REAL(acos),
    TENON_REAL(atan),   TENON_REAL(erfc),    TENON_BOTH(erfinv),
    TENON_BOTH(lgamma), TENON_BOTH(digamma), {"tenon_inductor_atan2_f64", nullptr, real_atan2},
};
#undef TENON_BOTH
#undef TENON_REAL

}  // namespace

std::span<const RealFunction> real_functions() { return functions; }

void define(llvm::Function& f, const RealFunction& as) {
  f.setLinkage(llvm::GlobalValue::InternalLinkage);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f.getContext(), "entry", &f));
  Lanes x{&b, f.getArg(0)};
  bool is_short = x.bits() == 32;
  if (is_short) x = widened(x);
  Lanes out = as.of_one ? as.of_one(x) : as.of_two(x, {&b, f.getArg(1)});
  b.CreateRet((is_short ? narrowed(out) : out).v);
}

Lanes is_nan(Lanes x) { return x != x; }
Lanes not_a_number(Lanes like) { return like.number(std::numeric_limits<double>::quiet_NaN()); }
Lanes infinite(Lanes like) { return like.number(std::numeric_limits<double>::infinity()); }

}  // namespace inductor_cuda
