// Memory that the program may write between the operations of a body, as it has its address.
#pragma once

#include "core/dispatch.h"

#include <vector>

namespace tenon {

/// The memory whose addresses a body was given. An operation on it runs at once, before the program
/// can go on: what it reads is what stands there at that point of a plain call.
class HostWrites {
 public:
  void watch(const Tensor& real) { watched_.push_back(real); }
  /// Whether an argument lies in such memory.
  bool touches(const CallArgs& call) const;

 private:
  std::vector<Tensor> watched_;
};

}  // namespace tenon
