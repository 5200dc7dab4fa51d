// Who has used which memory: finds threads of a kernel that meet at one place without an order.
//
// Two threads are ordered by a barrier of their block, and else by nothing: within a block what one
// writes and another uses has to have a barrier between them, and blocks share only what they read or
// change as one. Model: by byte the last write and the last read, each with thread, block and how
// many barriers the block had met; readers that differ are "many". Cost: a look-up for 8 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace simt {

/// A thread, and between which barriers of its block.
struct Moment {
  uint32_t thread = 0, block = 0, barriers = 0;
};
/// As simt.h has them.
enum class Use : uint32_t { read, write, change, report };

class Shadow {
 public:
  /// What the use of these bytes runs into, or nothing.
  std::string use(const void* address, uint64_t bytes, Use use, const Moment& now);
  void forget() { cells_.clear(); }

 private:
  struct Mark {
    Moment at;
    bool is_there = false, is_many = false, is_change = false;
  };
  struct Cell {
    std::array<Mark, 8> write, read;
  };
  static bool is_unordered(const Mark& mark, const Moment& now);
  static const char* conflict(const Mark& write, const Mark& read, Use use, const Moment& now);
  static void note(Mark& write, Mark& read, Use use, const Moment& now);

  std::unordered_map<uint64_t, Cell> cells_;  // by address / 8
};

}  // namespace simt
