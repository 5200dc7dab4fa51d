// Indices: the normal form, division by ranges, bounds.
#include "indices.h"

#include "ranges.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace loopir {

/// number + sum of factor * atoms, by atoms.
struct Indices::Terms {
  int64_t number = 0;
  std::map<Ids, int64_t> factors;

  void add(const Ids& atoms, int64_t factor) {
    if (factor == 0) return;
    auto [at, is_new] = factors.try_emplace(atoms, 0);
    at->second += factor;
    if (at->second == 0) factors.erase(at);
  }
  bool reunite(Indices& x);
  std::optional<Ids> slow_digit(Indices& x, const Ids& atoms, Id digit) const;
};

Id Indices::index(IndexNode node) {
  auto [at, is_new] = ids_.try_emplace(node, static_cast<Id>(nodes_.size()));
  if (is_new) nodes_.push_back(std::move(node));
  return at->second;
}

Id Indices::constant(int64_t number) { return index({IndexKind::constant, number, {}}); }

Id Indices::variable(Id extent) {
  if (is(extent, 1)) return constant(0);
  extents_.push_back(extent);
  return index({IndexKind::variable, static_cast<int64_t>(extents_.size()) - 1, {}});
}

std::optional<int64_t> Indices::number_of(Id i) const {
  if (nodes_[i].kind != IndexKind::constant) return std::nullopt;
  return nodes_[i].number;
}

Indices::Terms Indices::terms_of(Id i) const {
  Terms out;
  auto add_one = [&](Id term) {
    const IndexNode& t = nodes_[term];
    if (t.kind == IndexKind::product)
      out.add(t.operands, t.number);
    else
      out.add({term}, 1);
  };
  const IndexNode& n = nodes_[i];
  if (n.kind == IndexKind::constant) {
    out.number = n.number;
  } else if (n.kind == IndexKind::sum) {
    out.number = n.number;
    for (Id term : n.operands) add_one(term);
  } else {
    add_one(i);
  }
  return out;
}

Id Indices::sum_of(const Terms& terms) {
  Ids operands;
  for (const auto& [atoms, factor] : terms.factors)
    operands.push_back(
        factor == 1 && atoms.size() == 1 ? atoms[0] : index({IndexKind::product, factor, atoms}));
  if (operands.empty()) return constant(terms.number);
  if (operands.size() == 1 && terms.number == 0) return operands[0];
  std::sort(operands.begin(), operands.end());
  return index({IndexKind::sum, terms.number, std::move(operands)});
}

Id Indices::add(Id a, Id b) {
  Terms out = terms_of(a);
  Terms more = terms_of(b);
  out.number += more.number;
  for (const auto& [atoms, factor] : more.factors) out.add(atoms, factor);
  while (out.reunite(*this)) {
  }
  return sum_of(out);
}

// Two digits that a reshape took apart and another one puts together: n * (i / n) + i % n is i.
// Returns whether there were any.
bool Indices::Terms::reunite(Indices& x) {
  if (factors.size() < 2) return false;
  for (const auto& [fast, factor] : factors)
    for (Id digit : fast) {
      if (x.nodes_[digit].kind != IndexKind::mod) continue;
      std::optional<Ids> slow = slow_digit(x, fast, digit);
      if (!slow) continue;
      Id others = x.constant(factor), whole = x.nodes_[digit].operands[0];
      for (Id atom : fast)
        if (atom != digit) others = x.multiply(others, atom);
      factors.erase(*slow);
      factors.erase(Ids(fast));
      Terms more = x.terms_of(x.multiply(others, whole));
      number += more.number;
      for (const auto& [atoms, f] : more.factors) add(atoms, f);
      return true;
    }
  return false;
}

// The term n * (i / n) beside `fast`, which holds the digit i % n. A size that may be 0 is none for
// plain numbers, only for positions: of those there are none then.
std::optional<Ids> Indices::Terms::slow_digit(Indices& x, const Ids& fast, Id digit) const {
  Id i = x.nodes_[digit].operands[0], n = x.nodes_[digit].operands[1];
  if (x.range(n).lower <= 0 && x.variables_of_index(i).empty()) return std::nullopt;
  Id product = x.multiply(x.constant(factors.at(fast)), x.multiply(n, x.floordiv(i, n)));
  for (Id atom : fast)
    if (atom != digit) product = x.multiply(product, atom);
  Terms slow = x.terms_of(product);
  if (slow.number != 0 || slow.factors.size() != 1) return std::nullopt;
  const auto& [atoms, factor] = *slow.factors.begin();
  auto at = factors.find(atoms);
  return at != factors.end() && at->second == factor ? std::optional(atoms) : std::nullopt;
}

