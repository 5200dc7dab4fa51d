// Copies of elements by their size alone: strided to dense and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tenon {

struct Bytes16 {
  uint64_t low, high;
};

/// Calls `body` with a value of an unsigned type of `itemsize` bytes (1, 2, 4, 8, 16).
template <class Body>
void with_element(int64_t itemsize, const Body& body) {
  switch (itemsize) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    case 8:
      return body(uint64_t{});
    default:
      return body(Bytes16{});
  }
}

/// n elements that lie `stride` bytes apart, to `to` one after the other.
inline void gather(void* to, const char* from, int64_t stride, int64_t n, int64_t itemsize) {
  if (stride == itemsize) {
    std::memcpy(to, from, static_cast<size_t>(n * itemsize));
    return;
  }
  with_element(itemsize, [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(to)[i] = *reinterpret_cast<const T*>(from + i * stride);
  });
}

/// The reverse of `gather`.
inline void scatter(char* to, int64_t stride, const void* from, int64_t n, int64_t itemsize) {
  if (stride == itemsize) {
    std::memcpy(to, from, static_cast<size_t>(n * itemsize));
    return;
  }
  with_element(itemsize, [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      *reinterpret_cast<T*>(to + i * stride) = static_cast<const T*>(from)[i];
  });
}

}  // namespace tenon
