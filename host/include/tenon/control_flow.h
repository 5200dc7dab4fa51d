// SPDX-License-Identifier: Apache-2.0
// Branches and loops that stay in the graph: cond, while_loop, map, scan, associative_scan.
//
//     Tensor y = cond(x.sum() > 0, [&](const Tensor& t) { return t.sin(); },
//                     [&](const Tensor& t) { return t.cos(); }, x);
//
// While a callable is recorded, each function given here is recorded once as a graph of its own, a
// body, and the compiled code runs the body that the data asks for, as often as it asks. Elsewhere
// the functions just run. Results are the same: tensors, or trees of tensors. Bodies may use
// tensors from around them; they may not write them, nor look at data (`item()`, `if` on a tensor).
// Threads: as of the functions given.
#pragma once

#include <tenon/compile.h>

#include <functional>
#include <optional>
#include <source_location>
#include <tuple>
#include <utility>

namespace tenon {

namespace detail {

using Tensors = std::vector<Tensor>;
using BodyFunction = std::function<Tensors(const Tensors&)>;

/// Which call, for messages.
struct BodySite {
  const char* op;
  std::source_location where;
};

/// Whether a recording is in progress, so that functions become bodies.
TENON_API bool records_bodies();
TENON_API Tensors record_cond(const Tensor& pred, const BodyFunction& then,
                              const BodyFunction& otherwise, const Tensors& operands,
                              BodySite site);
TENON_API Tensors record_cond(SymBool pred, const BodyFunction& then, const BodyFunction& otherwise,
                              const Tensors& operands, BodySite site);
TENON_API Tensors record_while_loop(const BodyFunction& condition, const BodyFunction& body,
                                    const Tensors& carried, BodySite site);
TENON_API bool is_true(const Tensor& pred, BodySite site);
/// Throws UserError unless the values of the next iteration look like those of this one.
TENON_API void check_next(const Tensors& now, const Tensors& next, BodySite site);
/// `combine` gets carry and slice, and gives the new carry and what is stacked. The result is the
/// last carry, then the stacks. Runs, or records.
TENON_API Tensors run_scan(const BodyFunction& combine, const Tensors& init, const Tensors& xs,
                           BodySite site);
TENON_API Tensors run_map(const BodyFunction& body, const Tensors& xs, BodySite site);
TENON_API Tensors run_associative_scan(const BodyFunction& combine, const Tensors& xs,
                                       BodySite site);
[[noreturn]] TENON_API void fail_body_leaves(BodySite site);
[[noreturn]] TENON_API void fail_body_trees(BodySite site);

/// The tensors of a tree, in order.
template <class T>
Tensors tensors_of(const T& tree) {
  Leaves leaves;
  LeafReader reader{leaves};
  visit_tree(tree, reader);
  Tensors out;
  for (const Tensor* t : leaves.tensors.span()) out.push_back(*t);
  return out;
}

/// A copy of the tree with these tensors in the place of its own.
template <class T>
T with_tensors(const T& tree, const Tensor* tensors) {
  Leaves leaves;
  LeafReader reader{leaves};
  visit_tree(tree, reader);
  std::vector<Number> numbers(leaves.numbers.span().begin(), leaves.numbers.span().end());
  T copy = copy_tree(tree);
  LeafWriter writer(tensors, numbers.data());
  visit_tree(copy, writer);
  return copy;
}

/// What bodies give: a tree whose leaves are tensors. Remembers its structure.
template <class T>
class ResultTree {
 public:
  explicit ResultTree(BodySite site) : site_(site) {}

  Tensors take(T result) {
    Leaves leaves;
    LeafReader reader{leaves};
    visit_tree(std::as_const(result), reader);
    if (leaves.plain.size() + leaves.numbers.size() + leaves.texts.size() > 0)
      fail_body_leaves(site_);
    Tensors out;
    for (const Tensor* t : leaves.tensors.span()) out.push_back(*t);
    bool same = !tree_ || (structure_ == leaves.structure && size_ == out.size());
    if (!same) fail_body_trees(site_);
    structure_ = leaves.structure;
    size_ = out.size();
    LeafEmptier emptier;
    visit_tree(result, emptier);
    tree_.emplace(std::move(result));
    return out;
  }
  T make(const Tensor* tensors) const { return with_tensors(*tree_, tensors); }
  size_t size() const { return size_; }