Id Indices::multiply(Id a, Id b) {
  Terms x = terms_of(a), y = terms_of(b), out;
  x.factors[{}] += x.number;
  y.factors[{}] += y.number;
  for (const auto& [p, f] : x.factors)
    for (const auto& [q, g] : y.factors) {
      Ids atoms;
      std::merge(p.begin(), p.end(), q.begin(), q.end(), std::back_inserter(atoms));
      if (atoms.empty())
        out.number += f * g;
      else
        out.add(atoms, f * g);
    }
  return sum_of(out);
}

Id Indices::product_of(std::span<const Id> factors) {
  Id out = constant(1);
  for (Id f : factors) out = multiply(out, f);
  return out;
}

namespace {

// atoms / by, where `by` is one product: the atoms left, or nothing.
std::optional<Ids> quotient(const Ids& atoms, const Ids& by) {
  if (!std::includes(atoms.begin(), atoms.end(), by.begin(), by.end())) return std::nullopt;
  Ids left;
  std::set_difference(atoms.begin(), atoms.end(), by.begin(), by.end(), std::back_inserter(left));
  return left;
}

}  // namespace

Id Indices::divided(Id a, Id b, bool remainder) {
  if (is(b, 1)) return remainder ? constant(0) : a;
  if (is(a, 0) || a == b) return constant(!remainder && a == b);
  Terms divisor = terms_of(b), whole, left;
  bool is_product = divisor.factors.size() + (divisor.number != 0) == 1;
  Ids by = is_product && !divisor.factors.empty() ? divisor.factors.begin()->first : Ids{};
  int64_t factor = !is_product ? 0 : by.empty() ? divisor.number : divisor.factors.begin()->second;
  if (factor <= 0) return index({remainder ? IndexKind::mod : IndexKind::floordiv, 0, {a, b}});
  Terms all = terms_of(a);
  for (const auto& [atoms, f] : all.factors) {
    auto q = f % factor == 0 ? quotient(atoms, by) : std::nullopt;
    if (!q)
      left.add(atoms, f);
    else if (q->empty())
      whole.number += f / factor;
    else
      whole.add(*q, f / factor);
  }
  left.number = all.number;
  if (by.empty()) {
    whole.number += floor_of(all.number, factor);
    left.number = all.number - floor_of(all.number, factor) * factor;
  }
  Id rest_of = sum_of(left), quotient_of = sum_of(whole);
  if (range(rest_of).lower >= 0 && is_less(rest_of, b)) return remainder ? rest_of : quotient_of;
  const IndexNode inner = nodes_[rest_of];
  if (remainder) return index({IndexKind::mod, 0, {rest_of, b}});
  if (inner.kind == IndexKind::floordiv)  // (x / c) / b
    return add(quotient_of, floordiv(inner.operands[0], multiply(inner.operands[1], b)));
  int64_t shared = factor;
  for (const auto& [atoms, f] : left.factors) shared = std::gcd(shared, f);
  shared = by.empty() ? std::gcd(shared, left.number) : 1;
  if (shared > 1) {
    for (auto& [atoms, f] : left.factors) f /= shared;
    left.number /= shared;
    return add(quotient_of, floordiv(sum_of(left), constant(factor / shared)));
  }
  return add(quotient_of, index({IndexKind::floordiv, 0, {rest_of, b}}));
}

Id Indices::minimum(Id a, Id b) {
  if (a == b || is_less(a, b)) return a;
  if (is_less(b, a)) return b;
  return index({IndexKind::min, 0, {std::min(a, b), std::max(a, b)}});
}
Id Indices::maximum(Id a, Id b) {
  if (a == b || is_less(a, b)) return b;
  if (is_less(b, a)) return a;
  return index({IndexKind::max, 0, {std::min(a, b), std::max(a, b)}});
}

Id Indices::rebuilt(const IndexNode& n, const Ids& operands) {
  switch (n.kind) {
    case IndexKind::sum: {
      Id out = constant(n.number);
      for (Id o : operands) out = add(out, o);
      return out;
    }
    case IndexKind::product: {
      Id out = constant(n.number);
      for (Id o : operands) out = multiply(out, o);
      return out;
    }
    case IndexKind::floordiv:
      return floordiv(operands[0], operands[1]);
    case IndexKind::mod:
      return mod(operands[0], operands[1]);
    case IndexKind::min:
      return minimum(operands[0], operands[1]);
    default:
      return maximum(operands[0], operands[1]);
  }
}

