// The four kinds of strings in TOML: with escapes or without, on one line or on several.
#include "config/toml_strings.h"

#include <algorithm>

namespace tenon::config {

size_t end_of_toml_string(std::string_view text, size_t at) {
  const char quote = text[at];
  auto is_triple = [&] {
    return text.size() - at >= 3 && text[at] == quote && text[at + 1] == quote &&
           text[at + 2] == quote;
  };
  const bool lines = is_triple();
  for (at += lines ? 3 : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (lines ? is_triple() : text[at] == quote || text[at] == '\n') {
      break;
    }
  }
  at = std::min(at + (lines ? 3 : 1), text.size());
  // A string of several lines may end with two quotes of its own.
  for (int own = 0; lines && own < 2 && at < text.size() && text[at] == quote; ++own) ++at;
  return at;
}

}  // namespace tenon::config
