// Expressions of the loop IR: indices, and numbers of one element (values).
//
// Both are hash-consed nodes, so equal ids are equal expressions, and both are pure: a tensor that
// has no memory is a value over index variables, and reading it elsewhere is putting other indices
// in the place of its variables. Values load at indices, and an index may be a value.
#pragma once

#include "indices.h"

#include <tenon/plugin.hpp>

#include <functional>

namespace loopir {

/// Whether the host computes this dtype in f32 (bf16, f16).
inline bool is_narrow(int32_t dtype) { return dtype == TN_F16 || dtype == TN_BF16; }
inline bool is_floating(int32_t dtype) {
  return dtype == TN_F32 || dtype == TN_F64 || is_narrow(dtype);
}

/// Codes of values: those of formulas (TN_F_...) and these.
enum : uint16_t {
  value_load = 1000,  // a: buffer, b: index in elements, c: bool value or none; 0 where it is false
  value_index,        // a: index, as an i64
  value_checked,      // a: i64, b: size (index), c: as for load. Wraps negative ones; out of range
                      // stops the program
  value_constant,     // a, b: low and high half of an i64 or of an f64, by dtype
  value_folded,       // a: which fold of the kernel; the folded value
  value_real,         // a: place in the table of numbers (reals.h); an f64
  value_divisor,      // a: integer, c: as for load. 0 stops the program
  value_drawn,        // a: place of the draw in the table of numbers (reals.h), b: which of its
                      // elements (index), c: a Draw; an f64
  value_exact         // a: a product of real numbers, rounded as it stands: no sum takes it in
};

/// Distributions of random numbers: uniform over [0, 1), normal of mean 0 and deviation 1.
enum class Draw : uint8_t { uniform, normal };

struct ValueNode {
  uint16_t code;
  uint16_t dtype;
  Id a = none, b = none, c = none;
  auto operator<=>(const ValueNode&) const = default;
};
struct HashOfValue {
  size_t operator()(const ValueNode& n) const {
    uint64_t head = uint64_t{n.code} << 48 | uint64_t{n.dtype} << 32 | n.a;
    return hash_of(hash_of(0, head), uint64_t{n.b} << 32 | n.c);
  }
};

/// The ids that a value node reads as values, as indices.
struct Operands {
  Id values[3] = {none, none, none};
  Id index = none;
};
Operands operands_of(const ValueNode& node);

/// Which index takes the place of which variable.
using Substitution = std::vector<std::pair<Id, Id>>;

/// Threads: one at a time.
class Expressions : public Indices {
 public:
  using Indices::Indices;

  Id value(ValueNode node);
  Id load(Id buffer, Id index, int32_t dtype, Id mask = none) {
    return value({value_load, static_cast<uint16_t>(dtype), buffer, index, mask});
  }
  Id index_value(Id index) { return value({value_index, TN_I64, index}); }
  Id real_value(uint32_t place) { return value({value_real, TN_F64, place}); }
  Id drawn(uint32_t place, Id element, Draw of) {
    return value({value_drawn, TN_F64, place, element, static_cast<Id>(of)});
  }
  /// A constant, as an element of the dtype holds it (elements.h).
  Id number(double number, int32_t dtype);
  Id number(int64_t number, int32_t dtype);
  /// A scalar primitive (TN_F_*). Powers that are products, roots or quotients become those, and what
  /// small whole numbers give is known.
  Id apply(uint16_t code, int32_t dtype, Id a, Id b = none, Id c = none);
  Id cast(Id a, int32_t dtype);
  const ValueNode& value_at(Id v) const { return values_[v]; }
  int32_t dtype_of(Id v) const { return values_[v].dtype; }
  /// The variables that it depends on, in order of their ids.
  const Ids& variables_of(Id value);

  // ---- values in indices
  /// An integer value as an index.
  Id of_value(Id value);
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

  /// At most some hundred characters of it.
  std::string text_of_index(Id i) const;
  /// At most about `most` characters of it.
  std::string text_of(Id value, size_t most = 400) const;

 private:
  Id power(int32_t dtype, Id base, Id exponent);
  Id known(uint16_t code, int32_t dtype, Id a, Id b, Id c);
  std::optional<double> small_whole_number(Id v) const;
  Id substitute_index(Id i, const Substitution& by, std::map<Id, Id>& done);
  Id map_values(Id index, const std::function<Id(Id)>& f);

  std::vector<ValueNode> values_;
  std::unordered_map<ValueNode, Id, HashOfValue> value_ids_;
  std::unordered_map<Id, Ids> value_variables_;
};

}  // namespace loopir
