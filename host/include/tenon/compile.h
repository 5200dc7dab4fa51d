// SPDX-License-Identifier: Apache-2.0
// tenon::compile: a C++ callable becomes a graph, guards and compiled code.
//
//     auto f = tenon::compile([](const tenon::Tensor& x) { return x.relu() + 1; });
//     tenon::Tensor y = f(tenon::randn({4, 3}));      // records and compiles
//     y = f(tenon::randn({4, 3}));                    // runs the compiled code
//
// The first call with arguments of a new kind runs the callable once on tensors without data,
// records its operations and hands the graph to a backend. Later calls check the guards (dtype,
// device, sizes, strides, plain numbers ...) and run the code; the callable itself does not run. A
// body whose course depends on data (`if (x.sum().item<float>() > 0)`) runs on every call, its
// operations in compiled pieces, so the answer is always the one it gives without compile.
//
// Threads: a compiled callable may be called from any thread; one of them compiles at a time.
#pragma once

#include <tenon/state.h>
#include <tenon/tree.h>

#include <functional>
#include <map>
#include <mutex>
#include <typeindex>

namespace tenon {

struct Options {
  /// Name of a backend, see `tenon backends`; empty: inductor where it is installed, else
  /// aot_eager.
  std::string backend;
  /// Throw GraphBreakError instead of cutting the graph where the body looks at data.
  bool fullgraph = false;
  /// true: sizes are symbolic from the first call; false: never; unset: from the second size on.
  std::optional<bool> dynamic;
  /// A mode that the backend's manifest declares; "" or "default" is its plain setting.
  std::string mode;
  /// Options of the backend, as TOML values by name: {{"max_autotune", "true"}}.
  std::map<std::string, std::string> options;
  /// Name in logs and reports; empty: "callable".
  std::string name;
  /// The captured tensors that the body may write; null: any. See compile() with a State.
  std::shared_ptr<const std::vector<Tensor>> state = nullptr;
};

/// What a compiled callable has done so far.
struct CallStats {
  int64_t calls = 0, hits = 0, compiles = 0, replays = 0, eager_calls = 0, graph_breaks = 0;
};

namespace detail {

/// A short array that lies inline as long as it is short.
template <class T, size_t N>
class LeafArray {
 public:
  void push(T value) {
    if (size_ < N)
      inline_[size_++] = value;
    else {
      if (size_ == N) spill_.assign(inline_, inline_ + N);
      spill_.push_back(value);
      ++size_;
    }
  }
  const T* data() const { return size_ <= N ? inline_ : spill_.data(); }
  size_t size() const { return size_; }
  const T& operator[](size_t i) const { return data()[i]; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  T inline_[N];
  size_t size_ = 0;
  std::vector<T> spill_;
};

/// A plain value of an argument: its bits and its category.
struct PlainLeaf {
  uint64_t bits;
  uint8_t kind;  // 0 integer, 1 floating, 2 bool
  friend bool operator==(const PlainLeaf&, const PlainLeaf&) = default;
};

/// The leaves of the arguments of one call, borrowed.
struct Leaves {
  LeafArray<const Tensor*, 24> tensors;
  LeafArray<PlainLeaf, 16> plain;  ///< guarded by value
  LeafArray<Number, 8> numbers;    ///< SymInt and SymFloat parameters: may become symbols
  LeafArray<std::string_view, 4> texts;
  uint64_t structure = 0;  ///< sizes of containers, alternatives, presence
};

/// Collects leaves.
struct LeafReader {
  Leaves& leaves;
  void tensor(const Tensor& t) { leaves.tensors.push(&t); }
  template <class T>
  void scalar(const Scalar<T>& s) {
    tensor(s.tensor());
    if (!s.tensor().defined()) number(s.value());
  }
  template <class T>
  void sym(const T& v) {
    leaves.numbers.push(Number(v));
  }
  template <class T>
  void number(const T& v) {
    if constexpr (std::is_floating_point_v<T>)
      leaves.plain.push({std::bit_cast<uint64_t>(static_cast<double>(v)), 1});
    else
      leaves.plain.push(
          {static_cast<uint64_t>(v), std::is_same_v<T, bool> ? uint8_t{2} : uint8_t{0}});
  }
  void text(std::string_view s) { leaves.texts.push(s); }
  void shape(uint64_t n) { leaves.structure = (leaves.structure ^ n) * 0x9E3779B97F4A7C15u + 1; }
  void fields(const auto&... e) { (visit_tree(e, *this), ...); }
};

/// Puts tensors and symbols into the places of the leaves, in order.
struct LeafWriter {
  const Tensor* next_tensor;
  const Number* next_number;
  void tensor(Tensor& t) { t = *next_tensor++; }
  void tensor(const Tensor&) { ++next_tensor; }
  template <class T>
  void scalar(Scalar<T>& s) {
    tensor(s.tensor());
  }
  void sym(SymInt& v) { v = next_number++->sym_int(); }
  void sym(SymFloat& v) { v = next_number++->sym_float(); }
  template <class T>
  void number(const T&) {}
  template <class T>
  void text(const T&) {}
  void shape(uint64_t) {}
};

/// Takes the tensors out of a result, so that a prototype keeps none alive.
struct LeafEmptier {
  void tensor(Tensor& t) { t = Tensor(); }
  void tensor(const Tensor&) {}
  template <class T>
  void scalar(Scalar<T>& s) {
    tensor(s.tensor());
  }
  template <class T>
  void sym(T&) {}
  template <class T>
  void number(const T&) {}
  template <class T>
  void text(const T&) {}
  void shape(uint64_t) {}
};

/// Makes a result from a prototype and the tensors and numbers of a call.
struct LeafFiller {
  Tensor* next;
  const Number* next_number;
  void tensor(Tensor& t) { t = std::move(*next++); }
  void tensor(const Tensor&) { ++next; }
  template <class T>
  void scalar(Scalar<T>& s) {
    if (next->defined()) s = Scalar<T>(Scalar<T>(std::move(*next)).value());
    ++next;
  }
  void sym(SymInt& v) { v = next_number++->sym_int(); }
  void sym(SymFloat& v) { v = next_number++->sym_float(); }
  template <class T>
  void number(const T&) {}
  template <class T>
  void text(const T&) {}
  void shape(uint64_t) {}
};

/// Runs the user's callable on the tensors and symbols given in place of its arguments' leaves.
/// `outputs` receives the tensor leaves of the result; the rest of the result is the prototype,
/// whose tensors are emptied.
struct Body {
  void* context;
  std::shared_ptr<void> (*run)(void* context, const Tensor* tensors, const Number* numbers,
                               std::vector<Tensor>& outputs, Leaves& plain_outputs);
  void (*run_eager)(void* context);  ///< on the caller's own arguments; keeps the result in context
  const void* closure;               ///< the callable's bytes, for finding captured tensors
  size_t closure_bytes;
};

/// What a call gives: output tensors and the rest of the result, or nothing after run_eager.
struct CallResult {
  std::vector<Tensor> tensors;
  std::vector<Number> numbers;  ///< of SymInt and SymFloat leaves
  const void* prototype = nullptr;
  std::shared_ptr<const void> owner;
};

class Site;
TENON_API std::shared_ptr<Site> make_site(const Options& options);
TENON_API void call_site(Site& site, const Leaves& leaves, const Body& body, CallResult& result);
TENON_API CallStats site_stats(const Site& site);
TENON_API std::string explain_site(const Site& site);
TENON_API void reset_site(Site& site);

template <class F>
struct SignatureOf {
  static constexpr bool known = false;
};
template <class F>
requires requires { &F::operator(); }
struct SignatureOf<F> : SignatureOf<decltype(&F::operator())> {};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...) const> {
  static constexpr bool known = true;
  using Params = std::tuple<A...>;
};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...)> : SignatureOf<R (C::*)(A...) const> {};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...) const noexcept> : SignatureOf<R (C::*)(A...) const> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> : SignatureOf<R (SignatureOf<void>::*)(A...) const> {};

