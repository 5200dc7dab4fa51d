// An op that the host runs: its arguments with the tensors and sizes of a call.
#pragma once

#include <loopir/program.h>
#include <tenon/plugin.hpp>

#include <functional>
#include <vector>

namespace inductor {

/// Threads: any; the object is not changed by calls.
class ExternCall {
 public:
  explicit ExternCall(loopir::Extern op);

  using TensorOf = std::function<tenon::plugin::tensor(const loopir::View&)>;
  /// The results, in order; those of no tensor are empty.
  std::vector<tenon::plugin::tensor> run(const loopir::Expressions& x,
                                         std::span<const int64_t> symbols,
                                         const TensorOf& tensor_of) const;
  const loopir::Extern& op() const { return op_; }

 private:
  loopir::Extern op_;
  std::vector<tn_arg> args_;                  // tensors by position in views_
  std::vector<std::vector<uint32_t>> lists_;  // what list arguments point to
  std::vector<loopir::View> views_;
  std::vector<std::pair<size_t, loopir::Id>> numbers_;  // argument, index
};

}  // namespace inductor
