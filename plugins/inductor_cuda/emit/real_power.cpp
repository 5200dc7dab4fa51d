// pow of doubles.
//
// Problem: x^y = exp(y log x), but an error of log x counts |y log x| times in the result.
// Method: log x as a sum of two doubles. With |x| = 2^k m, m near 1, and s = (m - 1) / (m + 1),
// log m = 2 s + 2 s^3 / 3 + ...; s is carried as two numbers, the rest, below a hundredth of the
// first term, as one. k log 2 is added as an exact product and its rest. The product with y is
// exact in two numbers, too, of which exp takes the first; the second is a factor near 1.
// Reference: the series in s is that of K. C. Ng's log of fdlibm (Sun, 1993).
#include "real_power.h"

#include <lanes/vector_math.h>
#include <llvm/IR/IRBuilder.h>
#include <tenon/plugin.h>

#include <utility>

namespace inductor_cuda {

namespace {

using llvm::Value;

/// A sum of two doubles, the second below an ulp of the first.
struct Pair {
  Value *high, *low;
};

class RealPower {
 public:
  explicit RealPower(llvm::Function& f)
      : b_(llvm::BasicBlock::Create(f.getContext(), "entry", &f)),
        x_(f.getArg(0)),
        y_(f.getArg(1)),
        base_(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x_)) {
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
  }

  void emit() {
    Value* plain = exponential(b_.CreateFMul(y_, lanes::emit_math(b_, TN_F_LOG, base_)));
    Value* power = b_.CreateSelect(is_ordinary(), precise_power(), plain);
    b_.CreateRet(with_special_values(with_sign(power)));
  }

