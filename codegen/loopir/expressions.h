// Expressions of the loop IR: integers that say where (indices) and numbers of one element
// (values).
//
// Both are hash-consed nodes of one pool, so equal ids are equal expressions, and both are pure: a
// tensor that has no memory is a value over index variables, and reading it elsewhere is putting
// other indices in the place of its variables.
//
// Indices are kept in one normal form, a sum of products with an integer factor each, in which
// division and remainder are resolved as far as ranges allow: (8*i + j) / 8 is i where j < 8. That
// makes "these two addresses are equal" a comparison of ids. Sizes are indices over symbols and are
// never negative.
#pragma once

#include <tenon/plugin.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace loopir {

using Id = uint32_t;
inline constexpr Id none = ~Id{0};
using Ids = std::vector<Id>;

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

/// Codes of values: those of formulas (TN_F_...) and these.
enum : uint16_t {
  value_load = 1000,  // a: buffer, b: index in elements, c: bool value or none; 0 where it is false
  value_index,        // a: index, as an i64
  value_checked,      // a: i64, b: size (index), c: as for load. Wraps negative ones; out of range
                      // stops the program
  value_constant,     // a, b: low and high half of an i64 or of an f64, by dtype
  value_folded        // a: which fold of the kernel; the folded value
};

struct ValueNode {
  uint16_t code;
  uint16_t dtype;
  Id a = none, b = none, c = none;
  auto operator<=>(const ValueNode&) const = default;
};

struct Range {
  int64_t lower, upper;
};

struct Symbol {
  int64_t hint, lower, upper;
  std::string name;
};

/// Which index takes the place of which variable.
using Substitution = std::vector<std::pair<Id, Id>>;

/// Threads: one at a time.
class Expressions {
 public:
  Expressions() = default;
  /// Indices that were made elsewhere, by their ids: to be evaluated only. Operands come before
  /// what is made of them.
  explicit Expressions(std::vector<IndexNode> indices) : indices_(std::move(indices)) {}

  // ---- indices
  Id constant(int64_t number);
  Id symbol(uint32_t position) { return index({IndexKind::symbol, position, {}}); }
  /// A new loop variable in [0, extent); returns its index. `variable_of` gives its number.
  Id variable(Id extent);
  /// An integer value as an index.
  Id of_value(Id value) { return index({IndexKind::value, value, {}}); }
  Id add(Id a, Id b);
  Id subtract(Id a, Id b) { return add(a, multiply(b, constant(-1))); }
  Id multiply(Id a, Id b);
  Id floordiv(Id a, Id b);
  Id mod(Id a, Id b);
  Id minimum(Id a, Id b);
  Id maximum(Id a, Id b);
  Id product_of(std::span<const Id> factors);

  const IndexNode& index_at(Id i) const { return indices_[i]; }
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
  int64_t evaluate(Id i, std::span<const int64_t> symbols) const;

  std::vector<Symbol> symbols;

  // ---- values
  Id value(ValueNode node);
  Id load(Id buffer, Id index, int32_t dtype, Id mask = none) {
    return value({value_load, static_cast<uint16_t>(dtype), buffer, index, mask});
  }
  Id index_value(Id index) { return value({value_index, TN_I64, index}); }
  Id number(double number, int32_t dtype);
  Id number(int64_t number, int32_t dtype);
  Id apply(uint16_t code, int32_t dtype, Id a, Id b = none, Id c = none) {
    return value({code, static_cast<uint16_t>(dtype), a, b, c});
  }
  Id cast(Id a, int32_t dtype);
  const ValueNode& value_at(Id v) const { return values_[v]; }
  int32_t dtype_of(Id v) const { return values_[v].dtype; }

  // ---- both
  Id substitute_index(Id i, const Substitution& by);
  Id substitute(Id value, const Substitution& by);
  /// The value with every load and check done only where `mask` holds.
  Id masked(Id value, Id mask);

  /// The value with each load that `by` gives a value for (not none) replaced by it.
  Id replace_loads(Id value, const std::function<Id(const ValueNode&)>& by);
  /// The same for the values that an index is made of.
  Id replace_loads_of_index(Id index, const std::function<Id(const ValueNode&)>& by) {
    return map_values(index, [&](Id value) { return replace_loads(value, by); });
  }

  /// The variables of an index or a value, in order of their ids.
  const Ids& variables_of_index(Id i);
  const Ids& variables_of(Id value);

  std::string text_of_index(Id i) const;
  /// At most about `most` characters of it.
  std::string text_of(Id value, size_t most = 400) const;

 private:
  Id index(IndexNode node);
  struct Terms;  // a sum taken apart
  Terms terms_of(Id i) const;
  Id sum_of(const Terms& terms);
  Id divided(Id a, Id b, bool remainder);
  Id largest(Id i);  // an upper bound without variables, or none
  Id rebuilt(const IndexNode& node, const Ids& operands);
  Id map_values(Id index, const std::function<Id(Id)>& f);

  std::vector<IndexNode> indices_;
  std::map<IndexNode, Id> index_ids_;
  std::vector<ValueNode> values_;
  std::map<ValueNode, Id> value_ids_;
  Ids extents_;
  std::map<Id, Ids> index_variables_, value_variables_;
};

/// The ids that a value node reads as values, as indices.
struct Operands {
  Id values[3] = {none, none, none};
  Id index = none;
};
Operands operands_of(const ValueNode& node);

}  // namespace loopir
