// Straight code of f32 that keeps what it computes in registers, whatever its length.
//
// Problem: a loop over a block for each primitive, or each two, reads and writes the first cache
//   between them; the stores alone take longer than the sums and products do.
// Model: a machine with one accumulator of eight vectors. An operation takes a second operand from
//   memory, or as one number; what is needed again later is saved.
// Method: each operation is a function that gets the accumulator in the eight registers that calls
//   pass vectors in, and ends with the call of the next one, which is a jump. Elements go through
//   all operations eight vectors at a time.
// Cost: with AVX-512 (Zen 4) 4 to 6 ns for an operation over 128 elements, where a loop of its own
//   takes 6 and one for two operations 7.
// Errors: results are those of the loops, bit by bit: no product and sum become one instruction.
#pragma once

#include <inductor_runtime/special_functions.h>
#include "elements.h"

#include <tenon/plugin.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "functions.h"

#include "vectors.h"

namespace blocks::BLOCKS_LEVEL {

namespace {

#define BLOCKS_ACCUMULATOR \
  Vector v0, Vector v1, Vector v2, Vector v3, Vector v4, Vector v5, Vector v6, Vector v7
#define BLOCKS_WHERE const ChainStep *s, const ChainPlace *places, int64_t offset
#define BLOCKS_NEXT return as_operation(s[1])(v0, v1, v2, v3, v4, v5, v6, v7, s + 1, places, offset)
#define BLOCKS_ALL(f)                                                                       \
  v0 = f(v0, 0), v1 = f(v1, 1), v2 = f(v2, 2), v3 = f(v3, 3), v4 = f(v4, 4), v5 = f(v5, 5), \
  v6 = f(v6, 6), v7 = f(v7, 7)

using Operation = void (*)(BLOCKS_ACCUMULATOR, BLOCKS_WHERE);
BLOCKS_INLINE Operation as_operation(const ChainStep& s) {
  return reinterpret_cast<Operation>(s.run);
}

/// The vectors of a place, or one number for all.
template <bool is_single>
struct In {
  const std::byte* at;
  int64_t next;
  In(const ChainPlace& p, int64_t offset) : at(p.at + (offset & p.mask)), next(p.next) {}
  Vector operator[](int64_t k) const { return *reinterpret_cast<const InMemory*>(at + k * next); }
};
template <>
struct In<true> {
  Vector all;
  In(const ChainPlace& p, int64_t) : all(*reinterpret_cast<const float*>(p.at) - Vector{}) {}
  Vector operator[](int64_t) const { return all; }
};

/// Of several places: addresses of all vectors at once would not fit into registers.
struct Walk {
  const std::byte* at;
  int64_t next;
  Walk(const ChainPlace& p, int64_t offset) : at(p.at + (offset & p.mask)), next(p.next) {}
  Vector take() {
    Vector x = *reinterpret_cast<const InMemory*>(at);
    at += next;
    asm("" : "+r"(at));
    return x;
  }
};

// ---- operations

template <bool is_single>
void load(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  In<is_single> x(places[s->a], offset);
  auto f = [&](Vector, int64_t k) { return x[k]; };
  BLOCKS_ALL(f);
  BLOCKS_NEXT;
}

void save(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  const ChainPlace& p = places[s->a];
  InMemory* to = reinterpret_cast<InMemory*>(p.at + (offset & p.mask));
  to[0] = v0, to[1] = v1, to[2] = v2, to[3] = v3, to[4] = v4, to[5] = v5, to[6] = v6, to[7] = v7;
  BLOCKS_NEXT;
}

void end(Vector, Vector, Vector, Vector, Vector, Vector, Vector, Vector, const ChainStep*,
         const ChainPlace*, int64_t) {}

template <class F>
void of_one(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  auto f = [](Vector v, int64_t) { return F::run(v); };
  BLOCKS_ALL(f);
  BLOCKS_NEXT;
}

#if defined(__AVX512F__)
// One look at all vectors takes a third of what one at each does.
template <>
void of_one<SigmoidVector>(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  auto larger = [](__m512i x, Vector y) { return _mm512_max_epi32(x, magnitude(y)); };
  __m512i most = larger(larger(larger(magnitude(v0), v1), v2), v3);
  most = _mm512_max_epi32(most, larger(larger(larger(magnitude(v4), v5), v6), v7));
  auto near = [](Vector v, int64_t) { return SigmoidVector::near(v); };
  auto chosen = [](Vector v, int64_t) { return SigmoidVector::chosen(v); };
  if (SigmoidVector::are_near(most)) [[likely]] {
    BLOCKS_ALL(near);
  } else {
    BLOCKS_ALL(chosen);
  }
  BLOCKS_NEXT;
}
#endif

template <class F, bool is_second, bool is_single>
void of_two(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  In<is_single> y(places[s->a], offset);
  auto f = [&](Vector v, int64_t k) { return is_second ? F::run(y[k], v) : F::run(v, y[k]); };
  BLOCKS_ALL(f);
  BLOCKS_NEXT;
}

template <class F>
void of_itself(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  auto f = [](Vector v, int64_t) { return F::run(v, v); };
  BLOCKS_ALL(f);
  BLOCKS_NEXT;
}

/// Comparison(x, y) ? c : d; the accumulator is x, c or d, and the others follow in this order.
template <class Comparison, ChainForm form>
void choose(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  Walk p(places[s->a], offset), q(places[s->b], offset), r(places[s->c], offset);
  auto f = [&](Vector v, int64_t) -> Vector {
    Vector x = p.take(), y = q.take(), z = r.take();
    if constexpr (form == ChainForm::compared) return Comparison::mask(v, x) ? y : z;
    if constexpr (form == ChainForm::if_true) return Comparison::mask(x, y) ? v : z;
    return Comparison::mask(x, y) ? z : v;
  };
  BLOCKS_ALL(f);
  BLOCKS_NEXT;
}

/// Comparison(v, x) ? v : y, or y : v.
template <class Comparison, bool is_if_true, bool are_single>
void choose_itself(BLOCKS_ACCUMULATOR, BLOCKS_WHERE) {
  In<are_single> x(places[s->a], offset), y(places[s->b], offset);
  auto f = [&](Vector v, int64_t k) -> Vector {
    auto mask = Comparison::mask(v, x[k]);
    return is_if_true ? mask ? v : y[k] : mask ? y[k] : v;
  };
  BLOCKS_ALL(f);
  BLOCKS_NEXT;
}

// ---- functions of one vector

struct Opposite {
  BLOCKS_INLINE Vector run(Vector x) { return -x; }
};
struct Magnitude {
  typedef uint32_t Bits __attribute__((vector_size(vector_bytes)));
  BLOCKS_INLINE Vector run(Vector x) {
    return reinterpret_cast<Vector>(reinterpret_cast<Bits>(x) & 0x7fffffffu);
  }
};
#if defined(__SSE2__)
struct Root {
  BLOCKS_INLINE Vector run(Vector x) {
#if defined(__AVX512F__)
    return _mm512_sqrt_ps(x);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps(x);
#else
    return _mm_sqrt_ps(x);
#endif
  }
};
#endif

#if defined(__AVX512F__)
/// As Max and Min are; of NaN the instructions give the second operand, of equal ones, too.
struct MaxVector {
  BLOCKS_INLINE Vector run(Vector x, Vector y) {
    return _mm512_mask_mov_ps(_mm512_max_ps(y, x), _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), y);
  }
};
struct MinVector {
  BLOCKS_INLINE Vector run(Vector x, Vector y) {
    return _mm512_mask_mov_ps(_mm512_min_ps(y, x), _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), y);
  }
};
#else
using MaxVector = Max;
using MinVector = Min;
#endif

