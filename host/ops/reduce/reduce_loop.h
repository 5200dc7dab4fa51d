// The loop of all reductions: dimensions of a mask are folded into a state per kept element.
//
// Problem: the same fold (sum, maximum, Welford's moments) runs over any subset of dimensions of
// any
//   strides, and must give the same bits whatever the number of threads.
// Model: an operation has a State, `start()`, `step(state, x, index)` (index counts the folded
// elements
//   in row-major order), `join(a, b)` and `store(offset, state, n)`, which writes the results.
// Method: three forms. Inner: a kept element at a time, its folded elements in a row. Outer: the
// kept
//   dimension lies denser in memory than the folded ones, so a block of kept elements is folded
//   together, line by line. Whole: one result from one long run; pieces of fixed length are folded
//   apart and joined from the left.
// Cost: memory-bound where the step is cheap. Threads share kept elements, or the fixed pieces.
#pragma once

#include "core/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tenon::ops {

/// The type that sums run in: wide, so that the order of additions hardly matters.
template <class T>
using SumOf = std::conditional_t<is_float_type<T>, double, int64_t>;

/// An iteration split into kept and folded dimensions. Operand 0 is the input, 1 the result.
struct ReductionPlan {
  Walk<2> kept;
  Walk<1> folded;
  int64_t n_folded = 1;
};

inline ReductionPlan plan_reduction(const Tensor& in, const Tensor& out, uint64_t mask) {
  ReductionPlan plan;
  bool keepdim = out.dim() == in.dim();
  size_t next = 0;
  for (size_t d = 0; d < static_cast<size_t>(in.dim()); ++d) {
    int64_t size = sizes_of(in)[d], step = strides_of(in)[d];
    if (mask >> d & 1) {
      plan.folded.add(size, {step});
      plan.n_folded *= size;
    } else {
      plan.kept.add(size, {step, strides_of(out)[keepdim ? d : next]});
      ++next;
    }
  }
  return plan;
}

namespace reduce_detail {

inline constexpr int64_t outer_block = 128;
inline constexpr int64_t piece = 32768;

// Offsets of the row-th run of the innermost dimension.
template <size_t N>
Offsets<N> offsets_of_row(const Walk<N>& walk, int64_t row) {
  Offsets<N> at{};
  for (size_t d = walk.sizes.size() - 1; d-- > 0;) {
    int64_t i = row % walk.sizes[d];
    row /= walk.sizes[d];
    for (size_t k = 0; k < N; ++k) at[k] += i * walk.strides[d][k];
  }
  return at;
}

/// `body(offsets, n, steps)` over runs of kept elements, shared out to threads; a long run is cut.
template <class F>
void for_each_kept_run(const ReductionPlan& plan, const F& body) {
  const Walk<2>& kept = plan.kept;
  if (kept.sizes.empty()) return body(Offsets<2>{}, int64_t{1}, Offsets<2>{});
  int64_t inner = kept.sizes[kept.sizes.size() - 1], n = kept.numel();
  if (n == 0) return;
  const Offsets<2>& step = kept.strides[kept.sizes.size() - 1];
  int64_t cut = std::min(inner, outer_block), cuts = (inner + cut - 1) / cut;
  auto run = [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      Offsets<2> at = offsets_of_row(kept, i / cuts);
      int64_t first = i % cuts * cut;
      for (size_t k = 0; k < 2; ++k) at[k] += first * step[k];
      body(at, std::min(cut, inner - first), step);
    }
  };
  int64_t total = n / inner * cuts;
  int64_t grain = std::max<int64_t>(1, piece / std::max<int64_t>(1, cut * plan.n_folded));
  if (total <= grain) return run(0, total);
  parallel_for(0, total, grain, run);
}

// An operation may fold neighbouring elements in a way of its own: `fold(state, in, n, index)`.
template <class T, class Op>
void step_row(const Op& op, typename Op::State& state, const T* in, int64_t n, int64_t step,
              int64_t index) {
  if constexpr (requires { op.fold(state, in, n, index); })
    if (step == 1) return op.fold(state, in, n, index);
  for (int64_t i = 0; i < n; ++i) op.step(state, in[i * step], index + i);
}

template <class T, class Op>
void reduce_inner(const T* in, const ReductionPlan& plan, const Op& op) {
  for_each_kept_run(plan, [&](const Offsets<2>& at, int64_t n, const Offsets<2>& step) {
    for (int64_t k = 0; k < n; ++k) {
      typename Op::State state = op.start();
      int64_t index = 0;
      const T* from = in + at[0] + k * step[0];
      for_each_row(plan.folded, [&](const Offsets<1>& f, int64_t length, const Offsets<1>& fs) {
        step_row(op, state, from + f[0], length, fs[0], index);
        index += length;
      });
      op.store(at[1] + k * step[1], state, plan.n_folded);
    }
  });
}

template <class T, class Op>
void reduce_outer(const T* in, const ReductionPlan& plan, const Op& op) {
  for_each_kept_run(plan, [&](const Offsets<2>& at, int64_t n, const Offsets<2>& step) {
    typename Op::State states[outer_block];
    std::fill_n(states, n, op.start());
    int64_t index = 0;
    for_each_offset(plan.folded, [&](const Offsets<1>& f) {
      const T* line = in + at[0] + f[0];
      for (int64_t k = 0; k < n; ++k) op.step(states[k], line[k * step[0]], index);
      ++index;
    });
    for (int64_t k = 0; k < n; ++k) op.store(at[1] + k * step[1], states[k], plan.n_folded);
  });
}

template <class T, class Op>
void reduce_whole(const T* in, const ReductionPlan& plan, const Op& op) {
  int64_t n = plan.n_folded, step = plan.folded.strides[0][0], pieces = (n + piece - 1) / piece;
  std::vector<typename Op::State> states(static_cast<size_t>(pieces), op.start());
  parallel_chunks(pieces, [&](int64_t i, int) {
    int64_t first = i * piece;
    step_row(op, states[static_cast<size_t>(i)], in + first * step, std::min(piece, n - first),
             step, first);
  });
  typename Op::State state = states[0];
  for (size_t i = 1; i < states.size(); ++i) state = op.join(state, states[i]);
  op.store(0, state, n);
}

inline bool prefers_outer(const ReductionPlan& plan) {
  if (plan.kept.sizes.empty() || plan.folded.sizes.empty()) return false;
  size_t k = plan.kept.sizes.size() - 1, f = plan.folded.sizes.size() - 1;
  return plan.kept.sizes[k] >= 4 && plan.kept.strides[k][0] < plan.folded.strides[f][0];
}

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

/// Folds the dimensions of `mask` of `in`; `op` stores at offsets of `out`'s strides.
template <class T, class Op>
void reduce(const Tensor& in, const Tensor& out, uint64_t mask, const Op& op) {
  using namespace reduce_detail;
  ReductionPlan plan = plan_reduction(in, out, mask);
  const T* from = data_of<T>(in);
  if (plan.kept.sizes.empty() && plan.folded.sizes.size() == 1 && plan.n_folded > piece)
    return reduce_whole(from, plan, op);
  if (prefers_outer(plan)) return reduce_outer(from, plan, op);
  reduce_inner(from, plan, op);
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

}  // namespace tenon::ops