 private:
  Value* number(double v) { return llvm::ConstantFP::get(b_.getDoubleTy(), v); }
  Value* infinity() { return llvm::ConstantFP::getInfinity(b_.getDoubleTy()); }
  Value* fma(Value* p, Value* q, Value* r) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {b_.getDoubleTy()}, {p, q, r});
  }
  Value* negative(Value* v) { return b_.CreateFNeg(v); }
  Value* magnitude(Value* v) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); }
  Value* exponential(Value* v) { return lanes::emit_math(b_, TN_F_EXP, v); }

  // Neither zeros nor infinities, whose logarithms and products have no low part.
  Value* is_ordinary() {
    Value* has_log =
        b_.CreateAnd(b_.CreateFCmpOGT(base_, number(0)), b_.CreateFCmpOLT(base_, infinity()));
    return b_.CreateAnd(has_log, b_.CreateFCmpOLT(magnitude(y_), infinity()));
  }

  /// base = m 2^k with m from 0.75 to 1.5.
  std::pair<Value*, Value*> split() {
    Value* is_subnormal = b_.CreateFCmpOLT(base_, number(0x1p-1022));
    Value* scaled = b_.CreateFMul(base_, b_.CreateSelect(is_subnormal, number(0x1p54), number(1)));
    constexpr uint64_t lowest = 0x3fe8000000000000, fraction = 0x000fffffffffffff;
    Value* above = b_.CreateSub(b_.CreateBitCast(scaled, b_.getInt64Ty()), b_.getInt64(lowest));
    Value* m = b_.CreateAdd(b_.CreateAnd(above, b_.getInt64(fraction)), b_.getInt64(lowest));
    Value* k = b_.CreateSIToFP(b_.CreateAShr(above, uint64_t{52}), b_.getDoubleTy());
    k = b_.CreateFSub(k, b_.CreateSelect(is_subnormal, number(54), number(0)));
    return {b_.CreateBitCast(m, b_.getDoubleTy()), k};
  }

  /// 2/3 + 2/5 z + 2/7 z^2 ...; z is at most 1/25.
  Value* tail_of_series(Value* z) {
    constexpr int last = 23;
    Value* sum = number(2.0 / last);
    for (int n = last - 2; n >= 3; n -= 2) sum = fma(sum, z, number(2.0 / n));
    return sum;
  }

  Pair logarithm() {
    auto [m, k] = split();
    Value* f = b_.CreateFSub(m, number(1));  // exact, as the next sum is but for its last bit
    Value* sum = b_.CreateFAdd(f, number(2));
    Value* sum_low = b_.CreateFSub(f, b_.CreateFSub(sum, number(2)));
    Value* s = b_.CreateFDiv(f, sum);
    Value* rest = fma(negative(s), sum_low, fma(negative(s), sum, f));
    Value* s_low = b_.CreateFDiv(rest, sum);
    Value* z = b_.CreateFMul(s, s);
    Value* tail = b_.CreateFMul(b_.CreateFMul(s, z), tail_of_series(z));
    constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    Value* a = b_.CreateFMul(k, number(ln2_high));  // exact
    Value* twice = b_.CreateFMul(s, number(2));
    Pair out = two_sum(a, twice);
    Value* low = fma(k, number(ln2_low), fma(s_low, number(2), tail));
    return fast_two_sum(out.high, b_.CreateFAdd(out.low, low));
  }

  Pair two_sum(Value* p, Value* q) {
    Value* sum = b_.CreateFAdd(p, q);
    Value* of_q = b_.CreateFSub(sum, p);
    Value* of_p = b_.CreateFSub(sum, of_q);
    return {sum, b_.CreateFAdd(b_.CreateFSub(p, of_p), b_.CreateFSub(q, of_q))};
  }
  Pair fast_two_sum(Value* p, Value* q) {
    Value* sum = b_.CreateFAdd(p, q);
    return {sum, b_.CreateFSub(q, b_.CreateFSub(sum, p))};
  }

  Value* precise_power() {
    Pair log = logarithm();
    Value* product = b_.CreateFMul(y_, log.high);
    Value* low = fma(y_, log.low, fma(y_, log.high, negative(product)));
    Value* e = exponential(product);
    // What overflows has no low part.
    Value* is_inner =
        b_.CreateAnd(b_.CreateFCmpOLT(e, infinity()), b_.CreateFCmpOLT(magnitude(low), number(1)));
    return b_.CreateSelect(is_inner, fma(e, low, e), e);
  }

  Value* is_whole(Value* v) {
    return b_.CreateFCmpOEQ(b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v), v);
  }

  // Odd powers keep the sign; others than whole ones of negative numbers are NaN.
  Value* with_sign(Value* power) {
    Value* is_odd =
        b_.CreateAnd(is_whole(y_), b_.CreateNot(is_whole(b_.CreateFMul(y_, number(0.5)))));
    Value* bits = b_.CreateBitCast(x_, b_.getInt64Ty());
    Value* has_sign = b_.CreateICmpSLT(bits, b_.getInt64(0));
    Value* out = b_.CreateSelect(b_.CreateAnd(is_odd, has_sign), negative(power), power);
    Value* is_below =
        b_.CreateAnd(b_.CreateFCmpOLT(x_, number(0)), b_.CreateFCmpOLT(base_, infinity()));
    Value* has_no_value = b_.CreateAnd(is_below, b_.CreateNot(is_whole(y_)));
    return b_.CreateSelect(has_no_value, llvm::ConstantFP::getNaN(b_.getDoubleTy()), out);
  }

  Value* with_special_values(Value* power) {
    Value* is_one = b_.CreateOr(b_.CreateFCmpOEQ(y_, number(0)), b_.CreateFCmpOEQ(x_, number(1)));
    Value* of_infinity = b_.CreateAnd(b_.CreateFCmpOEQ(base_, number(1)),
                                      b_.CreateFCmpOEQ(magnitude(y_), infinity()));
    Value* is_nan = b_.CreateFCmpUNO(x_, y_);
    Value* out = b_.CreateSelect(is_nan, b_.CreateFAdd(x_, y_), power);
    return b_.CreateSelect(b_.CreateOr(is_one, of_infinity), number(1), out);
  }

  llvm::IRBuilder<> b_;
  Value *x_, *y_, *base_;
};

}  // namespace

void define_real_power(llvm::Function& f) { RealPower(f).emit(); }

}  // namespace inductor_cuda
