// Memory that the program may write between the operations of a body, as it has its address.
#pragma once

#include "core/dispatch.h"
#include "core/function_ref.h"
#include "core/tensor/storage.h"

#include <vector>

namespace tenon {

/// The memory whose addresses a body was given. An operation on it runs at once, before the program
/// can go on: what it reads is what stands there at that point of a plain call.
class HostWrites {
 public:
  /// Forgets what nobody else holds any more.
  void watch(const Tensor& real);
  bool are_none() const { return watched_.empty(); }
  /// Whether an argument lies in such memory. `real_of(fake)`: the tensor that it stands for;
  /// undefined for what has yet to be computed.
  bool touches(const CallArgs& call, FunctionRef<const Tensor&(const Tensor& fake)> real_of) const;

 private:
  std::vector<StorageRef> watched_;
};

}  // namespace tenon
