// SPDX-License-Identifier: Apache-2.0
// tenon::compile: a C++ callable becomes a graph, guards and compiled code.
//
//     auto f = tenon::compile([](const tenon::Tensor& x) { return x.relu() + 1; });
//     tenon::Tensor y = f(tenon::randn({4, 3}));      // records and compiles
//     y = f(tenon::randn({4, 3}));                    // runs the compiled code
//
// Each call runs the callable once, on tensors without data. The first call with arguments of a new
// kind records its operations and hands the graph to a backend. Later calls check the guards (dtype,
// device, sizes, strides ...), compare the operations with the recorded ones, and run the code; from
// an operation that differs they record. So captured tensors, members, counters and prints are those
// of a plain call, and so is the answer, also where the course depends on data
// (`if (x.sum().item<float>() > 0)`): such a body runs in compiled pieces. Options::pure leaves the
// callable out of later calls.
//
// Threads: a compiled callable may be called from any thread; one of them compiles at a time.
#pragma once

#include <tenon/detail/compiled.h>
#include <tenon/disable.h>
#include <tenon/state.h>

#include <algorithm>
#include <complex>
#include <concepts>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct Options {
  /// Name of a backend, see `tenon backends`; empty: inductor where it is installed, else
  /// aot_eager.
  std::string backend = {};
  /// Throw GraphBreakError instead of breaking the graph where the body looks at data.
  bool fullgraph = false;
  /// true: sizes are symbolic from the first call; false: never; unset: from the second size on.
  std::optional<bool> dynamic = {};
  /// A mode that the backend's manifest declares; "" or "default" is its plain setting.
  std::string mode = {};
  /// Options of the backend, as TOML values by name, {{"max_autotune", "true"}}; and flags by module
  /// and name, {{"capture.mode", "\"replay\""}}. Those of the backend not together with a mode.
  std::map<std::string, std::string> options = {};
  /// Call the callable as it is: nothing is recorded, no guard is checked.
  bool disable = false;
  /// Takes the place of dynamo.recompile_limit for this callable.
  std::optional<int64_t> recompile_limit = {};
  /// What the callable gives follows from its arguments and from tensors that it captures by address:
  /// later calls need not run it. false: it runs on every call, in compiled code.
  bool pure = false;
  /// Name in logs and reports; empty: "number N".
  std::string name = {};
  /// The captured tensors that the body may write; null: any. See compile() with a State.
  std::shared_ptr<const std::vector<Tensor>> state = nullptr;
  /// Where the program calls compile(), for reports; compile() fills it in.
  std::source_location where = {};
};

/// A version of a compiled callable.
struct CompiledEntry {
  std::string id;                   ///< "0/1": callable and attempt, as in logs
  std::string regime;               ///< what calls that it serves do, and why
  std::vector<std::string> guards;  ///< one line each
  std::vector<std::string> ops;     ///< of a body in one piece: "aten.add.Tensor" and so on
};

/// What a compiled callable has done so far.
struct CallStats {
  int64_t calls = 0, hits = 0, compiles = 0, replays = 0, eager_calls = 0, graph_breaks = 0;
  int64_t eager_calls_after_limit = 0;  ///< of the eager calls: those that a limit has caused
  TENON_API CallStats& operator+=(const CallStats& other);
};

