// Indices of the loop IR: integers that say where.
//
// They are hash-consed nodes, so equal ids are equal indices, and are kept in one normal form: a
// sum of products with an integer factor each, in which division and remainder are resolved as far
// as ranges allow: (8*i + j) / 8 is i where j < 8. That makes "these two addresses are equal" a
// comparison of ids. Sizes are indices over symbols and are never negative.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace loopir {

using Id = uint32_t;
inline constexpr Id none = ~Id{0};
using Ids = std::vector<Id>;

/// Sums and products of sizes. Throw `error` where the result is beyond 64 bits.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_multiply(int64_t a, int64_t b);

enum class IndexKind : uint8_t {
  constant,  // number
  symbol,    // number: position in tn_call.syms
  variable,  // number: which loop variable
  value,     // number: an integer value; never negative
  sum,       // number + operands
  product,   // number * operands
  floordiv,
  mod,
  min,
  max
};

struct IndexNode {
  IndexKind kind;
  int64_t number = 0;
  Ids operands;
  auto operator<=>(const IndexNode&) const = default;
};

/// `seed` and another word as one, each bit of which moves many.
inline uint64_t hash_of(uint64_t seed, uint64_t word) {
  seed = (seed ^ word) * 0x9E3779B97F4A7C15;
  return seed ^ seed >> 29;
}
struct HashOfIndex {
  size_t operator()(const IndexNode& n) const {
    uint64_t out = hash_of(static_cast<uint64_t>(n.kind), static_cast<uint64_t>(n.number));
    for (Id o : n.operands) out = hash_of(out, o);
    return out;
  }
};

struct Range {
  int64_t lower, upper;
};

struct Symbol {
  int64_t hint, lower, upper;
  std::string name;
};

/// Threads: one at a time.
class Indices {
 public:
  Indices() = default;
  /// Nodes that were made elsewhere, by their ids: to be evaluated only. Operands come before what
  /// is made of them.
  explicit Indices(std::vector<IndexNode> nodes) : nodes_(std::move(nodes)) {}

  Id constant(int64_t number);
  Id symbol(uint32_t position) { return index({IndexKind::symbol, position, {}}); }
  /// A new loop variable in [0, extent); returns its index.
  Id variable(Id extent);
  Id add(Id a, Id b);
  Id subtract(Id a, Id b) { return add(a, multiply(b, constant(-1))); }
  Id multiply(Id a, Id b);
  Id floordiv(Id a, Id b) { return divided(a, b, false); }
  Id mod(Id a, Id b) { return divided(a, b, true); }
  Id minimum(Id a, Id b);
  Id maximum(Id a, Id b);
  Id product_of(std::span<const Id> factors);
  /// What a node of this kind and number is with other operands.
  Id rebuilt(const IndexNode& node, const Ids& operands);

  const IndexNode& index_at(Id i) const { return nodes_[i]; }
  std::optional<int64_t> number_of(Id i) const;
  bool is(Id i, int64_t number) const { return number_of(i) == number; }
  Id extent_of(Id variable) const {
    return extents_[static_cast<size_t>(index_at(variable).number)];
  }
  Range range(Id i) const;
  /// The value seen while tracing; variables count as 0.
  int64_t hint(Id i) const;
  /// Whether a < b for all values of what they are made of.
  bool is_less(Id a, Id b);
  /// The number that `i` grows by with each step of `variable`; nothing where it is not a line.
  std::optional<Id> coefficient(Id i, Id variable);
  bool depends_on(Id i, Id variable);
  /// Whether a value is part of it.
  bool reads_data(Id i) const;
  /// Throws `error` where a part of it is beyond 64 bits.
  int64_t evaluate(Id i, std::span<const int64_t> symbols) const;

  /// The variables that it depends on, in order of their ids.
  const Ids& variables_of_index(Id i);
  /// Adds the symbols that it depends on, as positions.
  void add_symbols(Id i, std::set<uint32_t>& out) const;

  std::vector<Symbol> symbols;

 protected:
  /// An integer value, of which an index knows only this: it is in [0, size), or may be any number
  /// where size is none, and depends on these variables.
  Id value_as_index(Id value, Id size, const Ids& variables);

 private:
  Id index(IndexNode node);
  struct Terms;  // a sum taken apart
  Terms terms_of(Id i) const;
  Range range_of(const IndexNode& n) const;
  class Evaluation;
  Id sum_of(const Terms& terms);
  Id divided(Id a, Id b, bool remainder);
  Id largest(Id i);  // an upper bound without variables, or none

  std::vector<IndexNode> nodes_;
  std::unordered_map<IndexNode, Id, HashOfIndex> ids_;
  Ids extents_;                            // by variable
  std::map<Id, Id> value_bounds_;          // by value: its size
  std::unordered_map<Id, Ids> variables_;  // by index
  // Parts are shared, so what is asked of an index is kept: walks count shared parts once.
  mutable std::unordered_map<Id, Range> ranges_;
  mutable std::unordered_map<Id, bool> reads_data_;
};

}  // namespace loopir
