// The set's table: twice as large as what is in it, addressed by the tensors' addresses.
#include "capture/distinct_tensors.h"

#include <algorithm>
#include <bit>

namespace tenon {

void DistinctTensors::assign(const detail::Leaves& leaves, std::span<const Tensor> captured) {
  capacity_ = size_ = 0;
  reserve(leaves.tensors.size() + captured.size() + 1);
  for (const Tensor* t : leaves.tensors.span())
    if (t->defined()) insert(*t);
  for (const Tensor& t : captured) insert(t);
}

bool DistinctTensors::insert(const Tensor& t) {
  if (2 * (size_ + 1) > capacity_) reserve(2 * size_);
  bool is_new = place(t.head());
  size_ += is_new;
  return is_new;
}

void DistinctTensors::reserve(size_t n) {
  std::vector<const void*> before(table_, table_ + capacity_);
  capacity_ = std::bit_ceil(std::max<size_t>(2 * n, 16));
  if (capacity_ > local_.size()) spilled_.resize(capacity_);
  table_ = capacity_ > local_.size() ? spilled_.data() : local_.data();
  std::fill_n(table_, capacity_, nullptr);
  for (const void* head : before)
    if (head) place(head);
}

bool DistinctTensors::place(const void* head) {
  size_t at = (reinterpret_cast<uint64_t>(head) >> 4) * 0x9E3779B97F4A7C15u >> 32;
  for (;; ++at) {
    const void*& entry = table_[at & (capacity_ - 1)];
    if (entry == head) return false;
    if (!entry) return entry = head, true;
  }
}

}  // namespace tenon
