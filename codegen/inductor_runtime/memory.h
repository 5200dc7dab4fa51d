// Memory of a call or of a thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace inductor {

/// Memory of its own, aligned for vectors and for huge pages where it is large.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  /// The same bytes, for what stays and is read again and again: blocks of some size share huge
  /// pages, which go with the last that has a part of one.
  static Memory settled(Memory made);
  Memory(Memory&& o) noexcept
      : data_(std::move(o.data_)), size_(std::exchange(o.size_, size_t{0})) {}
  Memory& operator=(Memory&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  /// Keeps the bytes where they are for somebody else.
  std::shared_ptr<std::byte> share() const { return data_; }
  /// Whether somebody does. What he read before he let go happens before an answer that nobody does.
  bool is_shared() const {
    bool is = data_.use_count() > 1;
    std::atomic_thread_fence(std::memory_order_acquire);
    return is;
  }

 private:
  std::shared_ptr<std::byte> data_;
  size_t size_ = 0;
};

/// Scratch memory of this thread for what one item does at a time, aligned for vectors; it grows
/// to the most that was asked for, and the next item that asks gets the same.
std::byte* thread_bytes(size_t bytes);
inline float* thread_floats(int64_t floats) {
  return reinterpret_cast<float*>(thread_bytes(static_cast<size_t>(floats) * sizeof(float)));
}

}  // namespace inductor