template <class P>
using StoredArg = std::conditional_t<std::is_same_v<std::decay_t<P>, const char*>, std::string,
                                     std::remove_cvref_t<P>>;

/// One call with parameters of known types: the arguments, the result, and how to run the body.
template <class F, class... P>
struct CallFrame {
  using Result = std::invoke_result_t<F&, P...>;
  static constexpr bool is_void = std::is_void_v<Result>;
  using Stored = std::conditional_t<is_void, std::monostate, std::remove_cvref_t<Result>>;

  F& fn;
  std::tuple<StoredArg<P>...>& args;
  std::optional<Stored> eager_result;

  static Stored invoke(F& fn, std::tuple<StoredArg<P>...>& args) {
    return std::apply(
        [&](auto&... a) -> Stored {
          if constexpr (is_void) {
            std::invoke(fn, static_cast<P>(a)...);
            return {};
          } else {
            return std::invoke(fn, static_cast<P>(a)...);
          }
        },
        args);
  }
  static std::shared_ptr<void> run(void* self, const Tensor* tensors, const Number* numbers,
                                   std::vector<Tensor>& outputs, Leaves& plain_outputs) {
    auto& frame = *static_cast<CallFrame*>(self);
    auto copies = std::make_unique<std::tuple<StoredArg<P>...>>(frame.args);
    LeafWriter writer{tensors, numbers};
    visit_tree(*copies, writer);
    auto result = std::make_shared<Stored>(invoke(frame.fn, *copies));
    LeafReader reader{plain_outputs};
    visit_tree(std::as_const(*result), reader);
    for (const Tensor* t : plain_outputs.tensors.span()) outputs.push_back(*t);
    LeafEmptier emptier;
    visit_tree(*result, emptier);
    return result;
  }
  static void run_eager(void* self) {
    auto& frame = *static_cast<CallFrame*>(self);
    frame.eager_result.emplace(invoke(frame.fn, frame.args));
  }
};

