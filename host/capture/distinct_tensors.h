// Whether the tensors that a body was given or has captured are all different ones.
#pragma once

#include <tenon/detail/leaves.h>

#include <array>
#include <span>
#include <vector>

namespace tenon {

/// A set of tensor objects with open addressing; up to 16 need no memory.
class DistinctTensors {
 public:
  /// Begins with the arguments of a call and what has been captured so far.
  void assign(const detail::Leaves& leaves, std::span<const Tensor> captured);
  bool empty() const { return capacity_ == 0; }
  void clear() { capacity_ = 0; }
  /// False where it is there already.
  bool insert(const Tensor& t);

 private:
  void reserve(size_t n);
  bool place(const void* head);

  std::array<const void*, 32> local_;  // what is beyond capacity_ is not set
  std::vector<const void*> spilled_;
  const void** table_ = nullptr;
  size_t capacity_ = 0, size_ = 0;
};

}  // namespace tenon
