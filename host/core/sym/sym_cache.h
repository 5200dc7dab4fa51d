// A per-thread memo of symbolic operations, so that one seen before costs a look-up.
#pragma once

#include "core/sym/sym_expr.h"

#include <tenon/thread_object.hpp>

#include <array>

namespace tenon {

/// Direct-mapped; results are valid for one state of the facts, named by its stamp (0: none).
class SymCache {
 public:
  struct Entry {
    uint64_t stamp = ~uint64_t{0};
    int64_t a = 0, b = 0;  // words of SymInt, or addresses of expressions
    uint32_t what = 0;     // a SymOp, or one of the numbers below
    const Expr* result = nullptr;
  };
  static constexpr uint32_t simplified = 1000;

  static Entry& find(uint64_t stamp, uint32_t what, int64_t a, int64_t b) {
    uint64_t h = (static_cast<uint64_t>(a) * 0x9e3779b97f4a7c15) ^
                 (static_cast<uint64_t>(b) * 0xc2b2ae3d27d4eb4f) ^ (what * 0x165667b19e3779f9u);
    return ThreadObject<SymCache>::get().entries_[(h ^ stamp * 0x27d4eb2f165667c5) >> 55];
  }
  static bool holds(const Entry& e, uint64_t stamp, uint32_t what, int64_t a, int64_t b) {
    return e.stamp == stamp && e.what == what && e.a == a && e.b == b;
  }

 private:
  std::array<Entry, 512> entries_;
};

/// The remembered result, or `make()`, which may throw; facts do not change meanwhile.
template <class F>
const Expr* remembered(uint64_t stamp, uint32_t what, int64_t a, int64_t b, F make) {
  SymCache::Entry& entry = SymCache::find(stamp, what, a, b);
  if (SymCache::holds(entry, stamp, what, a, b)) return entry.result;
  const Expr* result = make();
  SymCache::find(stamp, what, a, b) = {stamp, a, b, what, result};
  return result;
}

}  // namespace tenon
