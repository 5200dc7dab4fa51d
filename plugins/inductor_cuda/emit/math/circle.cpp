// sin, cos and tan of doubles.
//
// Problem: x less a multiple of pi/2, to more digits than a double has, for every x.
// Method: below 2^26 the multiple is taken away in three parts of pi/2, each product with its
//   rounding error (Cody and Waite). Above, x = M 2^E with a whole M of 53 bits: bits of 2/pi worth
//   2^(2 - E) and more make whole turns and are left out; 192 bits behind them times M, modulo 2^192,
//   have the quarter turns in the first two bits and the fraction in the others (Payne and Hanek).
//   What is left is the sum of two doubles, the second of which counts in first order only.
// Cost: some 60 instructions below 2^26, 40 more above.
// Reference: Payne and Hanek, Radian reduction for trigonometric functions, SIGNUM 18, 1983.
#include "real_functions.h"

#include <llvm/IR/Module.h>

#include <array>
#include <limits>

namespace inductor_cuda {

using namespace lanes;

namespace {

constexpr double half_pi_lowest = -0x1.f1976b7ed8fbcp-110;

/// 64 bits of 0, and the first ones of 2/pi behind the point.
constexpr uint64_t two_over_pi[] = {0,
                                    0xa2f9836e4e441529,
                                    0xfc2757d1f534ddc0,
                                    0xdb6295993c439041,
                                    0xfe5163abdebbc561,
                                    0xb7246e3a424dd2e0,
                                    0x06492eea09d1921c,
                                    0xfe1deb1cb129a73e,
                                    0xe88235f52ebb4484,
                                    0xe99c7026b45f7e41,
                                    0x3991d639835339f4,
                                    0x9c845f8bbdf9283b,
                                    0x1ff897ffde05980f,
                                    0xef2f118b5a0a6d1f,
                                    0x6d367ecf27cb09b7,
                                    0x4f463f669e5fea2d,
                                    0x7527bac7ebe5f17b,
                                    0x3d0739f78a5292ea,
                                    0x6bfb5fb11f8d5d08,
                                    0x56033046fc7b6bab,
                                    0xf0cfbc209af4361d};

/// An angle in [-pi/4, pi/4] as a sum, and the quarter turns beside it.
struct Angle {
  Lanes high, low, turns;
};

/// p + q = high + low.
struct Sum {
  Lanes high, low;
};
Sum two_sum(Lanes p, Lanes q) {
  Lanes sum = p + q, of_q = sum - p, of_p = sum - of_q;
  return {sum, (p - of_p) + (q - of_q)};
}

Lanes integer(Lanes x, llvm::Type* type) { return x.with(x.b->CreateFPToSI(x.v, type)); }

Angle of_small(Lanes a) {
  Lanes n = nearest(a * 0x1.45f306dc9c883p-1);
  Lanes rest = fma(-n, half_pi, a);  // exact
  Lanes p = n * -half_pi_low, p_low = fma(n, -half_pi_low, -p);
  Sum s = two_sum(rest, p);
  Lanes low = s.low + fma(n, -half_pi_lowest, p_low);
  Lanes high = s.high + low;
  return {high, low - (high - s.high), integer(n, n.b->getInt64Ty())};
}

/// Three words of 2/pi from the bit `from` on.
std::array<Lanes, 3> bits_of_two_over_pi(Lanes from) {
  llvm::IRBuilderBase& b = *from.b;
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  auto* words = llvm::ConstantDataArray::get(b.getContext(), two_over_pi);
  auto* table = module.getGlobalVariable("tenon_two_over_pi", true);
  if (!table)
    table =
        new llvm::GlobalVariable(module, words->getType(), true, llvm::GlobalValue::InternalLinkage,
                                 words, "tenon_two_over_pi");
  llvm::Value *word = b.CreateLShr(from.v, uint64_t{6}), *shift = b.CreateAnd(from.v, uint64_t{63});
  auto load = [&](uint64_t i) {
    llvm::Value* at = b.CreateAdd(word, b.getInt64(i));
    return b.CreateLoad(b.getInt64Ty(), b.CreateGEP(b.getInt64Ty(), table, at));
  };
  std::array<Lanes, 3> out{from, from, from};
  for (uint64_t i = 0; i < out.size(); ++i)
    out[i].v =
        b.CreateIntrinsic(llvm::Intrinsic::fshl, {b.getInt64Ty()}, {load(i), load(i + 1), shift});
  return out;
}

/// The lower 192 bits of a product with a number of 53 bits, the highest word first.
std::array<Lanes, 3> product(Lanes m, const std::array<Lanes, 3>& words) {
  llvm::IRBuilderBase& b = *m.b;
  llvm::Type* wide = b.getInt128Ty();
  llvm::Value* carry = llvm::ConstantInt::get(wide, 0);
  std::array<Lanes, 3> out{m, m, m};
  for (size_t i = words.size(); i-- > 0;) {
    llvm::Value* p = b.CreateMul(b.CreateZExt(m.v, wide), b.CreateZExt(words[i].v, wide));
    llvm::Value* sum = b.CreateAdd(p, carry);
    out[i].v = b.CreateTrunc(sum, b.getInt64Ty());
    carry = b.CreateLShr(sum, uint64_t{64});
  }
  return out;
}

Angle of_large(Lanes a) {
  constexpr uint64_t fraction = 0x000fffffffffffff, one = 0x0010000000000000;
  llvm::IRBuilderBase& b = *a.b;
  auto shifted_right = [&](Lanes x, uint64_t n) { return x.with(b.CreateLShr(x.v, n)); };
  auto real = [&](Lanes x) { return x.with(b.CreateSIToFP(x.v, b.getDoubleTy())); };
  Lanes bits = to_bits(a), m = (bits & bits.integer(fraction)) | bits.integer(one);
  // E is the exponent less 1075; bits before E - 2 are left out, of which 64 are zeros.
  Lanes from = shifted_right(bits, 52) - bits.integer(1075 + 2 - 64);
  std::array<Lanes, 3> p = product(m, bits_of_two_over_pi(from));
  Lanes top = (p[0] << 2) | shifted_right(p[1], 62), next = (p[1] << 2) | shifted_right(p[2], 62);
  Lanes turns = shifted_right(p[0], 62) + shifted_right(top, 63);
  // Parts of 32, 53 and 43 bits of the fraction, above 1/2 less 1.
  Lanes middle = ((top & top.integer(0xffffffff)) << 21) | shifted_right(next, 43);
  Lanes first = real(top >> 32) * 0x1p-32, second = real(middle) * 0x1p-85;
  Lanes third = real(next & next.integer((uint64_t{1} << 43) - 1)) * 0x1p-128;
  Lanes high = first + second, low = ((first - high) + second) + third;
  Lanes r = high * half_pi;
  Lanes r_low = fma(high, half_pi, -r) + fma(high, half_pi_low, low * half_pi);
  return {r, r_low, turns};
}

/// Of a number that is not negative; the builder stands in another block behind it.
Angle angle_of(Lanes a) {
  llvm::IRBuilderBase& b = *a.b;
  llvm::Function* f = b.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, f); };
  llvm::BasicBlock *small = block("small"), *large = block("large"), *end = block("end");
  b.CreateCondBr((a < 0x1p26).v, small, large);
  b.SetInsertPoint(small);
  Angle p = of_small(a);
  b.CreateBr(end);
  b.SetInsertPoint(large);
  Angle q = of_large(a);
  b.CreateBr(end);
  b.SetInsertPoint(end);
  auto either = [&](Lanes x, Lanes y) {
    llvm::PHINode* phi = b.CreatePHI(x.type(), 2);
    phi->addIncoming(x.v, small);
    phi->addIncoming(y.v, large);
    return x.with(phi);
  };
  return {either(p.high, q.high), either(p.low, q.low), either(p.turns, q.turns)};
}