Id Indices::value_as_index(Id value, Id size, const Ids& variables) {
  Id out = index({IndexKind::value, value, {}});
  value_bounds_.emplace(value, size);
  variables_.emplace(out, variables);
  return out;
}

const Ids& Indices::variables_of_index(Id i) {
  if (auto known = variables_.find(i); known != variables_.end()) return known->second;
  Ids out;
  if (nodes_[i].kind == IndexKind::variable) out = {i};
  for (Id o : nodes_[i].operands) {
    const Ids& more = variables_of_index(o);
    Ids all;
    std::set_union(out.begin(), out.end(), more.begin(), more.end(), std::back_inserter(all));
    out = std::move(all);
  }
  return variables_[i] = std::move(out);
}

void Indices::add_symbols(Id i, std::set<uint32_t>& out) const {
  std::set<Id> seen;
  Ids open{i};
  while (!open.empty()) {
    Id next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const IndexNode& n = nodes_[next];
    if (n.kind == IndexKind::symbol) out.insert(static_cast<uint32_t>(n.number));
    open.insert(open.end(), n.operands.begin(), n.operands.end());
  }
}

Range Indices::range(Id i) const {
  if (auto number = number_of(i)) return {*number, *number};
  if (auto known = ranges_.find(i); known != ranges_.end()) return known->second;
  Range out = range_of(nodes_[i]);
  return ranges_[i] = out;
}

Range Indices::range_of(const IndexNode& n) const {
  auto operand = [&](size_t k) { return range(n.operands[k]); };
  switch (n.kind) {
    case IndexKind::constant:
      return {n.number, n.number};
    case IndexKind::symbol: {
      const Symbol& s = symbols[static_cast<size_t>(n.number)];
      return {std::max<int64_t>(s.lower, 0), s.upper};
    }
    case IndexKind::variable: {
      Range e = range(extents_[static_cast<size_t>(n.number)]);
      return {0, is_infinite(e.upper) ? infinity : std::max<int64_t>(e.upper - 1, 0)};
    }
    case IndexKind::value: {
      Id bound = value_bounds_.at(static_cast<Id>(n.number));
      if (bound == none) return {-infinity, infinity};
      Range size = range(bound);
      return {0, is_infinite(size.upper) ? infinity : size.upper - 1};
    }
    case IndexKind::sum: {
      Range out{n.number, n.number};
      for (size_t k = 0; k < n.operands.size(); ++k)
        out = {saturated_add(out.lower, operand(k).lower),
               saturated_add(out.upper, operand(k).upper)};
      return out;
    }
    case IndexKind::product: {
      Range out{n.number, n.number};
      for (size_t k = 0; k < n.operands.size(); ++k) out = times(out, operand(k));
      return out;
    }
    case IndexKind::floordiv:
      return over(operand(0), operand(1));
    case IndexKind::mod:
      return rest(operand(0), operand(1));
    case IndexKind::min:
      return {std::min(operand(0).lower, operand(1).lower),
              std::min(operand(0).upper, operand(1).upper)};
    case IndexKind::max:
      return {std::max(operand(0).lower, operand(1).lower),
              std::max(operand(0).upper, operand(1).upper)};
  }
  return {-infinity, infinity};
}

// Each variable with a positive factor at its last value, with a negative one at 0.
Id Indices::largest(Id i) {
  Terms terms = terms_of(i);
  Id out = constant(terms.number);
  for (const auto& [atoms, factor] : terms.factors) {
    Id product = constant(factor);
    for (Id atom : atoms) {
      IndexKind kind = nodes_[atom].kind;
      if (kind == IndexKind::variable && factor < 0) product = constant(0);
      if (kind == IndexKind::variable && factor > 0)
        product = multiply(product, subtract(extent_of(atom), constant(1)));
      if (kind == IndexKind::symbol) product = multiply(product, atom);
      if (kind == IndexKind::mod && factor > 0) {
        Id size = nodes_[atom].operands[1];
        if (!variables_of_index(size).empty()) return none;
        product = multiply(product, subtract(size, constant(1)));
      } else if (kind != IndexKind::variable && kind != IndexKind::symbol) {
        return none;
      }
    }
    out = add(out, product);
  }
  return out;
}