namespace detail {

/// What compiled callables are asked for besides being called. `Self` has for_each_site.
template <class Self>
class SiteQueries {
 public:
  CallStats stats() const {
    CallStats total;
    self().for_each_site([&](Site& s) { total += site_stats(s); });
    return total;
  }
  /// What was compiled, with guards, regimes and the reasons of recompiles.
  std::string explain() const {
    std::string text;
    self().for_each_site([&](Site& s) { text += explain_site(s); });
    return text;
  }
  /// The versions that there are, those that served last first.
  std::vector<CompiledEntry> entries() const {
    std::vector<CompiledEntry> all;
    self().for_each_site([&](Site& s) { add_entries(s, all); });
    return all;
  }
  /// Forgets all compiled code of this callable. Calls that are running end as they began.
  void reset() const { self().for_each_site(reset_site); }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

/// A callable that the program keeps: a module, or what a shared pointer points to.
template <class M>
struct Referred {
  M* object;
  std::shared_ptr<M> owner = nullptr;
  template <class... A>
  decltype(auto) operator()(A&&... args) const {
    return (*object)(std::forward<A>(args)...);
  }
};

template <class F>
auto callable_of(F&& fn) {
  using M = std::remove_reference_t<F>;
  if constexpr (std::is_pointer_v<M> || std::is_member_pointer_v<M> ||
                is_function<std::remove_cv_t<M>> ||
                is_instance<std::remove_cv_t<M>, std::shared_ptr>)
    if (fn == nullptr) fail_null_callable();
  if constexpr (is_instance<std::remove_cv_t<M>, std::shared_ptr>)
    return Referred<typename M::element_type>{fn.get(), fn};
  else if constexpr (Opaque<M> && std::is_class_v<M> && std::is_lvalue_reference_v<F> &&
                     !is_function<std::remove_cv_t<M>>)
    return Referred<M>{&fn};
  else
    return std::decay_t<F>(std::forward<F>(fn));
}
template <class F>
using CallableOf = decltype(callable_of(std::declval<F>()));

}  // namespace detail

/// A compiled callable: called like the original; arguments that have defaults may be left out.
/// Copies share code and guards. Calling one that was moved from throws UserError.
template <class F>
class CompiledFunction : public detail::CallOperator<F>,
                         public detail::SiteQueries<CompiledFunction<F>> {
 public:
  CompiledFunction(F fn, Options options) {
    detail::check_options(options);
    this->state_ = std::make_shared<detail::Compiled<F>>(
        std::move(fn), std::make_shared<const Options>(std::move(options)));
  }
  /// The callable that was compiled.
  const F& original() const {
    if (!this->state_) detail::fail_empty_callable();
    return this->state_->fn;
  }

 private:
  friend class detail::SiteQueries<CompiledFunction<F>>;
  template <class>
  friend class CompiledFunction;
  template <class G>
  void for_each_site(G g) const {
    if (!this->state_) detail::fail_empty_callable();
    if (this->state_->only_site) g(*this->state_->only_site);
    std::lock_guard lock(this->state_->sites_lock);
    for (auto& [type, site] : this->state_->sites) g(*site);
  }
};

/// One of a given signature, whatever was compiled: for members and containers.
///
///     tenon::CompiledFunction<Tensor(const Tensor&)> f = tenon::compile(net);
template <class R, class... A>
class CompiledFunction<R(A...)> : public detail::SiteQueries<CompiledFunction<R(A...)>> {
 public:
  /// Empty: calling it throws UserError.
  CompiledFunction() = default;
  template <class F>
  CompiledFunction(CompiledFunction<F> f)  // NOLINT: takes any that can be called so
      : call_(f),
        sites_([f](const std::function<void(detail::Site&)>& g) { f.for_each_site(g); }) {}
  R operator()(A... args) const {
    if (!call_) detail::fail_empty_callable();
    return call_(std::forward<A>(args)...);
  }
  explicit operator bool() const { return call_ != nullptr; }

 private:
  friend class detail::SiteQueries<CompiledFunction<R(A...)>>;
  template <class G>
  void for_each_site(G g) const {
    if (!sites_) detail::fail_empty_callable();
    sites_(g);
  }
  std::function<R(A...)> call_;
  std::function<void(const std::function<void(detail::Site&)>&)> sites_;
};

/// Compiles a callable; nothing is recorded before its first call. Throws UserError for a backend, a
/// mode or an option that there is not, and for a null pointer or an empty std::function. The callable
/// is kept by value, but for a module, which stays the program's: it is referred to, and must live as
/// long as the result, unless a shared pointer to it is given. A member function takes its object, or a pointer to it, as
/// first argument. What the body returns by reference to its arguments, the call returns by value.
template <class F>
CompiledFunction<detail::CallableOf<F>> compile(
    F&& fn, Options options = {}, std::source_location where = std::source_location::current()) {
  if (options.where.line() == 0) options.where = where;
  return {detail::callable_of(std::forward<F>(fn)), std::move(options)};
}

/// The same for a body that changes captured tensors: a write to one that `state` does not name is
/// an error when the body is recorded.
template <class F, std::same_as<State> S>  // not for `{}`, which stands for options
CompiledFunction<detail::CallableOf<F>> compile(
    F&& fn, S state, Options options = {},
    std::source_location where = std::source_location::current()) {
  if (options.where.line() == 0) options.where = where;
  options.state = std::make_shared<const std::vector<Tensor>>(std::move(state.tensors));
  return {detail::callable_of(std::forward<F>(fn)), std::move(options)};
}

/// Whether the calling thread is recording a callable.
TENON_API bool is_compiling();
/// Asks for results that do not depend on the number of threads, from what the calling thread
/// compiles and calls from now on; code compiled otherwise is compiled anew. Backends that know the
/// mode obey it; kernels that the host calls op by op are as they are.
TENON_API void set_deterministic(bool on);
TENON_API bool is_deterministic();
/// Forgets all compiled code and counters of the process, those of compiled backward passes among
/// them. Throws UserError inside of such a pass.
TENON_API void reset();
/// Names of the backends, each once, without those tagged so.
TENON_API std::vector<std::string> list_backends(const std::vector<std::string>& exclude_tags = {
                                                     "debug", "experimental"});
/// Looks at the plugin folders again; list_backends does so by itself.
TENON_API void rescan_plugins();

// ---- marks: what the program says about arguments, outside of compiled callables
//
// A mark is a fact about the tensor object, not about its data. Versions that were made for a mark
// serve tensors without marks, too; a tensor with a mark that a version was not made for needs
// another one. A later mark of the same dimension takes the place of an earlier one. All throw
// UserError for an undefined tensor and for a dimension that there is not. Threads: marks of one
// tensor from one thread at a time, and not while it is an argument of a call.

/// Sizes for which code is made that serves no others: one size, or those for which a function of the
/// size says so.
///
///     mark_dynamic(x, 0, {.specialize_on = {1024, [](const SymInt& n) { return n % 16 == 0; }}});
class SpecialSizes {
 public:
  SpecialSizes(int64_t size)  // NOLINT: a size is one
      : holds_([size](const SymInt& n) { return n == size; }) {}
  template <class F>
  requires std::invocable<const F&, const SymInt&> SpecialSizes(F holds)  // NOLINT: likewise
      : holds_(std::move(holds)) {}
  const std::function<SymBool(const SymInt&)>& holds() const { return holds_; }

