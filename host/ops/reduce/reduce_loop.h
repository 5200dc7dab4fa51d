// The loop of all reductions: dimensions of a mask are folded into a state per kept element.
//
// Problem: the same fold (sum, maximum, Welford's moments) runs over any subset of dimensions of
//   any strides, and must give the same bits whatever the number of threads.
// Model: an operation has a State, `start()`, `step(state, x, index)` (index counts the folded
//   elements in row-major order), `join(a, b)` and `store(offset, state, n)`, which writes the
//   results. `reduce` turns it into functions over rows and lines of elements; the loops over
//   dimensions, in reduce_loop.cpp, are the same code for all operations and types.
#pragma once

#include "core/scalar/scalar.h"
#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tenon::ops {

/// The type that sums run in: wide, so that the order of additions hardly matters.
template <class T>
using SumOf = std::conditional_t<is_float_type<T>, double, int64_t>;

/// A fold of n neighbours in eight parts, so that one step need not wait for the last. `step(part,
/// x)` takes an element in; parts begin as `start` and are joined in one order.
template <class Part, class T, class Step, class Join>
Part fold_in_parts(Part start, const T* x, int64_t n, Step&& step, Join&& join) {
  constexpr int64_t parts = 8;
  Part part[parts];
  std::fill_n(part, parts, start);
  int64_t whole = n / parts * parts;
  for (int64_t i = 0; i < whole; i += parts)
    for (int64_t k = 0; k < parts; ++k) step(part[k], x[i + k]);
  for (int64_t i = whole; i < n; ++i) step(part[i - whole], x[i]);
  for (int64_t width = parts / 2; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k) part[k] = join(part[k], part[k + width]);
  return part[0];
}

/// Folds n >= 8 neighbours into at most sixteen elements of `to` at `out` by a primitive of the block
/// kernels, which must not care for the order; returns how many. `out` has room for a block.
int64_t fold_by_blocks(ScalarCode code, const void* x, Dtype from, int64_t n, void* out, Dtype to);

/// `start` folded with n neighbours by a primitive on integers; `fold(a, b)` is the same on two.
template <class Out, class T, class Fold>
Out fold_integers(ScalarCode code, Out start, const T* x, int64_t n, const Fold& fold) {
  constexpr int64_t few = 32;
  if (n < few) {
    for (int64_t i = 0; i < n; ++i) start = fold(start, static_cast<Out>(x[i]));
    return start;
  }
  alignas(64) Out parts[512];
  int64_t left = fold_by_blocks(code, x, dtype_of<T>, n, parts, dtype_of<Out>);
  for (int64_t i = 0; i < left; ++i) start = fold(start, parts[i]);
  return start;
}

/// An operation as functions: the loops of reductions exist once, and only what touches elements is
/// compiled for each operation and type. `op` is the operation; states are arrays of `state_bytes`.
struct Folder {
  static constexpr size_t most_state_bytes = 32;

  size_t state_bytes;
  int64_t itemsize;  ///< of elements
  void (*start)(const void* op, void* states, int64_t n);
  /// Folds n elements that lie `step` elements apart into one state; `index` is that of the first.
  void (*row)(const void* op, void* state, const void* in, int64_t n, int64_t step, int64_t index);
  /// Folds an element each into n states.
  void (*line)(const void* op, void* states, const void* in, int64_t n, int64_t step,
               int64_t index);
  /// `start`, `row` and `store` of one state for each of `count` rows, which lie `in_step` elements
  /// apart and store `out_step` apart.
  void (*rows)(const void* op, const void* in, int64_t count, int64_t in_step, int64_t n,
               int64_t step, int64_t at, int64_t out_step);
  void (*join)(const void* op, void* state, const void* other);
  void (*store)(const void* op, const void* states, int64_t n, int64_t at, int64_t step,
                int64_t n_folded);
};

/// Folds the dimensions of `mask` of `in`; `op` stores at offsets of `out`'s strides.
void run_reduction(const Folder& folder, const void* op, const Tensor& in, const Tensor& out,
                   uint64_t mask);

namespace reduce_detail {

template <class T, class Op>
struct FolderOf {
  using State = typename Op::State;
  static_assert(sizeof(State) <= Folder::most_state_bytes && alignof(State) <= 16);

