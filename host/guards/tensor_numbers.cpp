// The table: at least twice as large as what is in it.
#include "guards/tensor_numbers.h"

#include <algorithm>
#include <bit>

namespace tenon {

void TensorNumbers::restart(size_t n) {
  heads_.clear();
  grow(std::bit_ceil(std::max<size_t>(2 * n, 16)));
}

uint32_t TensorNumbers::add(const Tensor& t) {
  auto number = static_cast<uint32_t>(heads_.size());
  heads_.push(t.head());
  if (!t.defined()) return number;
  if (2 * heads_.size() > table_.size()) grow(2 * table_.size());
  return place(t.head(), number);
}

void TensorNumbers::grow(size_t capacity) {
  if (capacity > local_.size()) spilled_.resize(capacity);
  table_ = {capacity > local_.size() ? spilled_.data() : local_.data(), capacity};
  std::ranges::fill(table_, 0);
  for (uint32_t i = 0; i < heads_.size(); ++i)
    if (heads_[i]) place(heads_[i], i);
}

// Where the tensor stands, or the free place for it.
uint32_t& TensorNumbers::entry_for(const void* head) const {
  size_t at = (reinterpret_cast<uint64_t>(head) >> 4) * 0x9E3779B97F4A7C15u >> 32;
  for (;; ++at) {
    uint32_t& entry = table_[at & (table_.size() - 1)];
    if (entry == 0 || heads_[entry - 1] == head) return entry;
  }
}

uint32_t TensorNumbers::place(const void* head, uint32_t number) {
  uint32_t& entry = entry_for(head);
  if (entry == 0) entry = number + 1;
  return entry - 1;
}

std::optional<uint32_t> TensorNumbers::find(const Tensor& t) const {
  uint32_t entry = entry_for(t.head());
  return entry ? std::optional(entry - 1) : std::nullopt;
}

void SameTensors::look_at(std::span<const Tensor* const> tensors) {
  auto head_of = [](const Tensor* t) -> const void* { return t->head(); };
  if (std::ranges::equal(heads_, tensors, {}, {}, head_of)) return;
  heads_.clear();
  numbers_.clear();
  all_distinct_ = true;
  TensorNumbers numbers;
  numbers.restart(tensors.size());
  for (const Tensor* t : tensors) {
    numbers_.push_back(numbers.add(*t));
    all_distinct_ = all_distinct_ && numbers_.back() == heads_.size();
    heads_.push_back(t->head());
  }
}

bool SameTensors::are(std::span<const uint32_t> numbers) const {
  return numbers.empty() ? all_distinct_ : std::ranges::equal(numbers_, numbers);
}

}  // namespace tenon
