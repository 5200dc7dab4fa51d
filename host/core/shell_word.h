// Words of commands that are written into scripts.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

/// One argument as a shell reads it back, whatever it holds: in single quotes.
inline std::string shell_word(std::string_view argument) {
  std::string out = "'";
  for (char c : argument) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

}  // namespace tenon