template <size_t n>
constexpr std::array<double, n> taylor(int first) {  // -1 / first!, 1 / (first + 2)!, ...
  std::array<double, n> out{};
  double term = -1;
  for (int i = 2; i <= first; ++i) term /= i;
  for (size_t i = 0; i < n; ++i) {
    out[i] = term;
    term = -term / ((first + 1) * (first + 2)), first += 2;
  }
  return out;
}

Lanes sine(const Angle& r) {
  static constexpr auto terms = taylor<8>(3);
  Lanes z = r.high * r.high;
  Lanes rest = fma(r.high * z, polynomial(z, terms), fma(z * -0.5, r.low, r.low));
  return r.high + rest;
}

Lanes cosine(const Angle& r) {
  static constexpr auto terms = taylor<8>(4);  // -1/4!, ...
  Lanes z = r.high * r.high, half = z * 0.5, w = 1.0 - half;
  Lanes rest = fma(z * -z, polynomial(z, terms), -(r.high * r.low));
  return w + (((1.0 - w) - half) + rest);
}

Lanes has_bit(Lanes x, uint64_t bit) {
  Lanes both = x & x.integer(bit);
  return x.with(x.b->CreateICmpNE(both.v, x.integer(0).v));
}

Lanes where_finite(Lanes a, Lanes result) {
  return select(a < std::numeric_limits<double>::infinity(), result, not_a_number(result));
}

Lanes of_quarter(const Angle& r, Lanes turns) {
  Lanes value = select(has_bit(turns, 1), cosine(r), sine(r));
  return select(has_bit(turns, 2), -value, value);
}

}  // namespace

Lanes real_sin(Lanes x) {
  Lanes a = abs(x);
  Angle r = angle_of(a);
  Lanes value = where_finite(a, of_quarter(r, r.turns));
  Lanes is_negative = x.with(x.b->CreateICmpSLT(to_bits(x).v, to_bits(x).integer(0).v));
  return select(is_negative, -value, value);
}

Lanes real_cos(Lanes x) {
  Lanes a = abs(x);
  Angle r = angle_of(a);
  return where_finite(a, of_quarter(r, r.turns + r.turns.integer(1)));
}

Lanes real_tan(Lanes x) {
  Lanes a = abs(x);
  Angle r = angle_of(a);
  Lanes s = sine(r), c = cosine(r), is_odd = has_bit(r.turns, 1);
  Lanes value = where_finite(a, select(is_odd, -c, s) / select(is_odd, s, c));
  Lanes is_negative = x.with(x.b->CreateICmpSLT(to_bits(x).v, to_bits(x).integer(0).v));
  return select(is_negative, -value, value);
}

}  // namespace inductor_cuda