  static void start(const void* op, void* states, int64_t n) {
    std::fill_n(static_cast<State*>(states), n, static_cast<const Op*>(op)->start());
  }
  // An operation may fold neighbouring elements in a way of its own: `fold(state, in, n, index)`
  // and `fold_line(states, in, n, index)`.
  [[gnu::noinline]] static void row(const void* op_, void* state, const void* in, int64_t n,
                                    int64_t step, int64_t index) {
    const Op op = *static_cast<const Op*>(op_);
    State s = *static_cast<State*>(state);
    const T* x = static_cast<const T*>(in);
    bool done = false;
    constexpr int64_t few = 8;  // elements, for which parts take longer than steps
    if constexpr (requires { op.fold(s, x, n, index); })
      if (step == 1 && n >= few) op.fold(s, x, n, index), done = true;
    if (!done)
      for (int64_t i = 0; i < n; ++i) op.step(s, x[i * step], index + i);
    *static_cast<State*>(state) = s;
  }
  static void line(const void* op_, void* states_, const void* in, int64_t n, int64_t step,
                   int64_t index) {
    const Op op = *static_cast<const Op*>(op_);
    State* states = static_cast<State*>(states_);
    const T* x = static_cast<const T*>(in);
    if constexpr (requires { op.fold_line(states, x, n, index); })
      if (step == 1) return op.fold_line(states, x, n, index);
    if (step == 1)
      for (int64_t k = 0; k < n; ++k) op.step(states[k], x[k], index);
    else
      for (int64_t k = 0; k < n; ++k) op.step(states[k], x[k * step], index);
  }
  static void rows(const void* op_, const void* in, int64_t count, int64_t in_step, int64_t n,
                   int64_t step, int64_t at, int64_t out_step) {
    const Op& op = *static_cast<const Op*>(op_);
    for (int64_t k = 0; k < count; ++k) {
      State s = op.start();
      row(op_, &s, static_cast<const T*>(in) + k * in_step, n, step, 0);
      op.store(at + k * out_step, s, n);
    }
  }
  static void join(const void* op, void* state, const void* other) {
    auto& s = *static_cast<State*>(state);
    s = static_cast<const Op*>(op)->join(s, *static_cast<const State*>(other));
  }
  static void store(const void* op, const void* states, int64_t n, int64_t at, int64_t step,
                    int64_t n_folded) {
    for (int64_t k = 0; k < n; ++k)
      static_cast<const Op*>(op)->store(at + k * step, static_cast<const State*>(states)[k],
                                        n_folded);
  }
  static constexpr Folder table{sizeof(State), sizeof(T), start, row, line, rows, join, store};
};

}  // namespace reduce_detail

/// A row-major array seen as outer x n x inner, of which the middle is folded.
struct FoldedBlock {
  int64_t outer = 1, n = 1, inner = 1;
};

/// The block that folding `mask` of `in` is, where `in` is row-major and the folded dimensions are
/// neighbours.
inline std::optional<FoldedBlock> folded_block(const Tensor& in, uint64_t mask) {
  if (!in.is_contiguous()) return {};
  FoldedBlock block;
  enum { before, inside, behind } place = before;
  for (size_t d = 0; d < static_cast<size_t>(in.dim()); ++d) {
    int64_t size = sizes_of(in)[d];
    if (size == 1) continue;
    bool folded = mask >> d & 1;
    if (folded && place == behind) return {};
    if (folded)
      place = inside;
    else if (place == inside)
      place = behind;
    (folded ? block.n : place == behind ? block.inner : block.outer) *= size;
  }
  return block;
}

/// The last of `mask`'s dimensions that are neighbours.
inline uint64_t last_neighbours(uint64_t mask, int64_t ndim) {
  uint64_t out = 0;
  for (int64_t d = ndim - 1; d >= 0 && (out == 0 || mask >> d & 1); --d)
    out |= mask & uint64_t{1} << d;
  return out;
}

/// `run_reduction` of an operation on elements of type T.
template <class T, class Op>
void reduce(const Tensor& in, const Tensor& out, uint64_t mask, const Op& op) {
  run_reduction(reduce_detail::FolderOf<T, Op>::table, &op, in, out, mask);
}

inline TensorMeta reduced_meta(const Tensor& self, uint64_t mask, bool keepdim, Dtype dtype) {
  return contiguous_meta(list_of(reduced_sizes(self.sizes(), mask, keepdim)), dtype, self.device());
}

inline uint64_t mask_of_dim(const Tensor& self, int64_t dim) {
  return uint64_t{1} << wrap_dim(dim, self.dim());
}
inline constexpr uint64_t all_dims = ~uint64_t{0};

/// Integers and bool sum up in i64 unless the call says otherwise.
inline Dtype sum_dtype(const Tensor& self, std::optional<Dtype> dtype) {
  if (dtype) return *dtype;
  return is_integral(self.dtype()) || self.dtype() == Dtype::bool_ ? Dtype::i64 : self.dtype();
}

inline TensorMeta mean_meta(const Tensor& self, uint64_t mask, bool keepdim,
                            std::optional<Dtype> dtype) {
  Dtype result = dtype.value_or(self.dtype());
  require(is_floating(result) || is_complex(result),
          "mean: a floating dtype is expected, found {}; pass dtype or cast the input", result);
  return reduced_meta(self, mask, keepdim, result);
}

}  // namespace tenon::ops
