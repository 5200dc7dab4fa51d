// Which expressions are known to be multiples of which others.
#pragma once

#include "core/sym/sym_expr.h"

#include <span>
#include <utility>
#include <vector>

namespace tenon {

/// Pairs of a value and what divides it. Threads: one writer; readers while nobody writes.
class SymDivisors {
 public:
  void add(const Expr* value, const Expr* divisor) { pairs_.emplace_back(value, divisor); }
  /// Whether `divisor` divides `value` by what was added.
  bool divide(const Expr* value, const Expr* divisor) const;
  std::span<const std::pair<const Expr*, const Expr*>> pairs() const { return pairs_; }

 private:
  std::vector<std::pair<const Expr*, const Expr*>> pairs_;
};

}  // namespace tenon