/// The callable and its sites, one for each list of parameter types (one in all unless generic).
template <class F>
struct Compiled {
  explicit Compiled(F f, Options o) : fn(std::move(f)), options(std::move(o)) {}
  F fn;
  Options options;
  std::mutex sites_lock;
  std::map<std::type_index, std::shared_ptr<Site>> sites;
  std::shared_ptr<Site> only_site;

  template <class Params>
  Site& site() {
    if constexpr (SignatureOf<F>::known) {
      return *only_site;
    } else {
      std::lock_guard lock(sites_lock);
      auto& slot = sites[std::type_index(typeid(Params))];
      if (!slot) slot = make_site(options);
      return *slot;
    }
  }
};

}  // namespace detail

namespace detail {

/// One call: arguments to leaves, the site, and the result from what it gives.
template <class F, class... P, class... A>
auto call_compiled(Compiled<F>& compiled, std::tuple<P...>*, A&&... args) {
  static_assert(
      ((!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>)&&...),
      "a compiled callable takes its arguments by value or const reference");
  std::tuple<StoredArg<P>...> stored(std::forward<A>(args)...);
  using Frame = CallFrame<F, P...>;
  Frame frame{compiled.fn, stored, {}};
  Leaves leaves;
  LeafReader reader{leaves};
  visit_tree(std::as_const(stored), reader);
  Body body{&frame, &Frame::run, &Frame::run_eager, &compiled.fn, sizeof(F)};
  CallResult result;
  call_site(compiled.template site<std::tuple<P...>>(), leaves, body, result);
  if constexpr (Frame::is_void) {
    return;
  } else {
    if (!result.prototype) return std::move(*frame.eager_result);
    if constexpr (std::is_same_v<typename Frame::Stored, Tensor>) {
      return std::move(result.tensors[0]);
    } else {
      typename Frame::Stored out = *static_cast<const typename Frame::Stored*>(result.prototype);
      LeafFiller filler{result.tensors.data(), result.numbers.data()};
      visit_tree(out, filler);
      return out;
    }
  }
}

template <class F, class = void>
struct ParamsOf {
  using type = void;  // a generic callable: the parameters are those of each call
};
template <class F>
struct ParamsOf<F, std::enable_if_t<SignatureOf<F>::known>> {
  using type = typename SignatureOf<F>::Params;
};

template <class F, class Params = typename ParamsOf<F>::type>
class CallOperator;
template <class F, class... P>
class CallOperator<F, std::tuple<P...>> {
 public:
  auto operator()(P... args) const {
    return call_compiled(*state_, static_cast<std::tuple<P...>*>(nullptr),
                         std::forward<P>(args)...);
  }

 protected:
  std::shared_ptr<Compiled<F>> state_;
};
template <class F>
class CallOperator<F, void> {
 public:
  template <class... A>
  auto operator()(A&&... args) const {
    return call_compiled(*state_,
                         static_cast<std::tuple<const std::remove_cvref_t<A>&...>*>(nullptr),
                         std::forward<A>(args)...);
  }

 protected:
  std::shared_ptr<Compiled<F>> state_;
};

}  // namespace detail

/// A compiled callable: called like the original. Copies share code and guards.
template <class F>
class CompiledFunction : public detail::CallOperator<F> {
 public:
  CompiledFunction(F fn, Options options) {
    this->state_ = std::make_shared<detail::Compiled<F>>(std::move(fn), std::move(options));
    if constexpr (detail::SignatureOf<F>::known)
      this->state_->only_site = detail::make_site(this->state_->options);
  }

