// Names and integrity of what is stored; not security: who stores has digests of its own.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace loopir {

/// 64 bits of FNV-1a.
inline uint64_t digest64(std::string_view bytes, uint64_t state) {
  for (unsigned char c : bytes) state = (state ^ c) * 0x100000001b3;
  return state;
}

/// Two of them with different starts, as 32 hexadecimal digits.
inline std::string digest(std::string_view bytes) {
  char text[33];
  snprintf(text, sizeof text, "%016llx%016llx",
           static_cast<unsigned long long>(digest64(bytes, 0xcbf29ce484222325)),
           static_cast<unsigned long long>(digest64(bytes, 0x84222325cbf29ce4)));
  return text;
}

}  // namespace loopir
