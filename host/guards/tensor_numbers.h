// Which of the tensors of a call are one object.
#pragma once

#include <tenon/detail/leaves.h>

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

/// Numbers tensors in the order in which they come; one that came before keeps its number. A table
/// with open addressing over the tensors' addresses; few tensors need no memory.
class TensorNumbers {
 public:
  /// Forgets all. `n`: how many tensors are expected.
  void restart(size_t n);
  bool is_empty() const { return heads_.size() == 0; }
  size_t size() const { return heads_.size(); }
  /// The number of the first tensor that is this object: size() before the call where it is new.
  /// Undefined ones are always new.
  uint32_t add(const Tensor& t);
  /// The number of one that is defined; nothing where it was not added.
  std::optional<uint32_t> find(const Tensor& t) const;

 private:
  void grow(size_t capacity);
  uint32_t place(const void* head, uint32_t number);
  uint32_t& entry_for(const void* head) const;

  detail::LeafArray<const void*, 24> heads_;  // by number
  std::array<uint32_t, 128> local_;           // what is beyond the table is not set
  std::vector<uint32_t> spilled_;
  std::span<uint32_t> table_;  // numbers + 1; 0: free
};

/// Which of many tensors are one object. That follows from their addresses alone, and calls come
/// with the same ones again and again: one kept by a thread remembers the last.
class SameTensors {
 public:
  void look_at(std::span<const Tensor* const> tensors);
  /// Whether tensor i is the first one of its object at numbers[i]; empty: all are distinct.
  bool are(std::span<const uint32_t> numbers) const;

 private:
  std::vector<const void*> heads_;
  std::vector<uint32_t> numbers_;
  bool all_distinct_ = true;
};

}  // namespace tenon
