// Names and integrity of what is stored; not security: who stores has digests of its own.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace loopir {

/// FNV-1a from two starts, 64 bits each, as 32 hexadecimal digits: both at once, since each waits for
/// its own products.
inline std::string digest(std::string_view bytes) {
  constexpr uint64_t prime = 0x100000001b3;
  uint64_t first = 0xcbf29ce484222325, second = 0x84222325cbf29ce4;
  for (unsigned char c : bytes) {
    first = (first ^ c) * prime;
    second = (second ^ c) * prime;
  }
  char text[33];
  snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(first),
           static_cast<unsigned long long>(second));
  return text;
}

}  // namespace loopir
