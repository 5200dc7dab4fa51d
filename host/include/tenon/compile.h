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
#include <tenon/state.h>

#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace tenon {

struct Options {
  /// Name of a backend, see `tenon backends`; empty: inductor where it is installed, else
  /// aot_eager.
  std::string backend;
  /// Throw GraphBreakError instead of breaking the graph where the body looks at data.
  bool fullgraph = false;
  /// true: sizes are symbolic from the first call; false: never; unset: from the second size on.
  std::optional<bool> dynamic;
  /// A mode that the backend's manifest declares; "" or "default" is its plain setting.
  std::string mode;
  /// Options of the backend, as TOML values by name: {{"max_autotune", "true"}}.
  std::map<std::string, std::string> options;
  /// What the callable gives follows from its arguments and from tensors that it captures by address:
  /// later calls need not run it. false: it runs on every call, in compiled code.
  bool pure = false;
  /// Name in logs and reports; empty: "number N".
  std::string name;
  /// The captured tensors that the body may write; null: any. See compile() with a State.
  std::shared_ptr<const std::vector<Tensor>> state = nullptr;
};

/// What a compiled callable has done so far.
struct CallStats {
  int64_t calls = 0, hits = 0, compiles = 0, replays = 0, eager_calls = 0, graph_breaks = 0;
};

/// A compiled callable: called like the original. Copies share code and guards.
template <class F>
class CompiledFunction : public detail::CallOperator<F> {
 public:
  CompiledFunction(F fn, Options options) {
    this->state_ = std::make_shared<detail::Compiled<F>>(
        std::move(fn), std::make_shared<const Options>(std::move(options)));
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