  CallStats stats() const {
    CallStats total;
    for_each_site([&](detail::Site& s) {
      CallStats one = detail::site_stats(s);
      total.calls += one.calls;
      total.hits += one.hits;
      total.compiles += one.compiles;
      total.replays += one.replays;
      total.eager_calls += one.eager_calls;
      total.graph_breaks += one.graph_breaks;
    });
    return total;
  }
  /// What was compiled, with guards, regimes and the reasons of recompiles.
  std::string explain() const {
    std::string text;
    for_each_site([&](detail::Site& s) { text += detail::explain_site(s); });
    return text;
  }
  /// Forgets all compiled code of this callable.
  void reset() const {
    for_each_site([](detail::Site& s) { detail::reset_site(s); });
  }

 private:
  template <class G>
  void for_each_site(G g) const {
    if (this->state_->only_site) return g(*this->state_->only_site);
    std::lock_guard lock(this->state_->sites_lock);
    for (auto& [type, site] : this->state_->sites) g(*site);
  }
};

/// Compiles a callable; nothing happens before its first call.
template <class F>
CompiledFunction<std::decay_t<F>> compile(F&& fn, Options options = {}) {
  return {std::forward<F>(fn), std::move(options)};
}

/// The same for a body that changes captured tensors: a write to one that `state` does not name is
/// an error when the body is recorded.
template <class F>
CompiledFunction<std::decay_t<F>> compile(F&& fn, State state, Options options = {}) {
  options.state = std::make_shared<const std::vector<Tensor>>(std::move(state.tensors));
  return {std::forward<F>(fn), std::move(options)};
}

/// Whether the calling thread is recording a callable.
TENON_API bool is_compiling();
/// Asks for results that do not depend on the number of threads, from what the calling thread
/// compiles and calls from now on; code compiled otherwise is compiled anew. Backends that know the
/// mode obey it; kernels that the host calls op by op are as they are.
TENON_API void set_deterministic(bool on);
TENON_API bool is_deterministic();
/// Forgets all compiled code and counters of the process.
TENON_API void reset();
/// Names of the backends, without those tagged so.
TENON_API std::vector<std::string> list_backends(const std::vector<std::string>& exclude_tags = {
                                                     "debug", "experimental"});
/// Looks at the plugin folders again; list_backends does so by itself.
TENON_API void rescan_plugins();

/// Sizes of this dimension are symbolic from the first compile on; `min` and `max` bound them.
TENON_API void mark_dynamic(const Tensor& t, int64_t dim, std::optional<int64_t> min = {},
                            std::optional<int64_t> max = {});
/// Sizes of this dimension are never symbolic.
TENON_API void mark_static(const Tensor& t, int64_t dim);
/// Sizes of this dimension are symbols without an example from the first compile on: one version
/// serves every size, 0 and 1 included, and a branch on the size is a look at data.
TENON_API void mark_unbacked(const Tensor& t, int64_t dim);
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
/// The text of explain() of a compiled callable.
template <class F>
std::string explain(const CompiledFunction<F>& f) {
  return f.explain();
}

namespace detail {
/// Ends the segment, hands real tensors for the fakes in `tensors`, and suspends recording until
/// leave_disabled; returns what leave_disabled needs, null when nothing is recorded.
TENON_API void* enter_disabled(std::vector<Tensor>& tensors, std::string_view what);
TENON_API void leave_disabled(void* token);
struct DisabledScope {
  void* token;
  ~DisabledScope() { leave_disabled(token); }
};
}  // namespace detail

/// A callable that is never recorded: inside a compiled one it runs on real tensors.
template <class F>
auto disable(F fn) {
  return [fn = std::move(fn)](auto&&... args) {
    std::tuple<std::remove_cvref_t<decltype(args)>...> copies(args...);
    detail::Leaves leaves;
    detail::LeafReader reader{leaves};
    detail::visit_tree(std::as_const(copies), reader);
    std::vector<Tensor> tensors;
    for (const Tensor* t : leaves.tensors.span()) tensors.push_back(*t);
    detail::DisabledScope scope{detail::enter_disabled(tensors, "disable")};
    std::vector<Number> numbers(leaves.numbers.span().begin(), leaves.numbers.span().end());
    detail::LeafWriter writer{tensors.data(), numbers.data()};
    detail::visit_tree(copies, writer);
    return std::apply(fn, copies);
  };
}

}  // namespace tenon
