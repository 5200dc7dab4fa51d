// Philox 4x32-10, and what the host makes of it.
//
// Elements 4 q to 4 q + 3 of a draw come from its blocks 2 q and 2 q + 1: word k of the first is the
// high half of the k-th number, that of the second the low half; 53 bits of both are a number of
// [0, 1). Normal numbers are pairs by Box and Muller, in doubles; good to 3e-9 where they become
// floats, which takes a quarter of the time. Cost: 60 instructions a block and then as many a pair, so
// a thread that takes four neighbours needs a quarter of what four threads need.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
#include "draws.h"

#include <lanes/vector_math.h>
#include <tenon/plugin.h>

#include <array>
#include <numbers>
#include <tuple>

namespace inductor_cuda {

using llvm::Value;
using Builder = llvm::IRBuilder<>;
using Words = std::array<Value*, 4>;

namespace {

struct Halves {
  Value *low, *high;
};
Halves halves_of(Builder& b, Value* word) {
  return {b.CreateTrunc(word, b.getInt32Ty()),
          b.CreateTrunc(b.CreateLShr(word, uint64_t{32}), b.getInt32Ty())};
}

Halves product(Builder& b, uint32_t factor, Value* word) {
  return halves_of(b, b.CreateMul(b.getInt64(factor), b.CreateZExt(word, b.getInt64Ty())));
}

Words philox(Builder& b, Value* seed, Value* block) {
  constexpr int rounds = 10;
  auto [key0, key1] = halves_of(b, seed);
  auto [low, high] = halves_of(b, block);
  Words counter{low, high, b.getInt32(0), b.getInt32(0)};
  for (int round = 0; round < rounds; ++round) {
    Halves p = product(b, 0xD2511F53, counter[0]), q = product(b, 0xCD9E8D57, counter[2]);
    counter = {b.CreateXor(b.CreateXor(q.high, counter[1]), key0), q.low,
               b.CreateXor(b.CreateXor(p.high, counter[3]), key1), p.low};
    key0 = b.CreateAdd(key0, b.getInt32(0x9E3779B9));
    key1 = b.CreateAdd(key1, b.getInt32(0xBB67AE85));
  }
  return counter;
}

/// 53 bits as a number.
Value* whole(Builder& b, Value* high, Value* low) {
  constexpr uint64_t unused_bits = 11;
  Value* both = b.CreateOr(b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), uint64_t{32}),
                           b.CreateZExt(low, b.getInt64Ty()));
  return b.CreateSIToFP(b.CreateLShr(both, unused_bits), b.getDoubleTy());
}
/// Of [0, 1).
Value* uniform(Builder& b, Value* whole) {
  return b.CreateFMul(whole, llvm::ConstantFP::get(b.getDoubleTy(), 0x1p-53));
}

/// A pair by Box and Muller: the number with the cosine, that with the sine.
using Pair = std::pair<Value*, Value*>;
Pair normal_pair(Builder& b, Value* first, Value* second) {
  auto number = [&](double v) { return llvm::ConstantFP::get(b.getDoubleTy(), v); };
  Value* log = lanes::emit_math(b, TN_F_LOG1P, b.CreateFNeg(first));
  Value* radius = b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, b.CreateFMul(number(-2), log));
  Value* angle = b.CreateFMul(number(2 * std::numbers::pi), second);
  return {b.CreateFMul(radius, lanes::emit_math(b, TN_F_COS, angle)),
          b.CreateFMul(radius, lanes::emit_math(b, TN_F_SIN, angle))};
}

/// Four numbers of 53 bits, and which of them an element has.
class Four {
 public:
  Four(Builder& b, Value* seed, Value* first_block, Value* element, unsigned n, bool is_wide)
      : b_(b),
        n_(n),
        is_wide_(is_wide),
        place_(n < 4 ? b.CreateAnd(element, b.getInt64(3)) : b.getInt64(0)) {
    Value* four = b.CreateLShr(element, uint64_t{2});
    Value* block = b.CreateAdd(first_block, b.CreateShl(four, uint64_t{1}));
    Words high = philox(b, seed, block), low = philox(b, seed, b.CreateAdd(block, b.getInt64(1)));
    for (size_t k = 0; k < high.size(); ++k) all_[k] = whole(b, high[k], low[k]);
  }

  Value* uniform_of(unsigned i) {
    Value* k = place(i);
    return uniform(b_, b_.CreateSelect(bit(k, 1), pick(k, 2, 3), pick(k, 0, 1)));
  }
  /// Of neighbours each pair is made once.
  Value* normal_of(unsigned i) {
    Value *k = place(i), *is_upper = bit(k, 1);
    auto& [cosine, sine] = pairs_[i / 2];
    if (!cosine || n_ < 4) {
      Value* first = b_.CreateSelect(is_upper, all_[2], all_[0]);
      Value* second = b_.CreateSelect(is_upper, all_[3], all_[1]);
      std::tie(cosine, sine) = is_wide_ ? normal_pair(b_, uniform(b_, first), uniform(b_, second))
                                        : lanes::emit_normal_pair(b_, first, second);
    }
    return b_.CreateSelect(bit(k, 0), sine, cosine);
  }

 private:
  Value* place(unsigned i) { return b_.CreateAdd(place_, b_.getInt64(i)); }
  Value* bit(Value* k, unsigned which) {
    return b_.CreateICmpNE(b_.CreateAnd(k, b_.getInt64(uint64_t{1} << which)), b_.getInt64(0));
  }
  Value* pick(Value* k, size_t even, size_t odd) {
    return b_.CreateSelect(bit(k, 0), all_[odd], all_[even]);
  }

  Builder& b_;
  unsigned n_;
  bool is_wide_;
  Value* place_;  // of the first element among the four
  Words all_{};
  std::array<Pair, 2> pairs_{};
};

}  // namespace

std::vector<Value*> drawn(Builder& b, Value* seed, Value* first_block, Value* element, unsigned n,
                          loopir::Draw of, bool is_wide) {
  llvm::IRBuilderBase::FastMathFlagGuard as_before(b);
  b.clearFastMathFlags();
  Four four(b, seed, first_block, element, n, is_wide);
  std::vector<Value*> out;
  for (unsigned i = 0; i < n; ++i)
    out.push_back(of == loopir::Draw::normal ? four.normal_of(i) : four.uniform_of(i));
  return out;
}

}  // namespace inductor_cuda