 private:
  BodySite site_;
  std::optional<T> tree_;
  uint64_t structure_ = 0;
  size_t size_ = 0;
};

template <class R>
Tensors condition_tensor(const R& result) {
  if constexpr (std::is_same_v<R, Tensor>)
    return {result};
  else
    return {result.tensor()};
}

}  // namespace detail

/// What cond decides by: a bool tensor with one element, a condition on sizes, or a bool; with the
/// line that asks.
class TENON_API Predicate {
 public:
  using Where = std::source_location;
  Predicate(const Tensor& t, Where w = Where::current()) : tensor_(t), where_(w) {}  // NOLINT
  Predicate(const Scalar<bool>& s, Where w = Where::current()) : where_(w) {         // NOLINT
    if (s.tensor().defined())
      tensor_ = s.tensor();
    else
      symbol_ = SymBool(s.value());
  }
  Predicate(SymBool s, Where w = Where::current()) : symbol_(s), where_(w) {}  // NOLINT
  Predicate(bool b, Where w = Where::current()) : symbol_(b), where_(w) {}     // NOLINT

  detail::BodySite site() const { return {"cond", where_}; }
  /// The branch, where it is known now.
  std::optional<bool> known() const;
  detail::Tensors record(const detail::BodyFunction& then, const detail::BodyFunction& otherwise,
                         const detail::Tensors& operands) const;

