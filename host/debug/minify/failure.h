// How a run of a graph failed, and when two failures are the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

struct Failure {
  enum class Kind : uint8_t { none, crash, hang, error, wrong };
  Kind kind = Kind::none;
  std::string text;  ///< for people: the signal, the message, the difference
  std::string key;   ///< what of the text does not depend on which graph it was

  explicit operator bool() const { return kind != Kind::none; }
};

/// With the key that belongs to the text: of errors the message without numbers, names of values and
/// what stands in front of its first ": "; of wrong results what is wrong without how wrong.
Failure make_failure(Failure::Kind kind, std::string text);

bool is_same(const Failure& a, const Failure& b);

/// "crash", "wrong results": for tables.
std::string_view name_of(Failure::Kind kind);

}  // namespace tenon
