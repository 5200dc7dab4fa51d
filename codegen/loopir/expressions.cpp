// Values: building, folding, putting indices in the place of variables.
#include "expressions.h"

#include "elements.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace loopir {

Operands operands_of(const ValueNode& n) {
  switch (n.code) {
    case value_load:
      return {{n.c, none, none}, n.b};
    case value_index:
      return {{none, none, none}, n.a};
    case value_checked:
      return {{n.a, n.c, none}, n.b};
    case value_divisor:
      return {{n.a, n.c, none}, none};
    case value_drawn:
      return {{none, none, none}, n.b};
    case value_constant:
    case value_folded:
    case value_real:
      return {};
    default:
      return {{n.a, n.b, n.c}, none};
  }
}

Id Expressions::value(ValueNode node) {
  auto [at, is_new] = value_ids_.try_emplace(node, static_cast<Id>(values_.size()));
  if (is_new) values_.push_back(node);
  return at->second;
}

Id Expressions::number(double number, int32_t dtype) {
  if (!is_floating(dtype)) return this->number(whole_element(number, dtype), dtype);
  auto bits = std::bit_cast<uint64_t>(real_element(number, dtype));
  return value({value_constant, static_cast<uint16_t>(dtype), static_cast<Id>(bits),
                static_cast<Id>(bits >> 32)});
}

Id Expressions::number(int64_t number, int32_t dtype) {
  if (is_floating(dtype)) return this->number(static_cast<double>(number), dtype);
  auto bits = static_cast<uint64_t>(whole_element(number, dtype));
  return value({value_constant, static_cast<uint16_t>(dtype), static_cast<Id>(bits),
                static_cast<Id>(bits >> 32)});
}

Id Expressions::cast(Id a, int32_t dtype) {
  const ValueNode n = values_[a];
  if (n.dtype == dtype) return a;
  uint64_t bits = n.a | uint64_t{n.b} << 32;
  bool exact = n.code == value_constant && dtype != TN_F16 && dtype != TN_BF16;
  if (exact && is_floating(n.dtype) && (dtype == TN_F32 || dtype == TN_F64)) {
    double x = std::bit_cast<double>(bits);
    return number(dtype == TN_F32 ? static_cast<double>(static_cast<float>(x)) : x, dtype);
  }
  if (exact && !is_floating(n.dtype) && (dtype == TN_F64 || dtype == TN_F32 || dtype == TN_I64)) {
    auto x = static_cast<int64_t>(bits);
    return dtype == TN_F32 ? number(static_cast<double>(static_cast<float>(x)), dtype)
                           : number(x, dtype);
  }
  return apply(TN_F_CAST, dtype, a);
}

/// A real number whose sums and products with others are exact in every dtype.
std::optional<double> Expressions::small_whole_number(Id v) const {
  constexpr double most = 16;
  if (v == none) return std::nullopt;
  const ValueNode& n = values_[v];
  if (n.code != value_constant || !is_floating(n.dtype)) return std::nullopt;
  auto x = std::bit_cast<double>(n.a | uint64_t{n.b} << 32);
  bool is_small = x == std::trunc(x) && std::abs(x) <= most && !(x == 0 && std::signbit(x));
  return is_small ? std::optional(x) : std::nullopt;
}

/// What the primitive gives for constants, or none.
Id Expressions::known(uint16_t code, int32_t dtype, Id a, Id b, Id c) {
  if (code == TN_F_SELECT) {
    const ValueNode& mask = values_[a];
    if (mask.code != value_constant) return none;
    Id chosen = mask.a || mask.b ? b : c;
    return dtype_of(chosen) == dtype ? chosen : none;
  }
  std::optional<double> x = small_whole_number(a), y = small_whole_number(b);
  if (!x || !y || dtype_of(a) != dtype_of(b)) return none;
  switch (code) {
    case TN_F_ADD:
      return number(*x + *y, dtype);
    case TN_F_SUB:
      return number(*x - *y, dtype);
    case TN_F_EQ:
      return number(int64_t{*x == *y}, dtype);
    case TN_F_NE:
      return number(int64_t{*x != *y}, dtype);
    default:
      return none;
  }
}

Id Expressions::apply(uint16_t code, int32_t dtype, Id a, Id b, Id c) {
  if (code == TN_F_POW) return power(dtype, a, b);
  Id constant = known(code, dtype, a, b, c);
  return constant != none ? constant : value({code, static_cast<uint16_t>(dtype), a, b, c});
}

// Those that PyTorch computes so, with its results for zeros, infinities and negative numbers.
Id Expressions::power(int32_t dtype, Id base, Id exponent) {
  auto times = [&](Id x, Id y) { return apply(TN_F_MUL, dtype, x, y); };
  auto inverse = [&](Id x) { return apply(TN_F_DIV, dtype, number(1.0, dtype), x); };
  auto is = [&](double wanted) { return exponent == number(wanted, dtype); };
  if (is(1)) return base;
  if (is(2)) return times(base, base);
  if (is(3)) return times(times(base, base), base);
  if (is_floating(dtype)) {
    if (is(0.5)) return apply(TN_F_SQRT, dtype, base);
    if (is(-0.5)) return apply(TN_F_RSQRT, dtype, base);
    if (is(-1)) return inverse(base);
    if (is(-2)) return inverse(times(base, base));
  }
  return value({TN_F_POW, static_cast<uint16_t>(dtype), base, exponent, none});
}

