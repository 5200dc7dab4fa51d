// Two primitives of f32 in one loop: what the first one gives stays in a register.
//
// Problem: a step over a block reads its operands and writes its result in the first cache, which
//   takes longer than a sum or a product does.
// Method: one loop for each pair of cheap primitives, and for each comparison with the choice that
//   follows it, where the mask would go through memory as bytes. The loops are over whole vectors;
//   what is left goes through one of zeros. No product and sum become one instruction: results are
//   those of the two steps.
// Cost: with AVX-512 25 ns for a pair over 512 elements (Zen 4), where a step takes 22.
#pragma once

#include <inductor_runtime/special_functions.h>
#include "elements.h"

#include <tenon/plugin.h>

#include "functions.h"

namespace blocks::BLOCKS_LEVEL {

namespace {

template <bool is_single>
struct Source {
  const InMemory* at;
  explicit Source(const float* p) : at(reinterpret_cast<const InMemory*>(p)) {}
  Vector operator[](int64_t i) const { return at[i]; }
};
template <>
struct Source<true> {
  Vector all;
  explicit Source(const float* p) : all(*p - Vector{}) {}
  Vector operator[](int64_t) const { return all; }
};

constexpr bool has(unsigned singles, unsigned operand) { return (singles >> operand & 1) != 0; }

template <class Inner, class Outer, bool is_second, unsigned singles>
void pair(float* out, const float* const* in, int64_t n_vectors) {
  Source<has(singles, 0)> a(in[0]);
  Source<has(singles, 1)> b(in[1]);
  Source<has(singles, 2)> c(in[2]);
  InMemory* to = reinterpret_cast<InMemory*>(out);  // auto would drop the alignment
#pragma GCC unroll 4
  for (int64_t i = 0; i < n_vectors; ++i) {
    Vector first = Inner::run(a[i], b[i]);
    to[i] = is_second ? Outer::run(c[i], first) : Outer::run(first, c[i]);
  }
}

template <class Comparison, unsigned singles>
void choice(float* out, const float* const* in, int64_t n_vectors) {
  Source<has(singles, 0)> a(in[0]);
  Source<has(singles, 1)> b(in[1]);
  Source<has(singles, 2)> c(in[2]);
  Source<has(singles, 3)> d(in[3]);
  InMemory* to = reinterpret_cast<InMemory*>(out);  // auto would drop the alignment
#pragma GCC unroll 4
  for (int64_t i = 0; i < n_vectors; ++i) to[i] = Comparison::mask(a[i], b[i]) ? c[i] : d[i];
}

// ---- which loop

template <class Inner, class Outer, bool is_second>
JoinedLoop pair_for(unsigned singles) {
  switch (singles) {
    case 0:
      return pair<Inner, Outer, is_second, 0>;
    case 1:
      return pair<Inner, Outer, is_second, 1>;
    case 2:
      return pair<Inner, Outer, is_second, 2>;
    case 4:
      return pair<Inner, Outer, is_second, 4>;
    case 5:
      return pair<Inner, Outer, is_second, 5>;
    case 6:
      return pair<Inner, Outer, is_second, 6>;
    default:  // the first primitive is not of single numbers
      return nullptr;
  }
}

template <class Inner, class Outer>
JoinedLoop pair_from(bool is_second, unsigned singles) {
  return is_second ? pair_for<Inner, Outer, true>(singles) : pair_for<Inner, Outer, false>(singles);
}

template <class Inner>
JoinedLoop pair_of(uint16_t outer, bool is_second, unsigned singles) {
  switch (outer) {
    case TN_F_ADD:  // the same from either side
      return pair_for<Inner, Add, false>(singles);
    case TN_F_MUL:
      return pair_for<Inner, Mul, false>(singles);
    case TN_F_SUB:
      return pair_from<Inner, Sub>(is_second, singles);
    case TN_F_MIN:
      return pair_from<Inner, Min>(is_second, singles);
    case TN_F_MAX:
      return pair_from<Inner, Max>(is_second, singles);
    default:
      return nullptr;
  }
}

template <class Comparison, unsigned compared>
JoinedLoop choice_from(unsigned chosen) {
  return chosen == 0   ? choice<Comparison, compared>
         : chosen == 1 ? choice<Comparison, compared | 4>
         : chosen == 2 ? choice<Comparison, compared | 8>
                       : choice<Comparison, compared | 12>;
}

template <class Comparison>
JoinedLoop choice_of(unsigned singles) {
  unsigned compared = singles & 3, chosen = singles >> 2 & 3;
  return compared == 0   ? choice_from<Comparison, 0>(chosen)
         : compared == 1 ? choice_from<Comparison, 1>(chosen)
         : compared == 2 ? choice_from<Comparison, 2>(chosen)
                         : nullptr;
}

JoinedLoop choice_by(uint16_t comparison, unsigned singles) {
  return by_comparison(comparison, [&]<class F> { return choice_of<F>(singles); });
}

}  // namespace

JoinedLoop find_joined(uint16_t inner, uint16_t outer, bool is_second, unsigned singles) {
  if (outer == TN_F_SELECT) return choice_by(inner, singles);
  switch (inner) {
    case TN_F_ADD:
      return pair_of<Add>(outer, is_second, singles);
    case TN_F_SUB:
      return pair_of<Sub>(outer, is_second, singles);
    case TN_F_MUL:
      return pair_of<Mul>(outer, is_second, singles);
    case TN_F_MIN:
      return pair_of<Min>(outer, is_second, singles);
    case TN_F_MAX:
      return pair_of<Max>(outer, is_second, singles);
    default:
      return nullptr;
  }
}

void run_joined(JoinedLoop loop, float* out, const float* const* in, unsigned singles, int64_t n) {
  loop(out, in, n / lanes);
  int64_t first = n / lanes * lanes, rest = n - first;
  if (rest == 0) return;
  auto bytes = static_cast<size_t>(rest) * sizeof(float);
  constexpr int most = 4;
  Vector copies[most], result;
  const float* at[most];
  for (int k = 0; k < most; ++k) {
    at[k] = in[k];
    if (has(singles, static_cast<unsigned>(k)) || !in[k]) continue;
    copies[k] = Vector{};
    __builtin_memcpy(&copies[k], in[k] + first, bytes);
    at[k] = reinterpret_cast<const float*>(&copies[k]);
  }
  loop(reinterpret_cast<float*>(&result), at, 1);
  __builtin_memcpy(out + first, &result, bytes);
}

}  // namespace blocks::BLOCKS_LEVEL
