// What tests of the loop IR share: an environment of indices with two symbols.
#pragma once

#include <gtest/gtest.h>
#include <loopir/expressions.h>

#include <algorithm>
#include <string>

namespace loopir {

inline Symbol symbol_from(int64_t lower, int64_t upper, std::string name) {
  return {std::max<int64_t>(lower, 4), lower, upper, std::move(name)};
}

struct IndexExpressions : ::testing::Test {
  IndexExpressions() { x.symbols = {symbol_from(2, 100, "s"), symbol_from(1, 1 << 20, "t")}; }
  Id number(int64_t n) { return x.constant(n); }
  Id variable(int64_t extent) { return x.variable(number(extent)); }
  Id times(int64_t factor, Id i) { return x.multiply(number(factor), i); }

  Expressions x;
  Id s = x.symbol(0), t = x.symbol(1);
};

}  // namespace loopir
