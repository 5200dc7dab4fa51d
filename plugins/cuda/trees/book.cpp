// The book of an arena.
#include "book.h"

#include <algorithm>

namespace tenon::cuda::trees {

std::vector<Range> merged(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> out;
  for (const Range& r : ranges) {
    if (r.bytes() == 0) continue;
    if (!out.empty() && r.begin <= out.back().end)
      out.back().end = std::max(out.back().end, r.end);
    else
      out.push_back(r);
  }
  return out;
}

std::optional<api::Address> Book::room(Range of, size_t bytes, size_t alignment) const {
  api::Address at = of.begin;
  for (auto [begin, end] : blocks_) {
    if (begin - at >= bytes) break;
    at = (end + alignment - 1) / alignment * alignment;
  }
  if (at > of.end || of.end - at < bytes) return std::nullopt;
  return at;
}

bool Book::is_free(Range range) const {
  auto after = blocks_.lower_bound(range.end);
  return after == blocks_.begin() || std::prev(after)->second <= range.begin;
}

bool Book::are_free(std::span<const Range> ranges) const {
  return std::ranges::all_of(ranges, [&](const Range& r) { return is_free(r); });
}

size_t Book::held_bytes() const {
  size_t sum = 0;
  for (auto [begin, end] : blocks_) sum += end - begin;
  return sum;
}

std::string_view Book::fault(std::span<const Range> written) const {
  api::Address last = 0;
  for (auto [begin, end] : blocks_) {
    if (begin < last) return "two blocks of the arena overlap";
    last = end;
  }
  return are_free(written) ? "" : "a recording writes memory of the arena that a tensor holds";
}

}  // namespace tenon::cuda::trees
