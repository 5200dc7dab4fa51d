// Text as a JSON string. Header only, as core/utf8.h is: traces of report and documents of formats
// write it, and neither room sees the other.
#pragma once

#include "core/utf8.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace tenon {

/// Appends `text` with its quotes. Bytes that are not UTF-8 become U+FFFD: JSON is UTF-8.
inline void append_json_text(std::string_view text, std::string& out) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[0];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else if (length == 0) {
      out += "\uFFFD";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out += '"';
}

}  // namespace tenon
