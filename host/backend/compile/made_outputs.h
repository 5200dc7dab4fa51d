// Outputs that the host makes before a call, for code that writes into what it is given.
//
// Problem: a small output that code asks the host for costs more than the kernel that fills it.
// Method: where the graph says all about the outputs, the host makes them itself: plain sizes, or
// row-major ones that are symbols of the call. Cost: a compare a dimension.
#pragma once

#include "backend/backend.h"

#include <span>
#include <vector>

namespace tenon {

/// Threads: read-only after it is made.
class MadeOutputs {
 public:
  /// None.
  MadeOutputs() = default;
  /// None where an output is on a device, has a history, shares memory with an input, a constant or
  /// another output, or has sizes that are no symbols of the call.
  explicit MadeOutputs(const CompileRequest& request);

  bool are_none() const { return outputs_.empty(); }
  /// `syms`: the values of the graph's symbols.
  Tensor make(size_t output, std::span<const int64_t> syms) const {
    const Output& o = outputs_[output];
    return o.symbols.empty() ? make_tensor(o.meta) : make_sized(o, syms);
  }

 private:
  static constexpr uint32_t plain = ~uint32_t{0};
  struct Output {
    TensorMeta meta;
    std::vector<uint32_t>
        symbols;  ///< by dimension: which one its size is, or `plain`; empty: all are
  };
  static Tensor make_sized(const Output& o, std::span<const int64_t> syms);
  bool add(const Graph& graph, ValueId v);

  std::vector<Output> outputs_;
};

}  // namespace tenon
