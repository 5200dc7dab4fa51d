// How many parts one call may make of a tensor.
#pragma once

#include <cstdint>

namespace tenon {

/// While it lives, calls of this thread that would make more parts are refused before they make
/// any: for who holds a file's claims against what ops give.
class PartLimit {
 public:
  explicit PartLimit(int64_t most) : before_(most_) { most_ = most; }
  ~PartLimit() { most_ = before_; }
  PartLimit(const PartLimit&) = delete;
  static int64_t most() { return most_; }

 private:
  static thread_local constinit int64_t most_;
  int64_t before_;
};

}  // namespace tenon
