// Which addresses are held: the blocks of an arena, without the memory behind them.
#pragma once

#include "../api/driver.h"

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::cuda::trees {

/// Addresses from begin up to end.
struct Range {
  api::Address begin = 0, end = 0;
  size_t bytes() const { return end - begin; }
  bool holds(api::Address a) const { return a >= begin && a < end; }
};

/// Sorted ranges, those that touch made one.
std::vector<Range> merged(std::vector<Range> ranges);

/// Cost: to find room walks the blocks; to ask whether ranges are free takes the logarithm of their
/// number a range. Threads: one at a time.
class Book {
 public:
  /// Where so many bytes are free within `of`: the first room, aligned to `alignment`.
  std::optional<api::Address> room(Range of, size_t bytes, size_t alignment) const;
  void add(Range block) { blocks_.emplace(block.begin, block.end); }
  /// False where no block begins there.
  bool remove(api::Address begin) { return blocks_.erase(begin) != 0; }
  bool is_free(Range range) const;
  bool are_free(std::span<const Range> ranges) const;
  size_t held_bytes() const;
  /// What can only be by a mistake of ours, for a recording that is going to write there; empty
  /// where nothing is.
  std::string_view fault(std::span<const Range> written) const;

 private:
  std::map<api::Address, api::Address> blocks_;  // begin, end
};

}  // namespace tenon::cuda::trees