 private:
  Tensor tensor_;
  SymBool symbol_{false};  // where there is no tensor
  std::source_location where_;
};

/// `then(operands...)` where `pred` is true, else `otherwise(operands...)`. Both give the same
/// tree, with the same dtypes and ranks; sizes may differ.
template <class F, class G, class... A>
auto cond(const Predicate& pred, F&& then, G&& otherwise, const A&... operands) {
  using R = std::decay_t<std::invoke_result_t<F&, const A&...>>;
  static_assert(std::is_same_v<R, std::decay_t<std::invoke_result_t<G&, const A&...>>>,
                "both branches of cond give the same type");
  if (std::optional<bool> which = pred.known())
    return *which ? R(then(operands...)) : R(otherwise(operands...));
  std::tuple<A...> given(operands...);
  detail::ResultTree<R> tree(pred.site());
  auto body = [&](auto& fn) {
    return [&](const detail::Tensors& in) {
      return tree.take(std::apply(fn, detail::with_tensors(given, in.data())));
    };
  };
  detail::Tensors out = pred.record(body(then), body(otherwise), detail::tensors_of(given));
  return tree.make(out.data());
}

namespace detail {

/// The loop on a tuple.
template <class C, class B, class... A>
std::tuple<A...> while_loop_on(BodySite site, C& condition, B& body, const A&... carried) {
  using State = std::tuple<A...>;
  State state(carried...);
  auto next = [&](const State& now) { return State(std::apply(body, now)); };
  auto holds = [&](const State& now) { return condition_tensor(std::apply(condition, now)); };
  if (!records_bodies()) {
    while (is_true(holds(state)[0], site)) {
      State after = next(state);
      check_next(tensors_of(state), tensors_of(after), site);
      state = std::move(after);
    }
    return state;
  }
  ResultTree<State> tree(site);
  Tensors first = tree.take(state);
  Tensors out = record_while_loop(
      [&](const Tensors& in) { return holds(with_tensors(state, in.data())); },
      [&](const Tensors& in) { return tree.take(next(with_tensors(state, in.data()))); }, first,
      site);
  return tree.make(out.data());
}

}  // namespace detail

/// `carried = body(carried...)` while `condition(carried...)`, a bool tensor with one element, is
/// true. Gives what is carried at the end: the value, or a tuple of several. Dtypes and sizes stay.
/// More than four values are carried as a struct or a tuple.
template <class C, class B, class A>
A while_loop(C&& condition, B&& body, const A& a,
             std::source_location where = std::source_location::current()) {
  return std::get<0>(detail::while_loop_on({"while_loop", where}, condition, body, a));
}
template <class C, class B, class A1, class A2>
std::tuple<A1, A2> while_loop(C&& condition, B&& body, const A1& a1, const A2& a2,
                              std::source_location where = std::source_location::current()) {
  return detail::while_loop_on({"while_loop", where}, condition, body, a1, a2);
}
template <class C, class B, class A1, class A2, class A3>
std::tuple<A1, A2, A3> while_loop(C&& condition, B&& body, const A1& a1, const A2& a2, const A3& a3,
                                  std::source_location where = std::source_location::current()) {
  return detail::while_loop_on({"while_loop", where}, condition, body, a1, a2, a3);
}
template <class C, class B, class A1, class A2, class A3, class A4>
std::tuple<A1, A2, A3, A4> while_loop(
    C&& condition, B&& body, const A1& a1, const A2& a2, const A3& a3, const A4& a4,
    std::source_location where = std::source_location::current()) {
  return detail::while_loop_on({"while_loop", where}, condition, body, a1, a2, a3, a4);
}

/// `fn(slice of xs)` for each slice along dimension 0, stacked.
template <class F, class X>
auto map(F&& fn, const X& xs, std::source_location where = std::source_location::current()) {
  using R = std::decay_t<std::invoke_result_t<F&, const X&>>;
  detail::BodySite site{"map", where};
  detail::ResultTree<R> tree(site);
  detail::Tensors out = detail::run_map(
      [&](const detail::Tensors& in) { return tree.take(fn(detail::with_tensors(xs, in.data()))); },
      detail::tensors_of(xs), site);
  return tree.make(out.data());
}

/// `[carry, y] = fn(carry, slice of xs)` for one slice along dimension 0 after the other. Gives the
/// last carry and all y, stacked, as a pair.
template <class F, class S, class X>
auto scan(F&& fn, const S& init, const X& xs,
          std::source_location where = std::source_location::current()) {
  using R = std::decay_t<std::invoke_result_t<F&, const S&, const X&>>;
  using Y = std::tuple_element_t<1, R>;
  detail::BodySite site{"scan", where};
  detail::ResultTree<S> carry(site);
  detail::ResultTree<Y> stacks(site);
  detail::Tensors first = carry.take(init);
  size_t n = first.size();
  detail::Tensors out = detail::run_scan(
      [&](const detail::Tensors& in) {
        auto [next, y] =
            fn(detail::with_tensors(init, in.data()), detail::with_tensors(xs, in.data() + n));
        detail::Tensors all = carry.take(S(std::move(next))), put = stacks.take(Y(std::move(y)));
        all.insert(all.end(), put.begin(), put.end());
        return all;
      },
      first, detail::tensors_of(xs), site);
  return std::pair<S, Y>(carry.make(out.data()), stacks.make(out.data() + n));
}

/// Result i combines the slices 0 to i of xs along dimension 0: `fn(fn(x0, x1), x2)` and so on, for
/// an associative `fn`.
template <class F, class X>
X associative_scan(F&& fn, const X& xs,
                   std::source_location where = std::source_location::current()) {
  detail::BodySite site{"associative_scan", where};
  detail::ResultTree<X> tree(site);
  detail::Tensors first = tree.take(xs);
  size_t n = first.size();
  detail::Tensors out = detail::run_associative_scan(
      [&](const detail::Tensors& in) {
        return tree.take(
            fn(detail::with_tensors(xs, in.data()), detail::with_tensors(xs, in.data() + n)));
      },
      first, site);
  return tree.make(out.data());
}

namespace compiler {
using tenon::cond;
}

}  // namespace tenon
