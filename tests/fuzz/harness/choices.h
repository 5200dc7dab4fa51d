// Decisions at random: what programs, tapes and the like of tests are made by.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

namespace tenon::fuzz {

/// Where the decisions about something random come from: a seed, or the bytes of an input.
class Choices {
 public:
  explicit Choices(uint32_t seed) : random_(seed) {}
  explicit Choices(std::string_view bytes) : bytes_(bytes), is_seeded_(false) {}

  /// A number below `n`, which is at most 65536; 0 once the bytes are used up.
  uint32_t below(uint32_t n) { return (is_seeded_ ? random_() >> 8 : word(n > 256 ? 2 : 1)) % n; }
  bool one_in(uint32_t n) { return below(n) == n - 1; }

 private:
  uint32_t word(int n_bytes) {
    uint32_t word = 0;
    for (; n_bytes > 0 && !bytes_.empty(); --n_bytes, bytes_.remove_prefix(1))
      word = word << 8 | static_cast<uint8_t>(bytes_.front());
    return word;
  }

  std::mt19937 random_;
  std::string_view bytes_;
  bool is_seeded_ = true;
};

}  // namespace tenon::fuzz