// ---- which one

using Found = void (*)();
BLOCKS_INLINE Found found(Operation f) { return reinterpret_cast<Found>(f); }

Found one_of(uint16_t code) {
  switch (code) {
    case TN_F_NEG:
      return found(of_one<Opposite>);
    case TN_F_ABS:
      return found(of_one<Magnitude>);
#if defined(__SSE2__)
    case TN_F_SQRT:
      return found(of_one<Root>);
#endif
#if defined(__AVX512F__)
    case TN_F_EXP:
      return found(of_one<ExpVector>);
    case TN_F_SIGMOID:
      return found(of_one<SigmoidVector>);
    case TN_F_TANH:
      return found(of_one<TanhVector>);
#endif
    default:
      return nullptr;
  }
}

template <class F>
Found two_in(ChainForm form) {
  switch (form) {
    case ChainForm::first:
      return found(of_two<F, false, false>);
    case ChainForm::first_and_single:
      return found(of_two<F, false, true>);
    case ChainForm::second:
      return found(of_two<F, true, false>);
    case ChainForm::second_and_single:
      return found(of_two<F, true, true>);
    case ChainForm::both:
      return found(of_itself<F>);
    default:
      return nullptr;
  }
}

Found two_of(uint16_t code, ChainForm form) {
  switch (code) {
    case TN_F_ADD:
      return two_in<Add>(form);
    case TN_F_SUB:
      return two_in<Sub>(form);
    case TN_F_MUL:
      return two_in<Mul>(form);
    case TN_F_DIV:
      return two_in<Div>(form);
    case TN_F_MIN:
      return two_in<MinVector>(form);
    case TN_F_MAX:
      return two_in<MaxVector>(form);
    default:
      return nullptr;
  }
}

template <class Comparison>
Found choice_in(ChainForm form) {
  switch (form) {
    case ChainForm::compared:
      return found(choose<Comparison, ChainForm::compared>);
    case ChainForm::if_true:
      return found(choose<Comparison, ChainForm::if_true>);
    case ChainForm::if_false:
      return found(choose<Comparison, ChainForm::if_false>);
    case ChainForm::compared_if_true:
      return found(choose_itself<Comparison, true, false>);
    case ChainForm::compared_if_true_and_singles:
      return found(choose_itself<Comparison, true, true>);
    case ChainForm::compared_if_false:
      return found(choose_itself<Comparison, false, false>);
    case ChainForm::compared_if_false_and_singles:
      return found(choose_itself<Comparison, false, true>);
    default:
      return nullptr;
  }
}

Found choice_by(uint16_t comparison, ChainForm form) {
  return by_comparison(comparison, [&]<class F> { return choice_in<F>(form); });
}

}  // namespace

Found find_chained(ChainForm form, uint16_t code) {
  switch (form) {
    case ChainForm::load:
      return found(load<false>);
    case ChainForm::load_single:
      return found(load<true>);
    case ChainForm::save:
      return found(save);
    case ChainForm::end:
      return found(end);
    case ChainForm::alone:
      return one_of(code);
    default:
      return form >= ChainForm::compared ? choice_by(code, form) : two_of(code, form);
  }
}

void run_chain(const ChainStep* steps, const ChainPlace* places, int64_t n_groups) {
  Operation first = as_operation(steps[0]);
  Vector none{};
  constexpr int64_t group_bytes = 8 * vector_bytes;
  for (int64_t g = 0; g < n_groups; ++g)
    first(none, none, none, none, none, none, none, none, steps, places, g * group_bytes);
}

}  // namespace blocks::BLOCKS_LEVEL
