// Memory of a call or of a thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inductor {

/// Memory of its own, aligned for vectors and for huge pages where it is large.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  Memory(Memory&& o) noexcept;
  Memory& operator=(Memory&& o) noexcept;
  ~Memory();
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/// Scratch memory of this thread for what one item does at a time, aligned for vectors; it grows
/// to the most that was asked for, and the next item that asks gets the same.
std::byte* thread_bytes(size_t bytes);
inline float* thread_floats(int64_t floats) {
  return reinterpret_cast<float*>(thread_bytes(static_cast<size_t>(floats) * sizeof(float)));
}

}  // namespace inductor
