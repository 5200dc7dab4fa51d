// Places of elements that are not 0, and their coordinates.
#pragma once

#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <vector>

namespace tenon::ops {

/// The places of elements that are not 0, in row-major order.
// A place is written for every element and kept where the next one does not overwrite it: whether
// an element is 0 is no branch that could be foretold.
inline std::vector<int64_t> flat_positions(const Tensor& self) {
  Tensor in = contiguous_of(self);
  std::vector<int64_t> out;
  dispatch_dtype(in.dtype(), "nonzero", [&]<class T>() {
    const T* p = data_of<T>(in);
    int64_t n = numel_of(in), found = 0;
    auto counts = [p](int64_t i) { return static_cast<ComputeOf<T>>(p[i]) != ComputeOf<T>(0); };
    for (int64_t i = 0; i < n; ++i) found += counts(i);
    out.resize(static_cast<size_t>(found) + 1);
    int64_t* to = out.data();
    for (int64_t i = 0; i < n; ++i) {
      *to = i;
      to += counts(i);
    }
    out.pop_back();
  });
  return out;
}

/// Writes the coordinates of the first `limit` positions, each into a row of `out`.
// Divides for the first position of a line only.
inline void write_coordinates(const Tensor& out, const Tensor& self,
                              const std::vector<int64_t>& positions, int64_t limit) {
  IntList sizes = sizes_of(self), steps = strides_of(out);
  if (sizes.empty()) return;
  int64_t* to = data_of<int64_t>(out);
  size_t last = sizes.size() - 1;
  InlineVector<int64_t, 8> at(sizes.size(), 0);
  int64_t begin = 0, end = 0;  // of the line
  for (int64_t r = 0; r < limit; ++r, to += steps[0]) {
    int64_t position = positions[static_cast<size_t>(r)];
    if (position >= end) {
      int64_t line = position / sizes[last];
      begin = line * sizes[last], end = begin + sizes[last];
      for (size_t d = last; d-- > 0; line /= sizes[d]) at[d] = line % sizes[d];
    }
    for (size_t d = 0; d < last; ++d) to[static_cast<int64_t>(d) * steps[1]] = at[d];
    to[static_cast<int64_t>(last) * steps[1]] = position - begin;
  }
}

}  // namespace tenon::ops
