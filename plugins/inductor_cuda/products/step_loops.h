// Loops in the place of a program's steps: what those who make them share.
#pragma once

#include <loopir/program.h>

#include <string>
#include <vector>

namespace inductor_cuda {

using loopir::Id;
using loopir::Ids;

/// The dtype of the sums of products of this one.
inline int32_t summed_in(int32_t dtype) { return dtype == TN_F64 ? TN_F64 : TN_F32; }

/// Threads: one at a time.
struct StepLoops {
  explicit StepLoops(loopir::Program& p) : program(p), x(p.expressions) {}

  loopir::Program& program;
  loopir::Expressions& x;
  std::vector<loopir::Step> steps;  // the new ones

  /// Indices over `sizes`; those of size 1 are 0.
  Ids variables(const Ids& sizes);
  Ids only_variables(const Ids& indices) const;
  /// The element of a view, and where it lies; 0 where the mask does not hold.
  Id at(const loopir::View& v, const Ids& indices, Id mask = loopir::none);
  Id place(const loopir::View& v, const Ids& indices);
  int32_t dtype_of(const loopir::View& v) const { return program.buffers[v.buffer].dtype; }
  /// In [0, size), as a bool value.
  Id is_within(Id index, Id size);
  Id both(Id p, Id q) {
    return p == loopir::none ? q : q == loopir::none ? p : x.apply(TN_F_BAND, TN_BOOL, p, q);
  }
  Ids dense_strides(const Ids& sizes);
  /// New memory, dense.
  loopir::View temporary(int32_t dtype, const Ids& sizes, const std::string& name);
  /// A loop over the variables among `indices`: result[indices] = value.
  void store(const loopir::View& result, const Ids& indices, Id value, const std::string& name);
  /// New memory of these sizes with the value folded over `reduced` at each of `outer`.
  loopir::View fold(loopir::Fold how, const Ids& sizes, const Ids& outer, const Ids& reduced,
                    Id value, int32_t dtype, const std::string& name);
  loopir::View sum(const Ids& sizes, const Ids& outer, const Ids& reduced, Id value, int32_t dtype,
                   const std::string& name) {
    return fold(loopir::Fold::sum, sizes, outer, reduced, value, dtype, name);
  }
};

}  // namespace inductor_cuda
