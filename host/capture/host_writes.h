// Memory that the program may write between the operations of a body, as it has its address.
#pragma once

#include "core/dispatch.h"
#include "core/function_ref.h"
#include "core/tensor/storage.h"

#include <vector>

namespace tenon {

class Graph;

/// The memory whose addresses a body was given. An operation on it runs at once, before the program
/// can go on: what it reads is what stands there at that point of a plain call.
class HostWrites {
 public:
  /// Forgets what nobody else holds any more.
  void watch(const Tensor& real);
  bool are_none() const { return watched_.empty(); }
  /// Whether a tensor lies in such memory.
  bool reach(const Tensor& real) const;
  /// Whether an argument lies in such memory. `real_of(fake)`: the tensor that it stands for;
  /// undefined for what has yet to be computed.
  bool touches(const CallArgs& call, FunctionRef<const Tensor&(const Tensor& fake)> real_of) const;

 private:
  std::vector<StorageRef> watched_;
};

/// Whether one of the first `n_nodes` operations of a graph takes an input over memory that the program
/// lends as `lent`, too. `real_of(input)`: undefined for what has no memory.
bool use_memory_of(const Tensor& lent, const Graph& graph, size_t n_nodes,
                   FunctionRef<const Tensor&(size_t input)> real_of);

}  // namespace tenon
