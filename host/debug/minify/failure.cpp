// What of a failure's text counts.
#include "debug/minify/failure.h"

#include <cctype>

namespace tenon {

namespace {

// Numbers are "#"; of names such as "add_3" the number goes altogether, since a smaller graph numbers
// its nodes anew.
std::string without_numbers(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
      out += text[i];
      continue;
    }
    while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
    if (out.ends_with('_'))
      out.pop_back();
    else
      out += '#';
  }
  return out;
}

std::string key_of(Failure::Kind kind, std::string_view text) {
  size_t colon = text.find(": ");
  switch (kind) {
    case Failure::Kind::error: {
      std::string_view message = colon == text.npos ? text : text.substr(colon + 2);
      constexpr size_t most = 80;
      return without_numbers(message.substr(0, message.find('\n'))).substr(0, most);
    }
    case Failure::Kind::wrong:
      return without_numbers(text.substr(0, colon));
    default:
      return std::string(text);
  }
}

}  // namespace

Failure make_failure(Failure::Kind kind, std::string text) {
  std::string key = key_of(kind, text);
  return {kind, std::move(text), std::move(key)};
}

bool is_same(const Failure& a, const Failure& b) { return a.kind == b.kind && a.key == b.key; }

std::string_view name_of(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::none:
      return "fine";
    case Failure::Kind::crash:
      return "crash";
    case Failure::Kind::hang:
      return "hang";
    case Failure::Kind::error:
      return "error";
    case Failure::Kind::wrong:
      return "wrong results";
  }
  return "";
}

}  // namespace tenon