 private:
  std::function<SymBool(const SymInt&)> holds_;
};
/// What is said of a size that changes.
struct DynamicSize {
  std::optional<int64_t> min = {}, max = {};  ///< inclusive
  /// The size that costs are computed with, where code can be good at one size only; unset: that of
  /// the call that compiles. Results and guards do not depend on it.
  std::optional<int64_t> hint = {};
  /// Each gets a version of its own when such a size comes, which knows what holds of the size.
  std::vector<SpecialSizes> specialize_on = {};
};
/// Sizes of this dimension are symbolic from the first compile on, and lie within the bounds. Code
/// that would serve this one size only is an error when it is compiled, unless it is for special
/// sizes.
TENON_API void mark_dynamic(const Tensor& t, int64_t dim, DynamicSize size = {});
inline void mark_dynamic(const Tensor& t, int64_t dim, std::optional<int64_t> min,
                         std::optional<int64_t> max = {}) {
  mark_dynamic(t, dim, DynamicSize{min, max});
}
/// Of several dimensions: mark_dynamic(x, {0, 1}).
inline void mark_dynamic(const Tensor& t, IntList dims, const DynamicSize& size = {}) {
  for (int64_t dim : dims) mark_dynamic(t, dim, size);
}
/// The same as a wish: where the body or the backend needs the one size, the code is for that.
TENON_API void maybe_mark_dynamic(const Tensor& t, int64_t dim);
inline void maybe_mark_dynamic(const Tensor& t, IntList dims) {
  for (int64_t dim : dims) maybe_mark_dynamic(t, dim);
}
/// Sizes of this dimension are never symbolic; without a dimension, of all.
TENON_API void mark_static(const Tensor& t, int64_t dim);
TENON_API void mark_static(const Tensor& t);
inline void mark_static(const Tensor& t, IntList dims) {
  for (int64_t dim : dims) mark_static(t, dim);
}
/// How a size without an example is taken.
struct UnbackedSize {
  bool strict = false;        ///< needing to know the size is an error instead of a graph break
  std::string shape_id = {};  ///< dimensions of one call with the same id have one size
  std::optional<int64_t> min = {}, max = {};  ///< inclusive
};
/// Sizes of this dimension are symbols without an example from the first compile on: one version
/// serves every size, 0 and 1 included, and a branch on the size is a look at data.
TENON_API void mark_unbacked(const Tensor& t, int64_t dim, UnbackedSize size = {});
inline void mark_unbacked(const Tensor& t, IntList dims, const UnbackedSize& size = {}) {
  for (int64_t dim : dims) mark_unbacked(t, dim, size);
}
/// The tensor's memory stays where it is: backends may take it for that of a parameter. With `guard`
/// a version serves no tensor with its memory elsewhere.
TENON_API void mark_static_address(const Tensor& t, bool guard = true);

/// Throws UserError with `text` where the condition is false. While recording: one on the arguments
/// becomes a guard, one on data an assertion of the graph, which fails when the code runs; what
/// follows may rely on it.
TENON_API void check(SymBool condition, std::string_view text = "",
                     std::source_location where = std::source_location::current());
/// The same for a tensor with one element. With dynamo.rewrite_assert_with_torch_assert = false it
/// is a look at data.
TENON_API void check(const Tensor& condition, std::string_view text = "",
                     std::source_location where = std::source_location::current());
/// Ends the graph here while recording: what follows is a graph of its own.
TENON_API void graph_break(std::string_view reason = "",
                           std::source_location where = std::source_location::current());
namespace detail {
/// Keeps a guard of the program with what the thread records: `holds` tells later whether it does.
TENON_API void add_guard(std::function<bool()> holds, std::source_location where);

/// What guard() takes: a function whose values can be compared. Others, such as those that end a scope,
/// are left to a program's own guard().
template <class F>
concept GivesComparable = requires(const F& value) {
  static_cast<bool>(value() == value());
};

/// Whether a guarded value is as it was. NaN is as NaN: code for it would else never serve again.
template <class T>
bool is_as_it_was(const T& now, const T& then) {
  if constexpr (std::numeric_limits<T>::has_quiet_NaN)
    return now == then || (now != now && then != then);
  else if constexpr (is_list<T> || is_instance<T, std::map>)
    return std::equal(now.begin(), now.end(), then.begin(), then.end(),
                      is_as_it_was<typename T::value_type>);
  else if constexpr (is_instance<T, std::pair>)
    return is_as_it_was(now.first, then.first) && is_as_it_was(now.second, then.second);
  else if constexpr (is_instance<T, std::complex>)
    return is_as_it_was(now.real(), then.real()) && is_as_it_was(now.imag(), then.imag());
  else if constexpr (is_instance<T, std::optional>)
    return now && then ? is_as_it_was(*now, *then) : now == then;
  else
    return static_cast<bool>(now == then);
}
}  // namespace detail

/// Gives `value()`. What is compiled meanwhile serves only calls for which `value()` is equal again
/// (NaN to NaN, also in containers): for what the body of a callable that is stated pure reads besides
/// its arguments. A callable whose body runs on every call needs none. `value` is kept with the
/// compiled code and called, from any thread, before that code runs; what it refers to must live as
/// long as the callable. What it throws then, the call throws.
template <class F>
requires detail::GivesComparable<F>
auto guard(F value, std::source_location where = std::source_location::current()) {
  auto now = value();
  using T = decltype(now);
  if (detail::is_recording())
    detail::add_guard([value, now] { return detail::is_as_it_was<T>(value(), now); }, where);
  return now;
}

/// The text of explain() of a compiled callable.
template <class F>
std::string explain(const CompiledFunction<F>& f) {
  return f.explain();
}

/// What recording a callable with some arguments shows.
struct Explanation {
  struct GraphSummary {
    std::vector<std::string> ops;  ///< "aten.add.Tensor" and so on, in order
    double compile_ms = 0;
  };
  std::vector<GraphSummary> graphs;  ///< in the order in which they were compiled; equal ones once
  std::vector<std::string> break_reasons;  ///< what needs data, with file and line, one a break
  std::vector<std::string> guards;         ///< one line each
  int64_t graph_break_count = 0;
  size_t graph_count() const { return graphs.size(); }
  size_t op_count() const {
    size_t n = 0;
    for (const GraphSummary& g : graphs) n += g.ops.size();
    return n;
  }
  /// All of it, for people.
  TENON_API std::string str() const;
};

namespace detail {
/// While one lives, the first callable that its thread compiles tells what it finds.
class TENON_API ExplainScope {
 public:
  ExplainScope();
  ~ExplainScope();
  ExplainScope(const ExplainScope&) = delete;
  Explanation take();
  struct State;

 private:
  std::unique_ptr<State> state_;
};
/// Those that explain() compiles with: each call is recorded, on backend `eager`.
TENON_API Options explaining_options();

template <class F>
struct IsCompiled : std::false_type {};
template <class F>
struct IsCompiled<CompiledFunction<F>> : std::true_type {};
}  // namespace detail

/// Calls `fn` once with these arguments, recording it for backend `eager`, and tells what was found.
/// The call does what calls of `fn` do, besides computing. Nothing of it is kept, and what other
/// compiled callables have learnt stays as it is; a compiled `fn` stands for its original. Throws what
/// `fn` throws, and UserError inside of a compiled body.
template <class F, class... A>
requires(sizeof...(A) > 0 || !detail::IsCompiled<std::remove_cvref_t<F>>::value) Explanation
    explain(F&& fn, A&&... args) {
  if constexpr (detail::IsCompiled<std::remove_cvref_t<F>>::value) {
    return explain(fn.original(), std::forward<A>(args)...);
  } else {
    auto compiled = compile(std::forward<F>(fn), detail::explaining_options());
    detail::ExplainScope scope;
    compiled(std::forward<A>(args)...);
    return scope.take();
  }
}

}  // namespace tenon
