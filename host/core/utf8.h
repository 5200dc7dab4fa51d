// UTF-8: which bytes are text. Header only, so that errors and the readers of configuration can
// ask, who see nothing else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tenon {

/// Length of the well-formed UTF-8 sequence at the front of `text`, which is not empty; 0 where
/// there is none.
inline size_t utf8_sequence(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0u) == 0x80u; };
  unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead < 0xF0) {
    if (!tail(1) || !tail(2)) return 0;
    bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xF0 && lead < 0xF5) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    bool overlong = lead == 0xF0 && byte(1) < 0x90;
    bool too_large = lead == 0xF4 && byte(1) >= 0x90;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

/// Well-formed UTF-8 without overlong forms and surrogates.
inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// Whether a character (one well-formed sequence) steers a terminal or the direction in which a
/// line is read, instead of being seen: controls but for the end of a line and the tabulator, and
/// the marks, embeddings, overrides and isolates of bidirectional text.
inline bool is_steering(std::string_view character) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  unsigned char lead = byte(0);
  if (character.size() == 1) return (lead < 0x20 && lead != '\n' && lead != '\t') || lead == 0x7F;
  if (character.size() == 2)  // U+0080 to U+009F, U+061C
    return (lead == 0xC2 && byte(1) < 0xA0) || (lead == 0xD8 && byte(1) == 0x9C);
  if (character.size() != 3 || lead != 0xE2) return false;
  bool marks = byte(1) == 0x80 && (byte(2) == 0x8E || byte(2) == 0x8F);   // U+200E, U+200F
  bool embeds = byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE;    // U+2028 to U+202E
  bool isolates = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;  // U+2066 to U+2069
  return marks || embeds || isolates;
}

/// Names out of files get into messages, and messages onto terminals and into JSON: what steers
/// them and bytes that are not UTF-8 become '?'.
inline std::string shown(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t length = utf8_sequence(text);
    if (length == 0 || is_steering(text.substr(0, length)))
      out += '?';
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace tenon
