// Walking over an index of gather, scatter and their kin.
//
// Problem: each element of the index, and what stands at its place in another tensor, meets an element
// of self. Method: row by row along the dimension that lies closest in memory; one walk serves the
// loops of all dtypes and folds, which get a row. Threads take parts of a dimension that is not the
// indexed one, so that an element of self is met in order.
#pragma once

#include "core/function_ref.h"
#include "core/threads/thread_pool.h"
#include "ops/index/advanced_index.h"
#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <algorithm>

namespace tenon::ops {

// A tensor without dimensions counts as a vector of one element.
inline Tensor as_vector(const Tensor& t) {
  return t.dim() ? t : make_view(t, {1}, {1}, sym_offset_of(t));
}

// As i64, with the strides that it has: an expanded index stays one.
inline Tensor positions_in(const char* op, const Tensor& index) {
  return index.dtype() == Dtype::i64 ? index : index_of(op, index);
}

// The elements of an index with what they meet: offsets into self beside `dim`, the indices,
// offsets into src or the result (a null pointer in its place gives offset 0).
struct IndexedWalk {
  const char* op;
  InlineVector<int64_t, 8> sizes;
  InlineVector<Offsets<3>, 8> steps;
  Tensor index;
  size_t at;           // the dimension that is indexed
  int64_t size, step;  // of self there

  IndexedWalk(const char* name, const Tensor& self_, int64_t dim, const Tensor& index_,
              const Tensor* other_)
      : op(name), index(as_vector(positions_in(name, index_))) {
    Tensor self = as_vector(self_), other = other_ ? as_vector(*other_) : index;
    at = static_cast<size_t>(wrap_dim(dim, self.dim()));
    size = sizes_of(self)[at];
    step = strides_of(self)[at];
    for (size_t d = 0; d < sizes_of(index).size(); ++d) {
      sizes.push_back(sizes_of(index)[d]);
      steps.push_back({d == at ? 0 : strides_of(self)[d], strides_of(index)[d],
                       other_ ? strides_of(other)[d] : 0});
    }
  }

  // Threads take parts of one dimension, not the indexed one: so all that meets at an element of
  // self is met in order, by one thread.
  size_t shared_dim() const {
    size_t d = at == 0 && sizes.size() > 1 ? 1 : 0;
    for (size_t k = d + 1; k < sizes.size() && sizes[d] == 1; ++k)
      if (k != at) d = k;
    return d;
  }
  Walk<3> part(size_t shared, int64_t n) const {
    Walk<3> walk;
    for (size_t d = 0; d < sizes.size(); ++d) walk.add(d == shared ? n : sizes[d], steps[d]);
    return walk;
  }
};

// One row that one index serves, as those of an expanded index do. Neighbours have a loop of their
// own, of which the compiler makes vectors.
template <class F>
[[gnu::noinline]] void for_row_of_one_index(Offsets<3> at, int64_t n, Offsets<3> by, F body) {
  if (by[0] == 1 && by[2] == 1) {
    for (int64_t i = 0; i < n; ++i) body(at[0] + i, at[2] + i);
    return;
  }
  for (int64_t i = 0; i < n; ++i) body(at[0] + i * by[0], at[2] + i * by[2]);
}

// One row: indices `by[1]` apart. A function of its own, whose first loop calls nothing, since
// registers are scarce; it is left at an index that counts from the end or is out of range.
template <class F>
[[gnu::noinline]] void for_indexed_row(const IndexedWalk& all, const int64_t* values, Offsets<3> at,
                                       int64_t n, Offsets<3> by, F body) {
  if (by[1] == 0 && n > 1) {
    at[0] += checked_index(all.op, values[at[1]], all.size) * all.step;
    return for_row_of_one_index(at, n, by, body);
  }
  const auto size = static_cast<uint64_t>(all.size);
  const int64_t step = all.step, by_self = by[0], by_index = by[1], by_other = by[2];
  int64_t beside = at[0], other = at[2], i = 0;
  for (values += at[1]; i < n; ++i, values += by_index, beside += by_self, other += by_other) {
    if (static_cast<uint64_t>(*values) >= size) break;
    body(beside + *values * step, other);
  }
  for (; i < n; ++i, values += by_index, beside += by_self, other += by_other)
    body(beside + checked_index(all.op, *values, all.size) * step, other);
}

using IndexedRow = FunctionRef<void(const IndexedWalk& all, const int64_t* values, Offsets<3> at,
                                    int64_t n, Offsets<3> by)>;

// Row by row, so that one walk serves all loops.
inline void for_each_indexed_row(const char* op, const Tensor& self, int64_t dim,
                                 const Tensor& index, const Tensor* other, IndexedRow row) {
  IndexedWalk all(op, self, dim, index, other);
  const int64_t* values = data_of<int64_t>(all.index);
  auto run = [&](size_t shared, int64_t lo, int64_t hi) {
    const Offsets<3>& first = all.steps[shared];
    for_each_row(all.part(shared, hi - lo), [&](Offsets<3> at, int64_t n, const Offsets<3>& by) {
      for (size_t k = 0; k < 3; ++k) at[k] += lo * first[k];
      row(all, values, at, n, by);
    });
  };
  size_t shared = all.shared_dim();
  int64_t parts = all.sizes[shared], n = numel_of(all.index);
  constexpr int64_t grain = 16384;  // elements; 10 us
  if (n <= grain || shared == all.at) return run(shared, 0, parts);
  int64_t fewest = std::max<int64_t>(1, grain * parts / n), threads = num_threads();
  if (shared + 1 == all.sizes.size())  // each cut makes all rows shorter
    fewest = std::max({fewest, int64_t{16}, (parts + threads - 1) / threads});
  parallel_for(0, parts, fewest, [&](int64_t lo, int64_t hi) { run(shared, lo, hi); });
}

// `body(self offset, other offset)` for each element of `index`.
template <class F>
void for_each_indexed(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor* other, const F& body) {
  for_each_indexed_row(
      op, self, dim, index, other,
      [&body](const IndexedWalk& all, const int64_t* values, Offsets<3> at, int64_t n,
              Offsets<3> by) { for_indexed_row(all, values, at, n, by, body); });
}

}  // namespace tenon::ops
