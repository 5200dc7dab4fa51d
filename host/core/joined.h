// Texts with something between them, for messages and tables.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

/// "a, b, c".
template <class Texts>
std::string joined(const Texts& texts, std::string_view between = ", ") {
  std::string out;
  bool first = true;
  for (const auto& text : texts) {
    if (!first) out += between;
    out += text;
    first = false;
  }
  return out;
}

}  // namespace tenon