bool Indices::is_less(Id a, Id b) {
  if (range(a).upper < range(b).lower) return true;
  if (!variables_of_index(b).empty()) return false;
  Id most = largest(a);
  if (most == none) return false;
  return range(subtract(b, most)).lower > 0;
}

bool Indices::depends_on(Id i, Id variable) {
  const Ids& all = variables_of_index(i);
  return std::binary_search(all.begin(), all.end(), variable);
}

std::optional<Id> Indices::coefficient(Id i, Id variable) {
  Terms terms = terms_of(i), out;
  for (const auto& [atoms, factor] : terms.factors) {
    Ids others;
    int times_found = 0;
    for (Id atom : atoms) {
      if (atom == variable)
        ++times_found;
      else if (depends_on(atom, variable))
        return std::nullopt;
      else
        others.push_back(atom);
    }
    if (times_found > 1) return std::nullopt;
    if (times_found == 0) continue;
    if (others.empty())
      out.number += factor;
    else
      out.add(others, factor);
  }
  return sum_of(out);
}

bool Indices::reads_data(Id i) const {
  if (auto known = reads_data_.find(i); known != reads_data_.end()) return known->second;
  const IndexNode& n = nodes_[i];
  bool out = n.kind == IndexKind::value ||
             std::any_of(n.operands.begin(), n.operands.end(), [&](Id o) { return reads_data(o); });
  return reads_data_[i] = out;
}

// ---- numbers

namespace {

[[noreturn]] void fail_beyond_range() {
  throw tenon::plugin::error(TN_INVALID_ARGUMENT,
                             "a size that the graph computes is beyond 64 bits for these inputs; "
                             "pass smaller ones");
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_add_overflow(a, b, &out)) fail_beyond_range();
  return out;
}
int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t out;
  if (__builtin_mul_overflow(a, b, &out)) fail_beyond_range();
  return out;
}

/// One index for given symbols. Most are a few parts, which are quicker computed again than looked
/// up; of many, shared ones are computed once.
class Indices::Evaluation {
 public:
  Evaluation(const Indices& x, std::span<const int64_t> given) : x_(x), given_(given) {}

  int64_t operator()(Id i) {
    const IndexNode& n = x_.nodes_[i];
    if (n.operands.empty()) return leaf(n);
    bool is_kept = ++n_parts_ > few;
    if (is_kept)
      if (auto known = known_.find(i); known != known_.end()) return known->second;
    int64_t out = joined(n);
    if (is_kept) known_.emplace(i, out);
    return out;
  }

 private:
  // Variables and values are 0: hints and sizes have none.
  int64_t leaf(const IndexNode& n) const {
    if (n.kind == IndexKind::symbol) return given_[static_cast<size_t>(n.number)];
    return n.kind == IndexKind::variable || n.kind == IndexKind::value ? 0 : n.number;
  }
  int64_t joined(const IndexNode& n) {
    bool is_sum = n.kind == IndexKind::sum;
    if (is_sum || n.kind == IndexKind::product) {
      int64_t out = n.number;
      for (Id o : n.operands)
        out = is_sum ? checked_add(out, (*this)(o)) : checked_multiply(out, (*this)(o));
      return out;
    }
    int64_t a = (*this)(n.operands[0]), b = (*this)(n.operands[1]);
    if (n.kind == IndexKind::min) return std::min(a, b);
    if (n.kind == IndexKind::max) return std::max(a, b);
    if (b == -1 && a == std::numeric_limits<int64_t>::min()) fail_beyond_range();
    if (n.kind == IndexKind::floordiv) return floor_of(a, b);
    return b == 0 ? 0 : a - floor_of(a, b) * b;
  }

  static constexpr int few = 64;
  const Indices& x_;
  std::span<const int64_t> given_;
  int n_parts_ = 0;
  std::map<Id, int64_t> known_;
};

int64_t Indices::evaluate(Id i, std::span<const int64_t> given) const {
  const IndexNode& n = nodes_[i];
  return n.kind == IndexKind::constant ? n.number : Evaluation(*this, given)(i);
}

int64_t Indices::hint(Id i) const {
  std::vector<int64_t> hints;
  for (const Symbol& s : symbols) hints.push_back(s.hint);
  return evaluate(i, hints);
}

}  // namespace loopir