Id Expressions::of_value(Id value) {
  const ValueNode n = values_[value];
  return value_as_index(value, n.code == value_checked ? n.b : none, variables_of(value));
}

const Ids& Expressions::variables_of(Id v) {
  if (auto known = value_variables_.find(v); known != value_variables_.end()) return known->second;
  Ids out;
  auto join = [&](const Ids& more) {
    Ids all;
    std::set_union(out.begin(), out.end(), more.begin(), more.end(), std::back_inserter(all));
    out = std::move(all);
  };
  Operands read = operands_of(values_[v]);
  for (Id o : read.values)
    if (o != none) join(variables_of(o));
  if (read.index != none) join(variables_of_index(read.index));
  return value_variables_[v] = out;
}

namespace {

bool meets(const Ids& variables, const Substitution& by) {
  return std::any_of(by.begin(), by.end(), [&](const auto& pair) {
    return std::binary_search(variables.begin(), variables.end(), pair.first);
  });
}

}  // namespace

Id Expressions::substitute_index(Id i, const Substitution& by) {
  std::map<Id, Id> done;
  return by.empty() ? i : substitute_index(i, by, done);
}

Id Expressions::substitute_index(Id i, const Substitution& by, std::map<Id, Id>& done) {
  if (!meets(variables_of_index(i), by)) return i;
  const IndexNode n = index_at(i);
  if (n.kind == IndexKind::variable)
    return std::find_if(by.begin(), by.end(), [&](auto& p) { return p.first == i; })->second;
  if (n.kind == IndexKind::value) return of_value(substitute(static_cast<Id>(n.number), by));
  if (auto known = done.find(i); known != done.end()) return known->second;
  Ids operands;
  for (Id o : n.operands) operands.push_back(substitute_index(o, by, done));
  return done[i] = rebuilt(n, operands);
}

namespace {

/// What is not made of values.
bool is_leaf(uint16_t code) {
  return code == value_index || code == value_constant || code == value_folded ||
         code == value_real || code == value_drawn;
}

/// Rewrites a value bottom up, each node once.
template <class Leaf>
class Rewriter {
 public:
  Rewriter(Expressions& x, Leaf leaf) : x_(x), leaf_(std::move(leaf)) {}

  Id operator()(Id v) {
    if (auto known = done_.find(v); known != done_.end()) return known->second;
    ValueNode n = x_.value_at(v);
    auto each = [&](Id& operand) {
      if (operand != none) operand = (*this)(operand);
    };
    if (n.code == value_load) {
      each(n.c);
    } else if (n.code == value_checked) {
      each(n.a), each(n.c);
    } else if (!is_leaf(n.code)) {
      each(n.a), each(n.b), each(n.c);
    }
    Id out = leaf_(n);
    done_.emplace(v, out);
    return out;
  }

 private:
  Expressions& x_;
  Leaf leaf_;  // (node with rewritten operands) -> id
  std::map<Id, Id> done_;
};

}  // namespace

Id Expressions::substitute(Id v, const Substitution& by) {
  if (by.empty() || !meets(variables_of(v), by)) return v;
  Rewriter rewrite(*this, [&](ValueNode n) {
    if (n.code == value_load || n.code == value_checked || n.code == value_drawn)
      n.b = substitute_index(n.b, by);
    if (n.code == value_index) n.a = substitute_index(n.a, by);
    return value(n);
  });
  return rewrite(v);
}

// The index with every value in it replaced by f(value).
Id Expressions::map_values(Id i, const std::function<Id(Id)>& f) {
  if (!reads_data(i)) return i;
  const IndexNode n = index_at(i);
  if (n.kind == IndexKind::value) return of_value(f(static_cast<Id>(n.number)));
  Ids operands;
  for (Id o : n.operands) operands.push_back(map_values(o, f));
  return operands == n.operands ? i : rebuilt(n, operands);
}

Id Expressions::replace_loads(Id v, const std::function<Id(const ValueNode&)>& by) {
  std::function<Id(Id)> in_index;
  Rewriter rewrite(*this, [&](ValueNode n) {
    if (n.code == value_load || n.code == value_drawn) n.b = in_index(n.b);
    if (n.code == value_index) n.a = in_index(n.a);
    if (n.code != value_load) return value(n);
    Id other = by(n);
    return other == none ? value(n) : other;
  });
  in_index = [&](Id i) { return map_values(i, rewrite); };
  return rewrite(v);
}

Id Expressions::masked(Id v, Id mask) {
  std::function<Id(Id)> in_index;
  Rewriter rewrite(*this, [&](ValueNode n) {
    if (n.code == value_load || n.code == value_drawn) n.b = in_index(n.b);
    if (n.code == value_index) n.a = in_index(n.a);
    if (n.code == value_load || n.code == value_checked || n.code == value_divisor)
      n.c = n.c == none ? mask : apply(TN_F_BAND, TN_BOOL, n.c, mask);
    return value(n);
  });
  in_index = [&](Id i) { return map_values(i, rewrite); };
  return rewrite(v);
}

}  // namespace loopir
