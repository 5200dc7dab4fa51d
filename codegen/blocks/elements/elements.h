// Functions over blocks of elements, in one table for each level of vectors.
//
// A register holds numbers of one of the types below: f16 and bf16 are computed in f32, truth is a
// byte of 0 or 1. Operands of one number for all elements are told by the shape, so that no block
// is filled with copies of it.
#pragma once

#include <loopir/fold.h>

#include <cstddef>
#include <cstdint>

namespace blocks {

enum class Type : uint8_t { f32, f64, i64, i32, i16, i8, u8, truth };
constexpr size_t type_count = 8;

constexpr size_t size_of(Type t) {
  constexpr size_t sizes[type_count] = {4, 8, 8, 4, 2, 1, 1, 1};
  return sizes[static_cast<size_t>(t)];
}

/// Which operand is one number.
enum class Shape : uint8_t { blocks, first_single, second_single };

/// out[i] = f(a[i], b[i], c[i]) for n elements; `out` may be one of the operands.
using Apply = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);
/// Two primitives of f32 over whole vectors.
using JoinedLoop = void (*)(float* out, const float* const* operands, int64_t n_vectors);
/// Takes n elements into `state`: one number, or one for each element (by lanes).
using Accumulate = void (*)(void* state, const void* x, int64_t n);
/// The same with positions: `best` and `at` are those so far.
using AccumulatePlaces = void (*)(void* best, int64_t* at, const void* x, const int64_t* places,
                                  int64_t n);

using loopir::Fold;

/// What an operation of a chain does with the accumulator. `first`, `second`, `both`: which operand of
/// a primitive of two it is. Of a choice by a comparison: the first number that is compared, or what
/// is chosen.
enum class ChainForm : uint8_t {
  load,
  load_single,
  save,
  end,
  alone,
  first,
  first_and_single,
  second,
  second_and_single,
  both,
  compared,
  if_true,
  if_false,
  compared_if_true,  // both
  compared_if_true_and_singles,
  compared_if_false,
  compared_if_false_and_singles
};
/// An operation, and the places of its other operands.
struct ChainStep {
  void (*run)();
  uint32_t a = 0, b = 0, c = 0;
};
/// Where an operand lies: from group to group one further on (`mask` is -1), or always there (0).
struct ChainPlace {
  std::byte* at;
  int64_t mask, next;  // next: bytes from one vector to another
};

struct Elements {
  /// A scalar primitive (TN_F_...), casts included; null where it has none for the types. `select`
  /// takes blocks only.
  Apply (*primitive)(uint16_t code, Type operand, Type result, Shape shape);
  /// Two primitives of f32 in one loop: outer(inner(a, b), c), or, by `is_second`,
  /// outer(c, inner(a, b)); of TN_F_SELECT inner(a, b) ? c : d. Bit i of `singles`: operand i is one
  /// number. Null where there is none.
  JoinedLoop (*joined)(uint16_t inner, uint16_t outer, bool is_second, unsigned singles);
  /// Over n elements; of an operand that the loop does not have, null.
  void (*run_joined)(JoinedLoop loop, float* out, const float* const* operands, unsigned singles,
                     int64_t n);
  /// An operation of a chain, of the primitive or comparison `code`; null where there is none.
  void (*(*chained)(ChainForm form, uint16_t code))();
  /// Runs steps, the last of which is `end`, for groups of `chain_elements` elements.
  void (*run_chain)(const ChainStep* steps, const ChainPlace* places, int64_t n_groups);
  int64_t vector_bytes, chain_elements;
  /// Of the type, or, sums of f32, in f64.
  Accumulate (*fold)(Fold fold, Type type, Type state, bool by_lanes);
  /// Each element is replaced by what is folded up to it: from `state`, which is left behind it.
  Accumulate (*scan)(Fold fold, Type type, bool by_lanes);
  AccumulatePlaces (*places)(Fold fold, Type type, bool by_lanes);
  // Between memory and registers: out[i] = a[i].
  Apply from_half, from_bf16, to_half, to_bf16, to_truth;
};

/// The table for this processor.
const Elements& elements();

#define BLOCKS_LEVEL_OF(level)                                                                 \
  namespace level {                                                                            \
  extern const Elements table;                                                                 \
  JoinedLoop find_joined(uint16_t inner, uint16_t outer, bool is_second, unsigned singles);    \
  void run_joined(JoinedLoop loop, float* out, const float* const* operands, unsigned singles, \
                  int64_t n);                                                                  \
  void (*find_chained(ChainForm form, uint16_t code))();                                       \
  void run_chain(const ChainStep* steps, const ChainPlace* places, int64_t n_groups);          \
  }
BLOCKS_LEVEL_OF(base)
BLOCKS_LEVEL_OF(avx2)
BLOCKS_LEVEL_OF(avx512)
#undef BLOCKS_LEVEL_OF

}  // namespace blocks
