// What the code of a region takes for granted of sizes that only the run knows.
//
// Ops whose results' sizes depend on data run outside of regions. The graph gives such a size a
// symbol with a range and conditions, or, as a file may have it, a plain number. A body that was
// traced asserts what it needs; a graph of a file asserts nothing, and code that believed it would
// read beyond the memory that is there.
#pragma once

#include "core/sym/sym_range.h"
#include "graph/graph.h"

#include <memory>
#include <span>
#include <vector>

namespace tenon {

/// Threads: read-only after it is made.
class LateSizes {
 public:
  /// An expression that must lie in a range; conditions are 1 where they hold.
  struct Fact {
    const Expr* expr;
    Range range;
  };

  explicit LateSizes(std::shared_ptr<const Graph> graph);

  /// No size depends on data.
  bool empty() const { return !depends_on_data_; }
  /// The facts about the symbols that are known now and were not before: `known[s]` is about symbol
  /// `s` of the graph. Each is given once.
  std::vector<Fact> take_facts(const std::vector<bool>& known);

  /// Throws UserError(invalid_argument) unless they hold for these values of the symbols.
  void check(std::span<const Fact> facts, std::span<const int64_t> symbols) const;
  /// The same for the sizes of a value.
  void check(ValueId value, const Tensor& found, std::span<const int64_t> symbols) const;

 private:
  bool is_known(const Expr* expr, const std::vector<bool>& known) const;
  int64_t value_of(const Expr* expr, std::span<const int64_t> symbols) const;

  std::shared_ptr<const Graph> graph_;
  bool depends_on_data_ = false;
  std::vector<Fact> facts_;  ///< those that nobody has taken
};

}  // namespace tenon
