// Making two loop nests walk a buffer with the same variables.
//
// Problem: the producer of a tensor may run over (n) where its consumer runs over (b, s), because
// there was a reshape in between; they can be one nest only over variables that both can be
// expressed in.
//
// Model: an index is a mixed-radix number, variables with strides. Method: both numbers are read
// from the least significant digit on; digits of equal stride are matched, and where one is longer
// it is split by the shorter one (which must divide it). What comes out are the digits of the
// common refinement, and every old variable is a sum of new ones. Cost: the number of digits.
#include "loopir/kernel.h"

#include <algorithm>

namespace loopir {

namespace {

struct Digit {
  Id stride, extent;
  Id variable;    // which it is a part of
  Id multiplier;  // of this part in the variable
};

/// The digits of an index that is a sum of stride * variable; its constant.
std::optional<std::vector<Digit>> digits_of(Expressions& x, Id index, Id& rest) {
  std::vector<Digit> out;
  Substitution zero;
  for (Id v : x.variables_of_index(index)) {
    auto stride = x.coefficient(index, v);
    if (!stride || !x.variables_of_index(*stride).empty() || x.hint(*stride) <= 0)
      return std::nullopt;
    out.push_back({*stride, x.extent_of(v), v, x.constant(1)});
    zero.emplace_back(v, x.constant(0));
  }
  rest = x.substitute_index(index, zero);
  std::sort(out.begin(), out.end(), [&](const Digit& a, const Digit& b) {
    return x.hint(a.stride) > x.hint(b.stride);  // the last is the least significant
  });
  return out;
}

class Matcher {
 public:
  explicit Matcher(Expressions& x) : x_(x) {}
  std::map<Id, Id> replaced_a, replaced_b;  // old variable to its sum of new ones

  bool match(std::vector<Digit> a, std::vector<Digit> b) {
    while (!a.empty() && !b.empty()) {
      Digit &p = a.back(), &q = b.back();
      if (p.stride != q.stride) return false;
      if (p.extent == q.extent) {
        Id v = x_.variable(p.extent);
        take(replaced_a, p, v);
        take(replaced_b, q, v);
        a.pop_back(), b.pop_back();
        continue;
      }
      bool a_is_long = x_.hint(p.extent) > x_.hint(q.extent);
      Digit &longer = a_is_long ? p : q, &shorter = a_is_long ? q : p;
      Id parts = x_.floordiv(longer.extent, shorter.extent);
      if (x_.multiply(parts, shorter.extent) != longer.extent) return false;
      Id v = x_.variable(shorter.extent);
      take(a_is_long ? replaced_a : replaced_b, longer, v);
      take(a_is_long ? replaced_b : replaced_a, shorter, v);
      longer.multiplier = x_.multiply(longer.multiplier, shorter.extent);
      longer.stride = x_.multiply(longer.stride, shorter.extent);
      longer.extent = parts;
      (a_is_long ? b : a).pop_back();
    }
    return a.empty() && b.empty();
  }

 private:
  void take(std::map<Id, Id>& replaced, const Digit& d, Id v) {
    Id part = x_.multiply(v, d.multiplier);
    auto [at, is_new] = replaced.try_emplace(d.variable, part);
    if (!is_new) at->second = x_.add(at->second, part);
  }
  Expressions& x_;
};

Ids rewritten(Expressions& x, const Ids& variables, const std::map<Id, Id>& replaced) {
  Ids out;
  for (Id v : variables) {
    auto by = replaced.find(v);
    if (by == replaced.end()) {
      out.push_back(v);
      continue;
    }
    const Ids parts = x.variables_of_index(by->second);
    out.insert(out.end(), parts.begin(), parts.end());
  }
  return out;
}

Group rewritten(Expressions& x, const Group& group, const std::map<Id, Id>& replaced) {
  Substitution by(replaced.begin(), replaced.end());
  Group out;
  for (const Loop& loop : group.loops) {
    Loop l = loop;
    l.outer = rewritten(x, loop.outer, replaced);
    l.reduced = rewritten(x, loop.reduced, replaced);
    l.value = x.substitute(loop.value, by);
    l.index = x.substitute_index(loop.index, by);
    if (l.position != none) l.position = x.substitute_index(loop.position, by);
    out.loops.push_back(std::move(l));
  }
  return out;
}

// Whether an extent depends on a variable that would be replaced: a fold whose length is data.
bool bounds_a_loop(Expressions& x, const Group& group, const std::map<Id, Id>& replaced) {
  for (const Loop& loop : group.loops)
    for (Id v : loop.reduced)
      for (Id used : x.variables_of_index(x.extent_of(v)))
        if (replaced.contains(used)) return true;
  return false;
}

}  // namespace

std::optional<Unified> unify(Expressions& x, const Group& a, Id index_a, const Group& b,
                             Id index_b) {
  Id rest_a = none, rest_b = none;
  auto digits_a = digits_of(x, index_a, rest_a), digits_b = digits_of(x, index_b, rest_b);
  if (!digits_a || !digits_b || rest_a != rest_b) return std::nullopt;
  Matcher matcher(x);
  if (!matcher.match(std::move(*digits_a), std::move(*digits_b))) return std::nullopt;
  if (bounds_a_loop(x, a, matcher.replaced_a) || bounds_a_loop(x, b, matcher.replaced_b))
    return std::nullopt;
  return Unified{rewritten(x, a, matcher.replaced_a), rewritten(x, b, matcher.replaced_b)};
}

Ids common_outer(const Group& group) {
  Ids common = group.loops.front().outer;
  for (const Loop& loop : group.loops)
    std::erase_if(common, [&](Id v) {
      return std::find(loop.outer.begin(), loop.outer.end(), v) == loop.outer.end();
    });
  return common;
}

}  // namespace loopir
