// SPDX-License-Identifier: Apache-2.0
// What programs tell the compiler: backends of theirs, stances, log functions, functions whose result
// never changes.
//
//     tenon::compiler::register_backend("mine", [](const tenon::compiler::Graph& graph,
//                                                  std::span<const tenon::Tensor> examples) {
//       std::cout << graph.text();
//       return [graph](const std::vector<tenon::Tensor>& in) { return graph.run(in); };
//     });
//     auto f = tenon::compile(step, {.backend = "mine"});
//
//     tenon::register_log_fn("app.print", [](std::string_view text, std::span<const tenon::Tensor>
//     ts) { ... });
//     auto f = tenon::compile([](const tenon::Tensor& x) {
//       tenon::Tensor y = x * 2;
//       tenon::call_log_fn("app.print", "y is", {y});
//       return y + 1;
//     });
//
// A log function needs numbers, so calling it inside of a compiled function cuts the graph there.
// Names in dynamo.reorderable_logging_functions do not: their calls are kept in order and run after
// the graph, with the tensors as they are then. Names in dynamo.ignore_logging_functions are left
// out of compiled functions.
//
// Threads: all functions may be called from any thread.
#pragma once

#include <tenon/compile.h>
#include <tenon/report.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class Graph;

using LogFunction = std::function<void(std::string_view text, std::span<const Tensor> tensors)>;

/// Registers a log function for this process; one of the same name is replaced.
TENON_API void register_log_fn(std::string name, LogFunction function);
/// Calls a registered log function. Throws UserError for an unknown name.
TENON_API void call_log_fn(std::string_view name, std::string_view text,
                           std::initializer_list<Tensor> tensors = {});

namespace compiler {

using tenon::call_log_fn;
using tenon::check;
using tenon::compile;
using tenon::disable;
using tenon::explain;
using tenon::graph_break;
using tenon::guard;
using tenon::is_compiling;
using tenon::list_backends;
using tenon::mark_dynamic;
using tenon::mark_static;
using tenon::mark_static_address;
using tenon::mark_unbacked;
using tenon::maybe_mark_dynamic;
using tenon::NoCompile;
using tenon::register_log_fn;
using tenon::reset;

/// Whether the calling thread runs a body on tensors without data: recording it, or comparing it
/// with a recording. False in exports and outside of compiled callables.
inline bool is_dynamo_compiling() { return tenon::detail::is_recording(); }
/// Whether the calling thread exports a model. Always false: there is no export yet.
inline bool is_exporting() { return false; }

/// The backend of callables that name none; left out or empty, what configuration files and the
/// environment say again (compiler.default_backend). Throws UserError InvalidBackend for an unknown
/// one.
TENON_API void set_default_backend(const std::string& name = "");
TENON_API std::string get_default_backend();

/// What calls do, process-wide.
enum class Stance : uint8_t {
  standard,            ///< as the options of each callable say
  force_eager,         ///< callables run as they are
  eager_on_recompile,  ///< compiled code is used, and nothing new is compiled
  fail_on_recompile,   ///< a call that needs a second version throws UserError RecompileError
  eager_then_compile,  ///< a callable's first call runs it as it is; sizes that differ in the second
                       ///< one are symbolic at once
  aot_eager_then_compile  ///< the same, and backend aot_eager serves the first call
};
struct StanceOptions {
  /// A callable with one version has it serve every call with as many arguments: no guard is looked
  /// at. What the guards would have found is wrong results, or worse. With more versions guards tell
  /// them apart as usual.
  bool skip_guard_eval_unsafe = false;
  /// Calls are served by this backend, with versions of its own; what was compiled for the callables'
  /// own backends stays for later. Only with Stance::standard.
  std::string force_backend = {};
};
/// Throws UserError inside of a compiled callable, for an unknown backend, and for force_backend with
/// another stance than the standard one.
TENON_API void set_stance(Stance stance, StanceOptions options = {});
TENON_API Stance get_stance();
TENON_API StanceOptions get_stance_options();
/// While one lives, the stance is another.
class StanceScope {
 public:
  explicit StanceScope(Stance stance, StanceOptions options = {})
      : before_(get_stance()), options_before_(get_stance_options()) {
    set_stance(stance, std::move(options));
  }
  ~StanceScope() { set_stance(before_, options_before_); }
  StanceScope(const StanceScope&) = delete;

 private:
  Stance before_;
  StanceOptions options_before_;
};

/// While one lives with `on`, a graph break of a body that this thread runs is UserError
/// GraphBreakError, also one that was recorded before. Unlike Options::fullgraph it may stand in the
/// body, around a part of it, and be lifted within by another one with false.
class TENON_API ErrorOnGraphBreak {
 public:
  explicit ErrorOnGraphBreak(bool on = true);
  ~ErrorOnGraphBreak();
  ErrorOnGraphBreak(const ErrorOnGraphBreak&) = delete;

 private:
  bool before_;
};

/// A new iteration begins: memory that compiled code of earlier ones has handed out as results may be
/// used anew by backends that keep it (CUDA graphs). Others let it be. Call it between iterations.
TENON_API void cudagraph_mark_step_begin();
/// How often it was called, for backends of the program.
TENON_API int64_t cudagraph_step();

// ---- caches on disk

struct CacheArtifactInfo {
  size_t n_entries = 0;  ///< files of the cache, of all kinds
  size_t n_bytes = 0;    ///< in them
};
struct CacheArtifacts {
  std::string bytes;
  CacheArtifactInfo info;
};
/// What this process has read from the caches on disk and written to them so far, as one piece of
/// bytes. Empty (no entries) where nothing was, or where caches are switched off.
TENON_API CacheArtifacts save_cache_artifacts();
/// Puts what save_cache_artifacts() gave into the caches on disk, for this process and others: what
/// they hold is not compiled again by the same Tenon on a like processor. Entries that are there stay
/// as they are and do not count in the result. Throws UserError, and keeps nothing, for bytes that are damaged, and where caches are
/// switched off. The bytes become code that runs: load those that you trust as you trust a program.
TENON_API CacheArtifactInfo load_cache_artifacts(std::string_view bytes);

// ---- backends of the program

/// A captured graph, as a backend gets it. Copies share it. Threads: constant.
class TENON_API Graph {
 public:
  explicit Graph(std::shared_ptr<const tenon::Graph> graph);
  /// In the form of docs/graph-text.md.
  std::string text() const;
  /// "aten.add.Tensor" and so on, in order.
  std::vector<std::string> ops() const;
  size_t n_inputs() const;
  size_t n_outputs() const;
  /// Runs it op by op. Symbols have the values of the call of this graph's code that the thread is
  /// in; outside of one, those that the sizes of the inputs give. For the examples that its backend
  /// is given, while that runs, it gives the results without data, and sizes stay symbols. Throws
  /// UserError where the number of inputs is wrong or a symbol has no value.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const;

 private:
  struct Runnable;
  std::shared_ptr<const Runnable> runnable_;
};

/// Runs a graph: one tensor for each input, undefined for numbers; one for each output.
using CompiledCode = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
/// Turns a graph into code. `examples` are the inputs without data.
using BackendFunction =
    std::function<CompiledCode(const Graph& graph, std::span<const Tensor> examples)>;

/// Registers a backend for this process. Throws UserError where the name is empty or taken or the
/// function is empty, and lets what that throws itself pass as BackendError.
TENON_API void register_backend(const std::string& name, BackendFunction backend,
                                std::vector<std::string> tags = {});

// ---- functions

}  // namespace compiler

namespace detail {
using AskConstant = std::shared_ptr<const void> (*)(void* function);
/// What `function` has given to the version of a compiled callable that serves the call that the
/// thread is in; where it has given nothing, `ask` is called, outside of what is recorded. Null where
/// the thread is in no such call.
TENON_API std::shared_ptr<const void> constant_of_call(const std::shared_ptr<void>& function,
                                                       AskConstant ask);
/// Whether `t`, of a result that a function has just given, is nobody else's and has no history.
TENON_API bool is_made_for_result(const Tensor& t);

/// The tensors of a result: itself, or those of containers.
template <class T, class F>
void each_tensor_of_result(T& v, const F& f) {
  if constexpr (std::derived_from<T, Tensor>) {
    f(v);
  } else if constexpr (is_list<T> && !std::is_same_v<T, std::vector<bool>>) {
    for (auto& e : v) each_tensor_of_result(e, f);
  } else if constexpr (is_instance<T, std::map> || is_instance<T, std::unordered_map>) {
    for (auto& [key, e] : v) each_tensor_of_result(e, f);
  } else if constexpr (is_instance<T, std::optional>) {
    if (v) each_tensor_of_result(*v, f);
  } else if constexpr (is_instance<T, std::pair> || is_instance<T, std::tuple>) {
    std::apply([&](auto&... e) { (each_tensor_of_result(e, f), ...); }, v);
  }
}

/// What a function has given, and which of its tensors it has made for that: each call gets copies
/// of these, since a plain run would have made new ones.
template <class R>
struct Constant {
  explicit Constant(R given) : value(std::move(given)) {
    each_tensor_of_result(value,
                          [&](const Tensor& t) { is_made.push_back(is_made_for_result(t)); });
  }
  R for_call() const {
    R copy = value;
    size_t i = 0;
    each_tensor_of_result(copy, [&](auto& t) {
      if constexpr (std::is_same_v<decltype(t), Tensor&>)
        if (is_made[i]) t = t.clone();
      ++i;
    });
    return copy;
  }

  R value;
  std::vector<bool> is_made;
};
}  // namespace detail

namespace compiler {

/// A function whose result never changes. It is asked, on real tensors, when a compiled callable
/// records a body that calls it for arguments of a new kind; calls with such arguments get that
/// result, wherever in the body and however often they ask, until the callable is reset. There is no
/// guard: what the function would give later is not seen. Tensors that it makes, alone or in standard
/// containers, are copied where the body asks, in the graph, so that writing them changes no other call's;
/// those that the program holds elsewhere, and those that need gradients, are given as they are. Calls that run as they are, and calls
/// outside of compiled callables, call it. Make it outside of the body: each is a function of its own;
/// copies are one. Threads: first calls at once may ask once each.
template <class F>
auto assume_constant_result(F fn) {
  using R = std::decay_t<std::invoke_result_t<F&>>;
  using Constant = tenon::detail::Constant<R>;
  return [fn = std::make_shared<F>(std::move(fn))]() -> R {
    auto ask = [](void* function) -> std::shared_ptr<const void> {
      return std::make_shared<const Constant>(std::invoke(*static_cast<F*>(function)));
    };
    auto constant = tenon::detail::constant_of_call(fn, ask);
    return constant ? static_cast<const Constant*>(constant.get())->for_call()
                    : R(std::invoke(*fn));
  };
}

/// `replacement` in compiled callables, `original` elsewhere; both take the same arguments.
template <class F, class G>
auto substitute_in_graph(F original, G replacement) {
  return [original = std::move(original),
          replacement = std::move(replacement)](auto&&... args) -> decltype(auto) {
    if (tenon::detail::is_recording())
      return std::invoke(replacement, std::forward<decltype(args)>(args)...);
    return std::invoke(original, std::forward<decltype(args)>(args)...);
  };
}

}  // namespace compiler

using compiler::assume_constant_result;
using compiler::cudagraph_mark_step_begin;
using compiler::ErrorOnGraphBreak;
using compiler::get_default_backend;
using compiler::get_stance;
using compiler::is_dynamo_compiling;
using compiler::is_exporting;
using compiler::load_cache_artifacts;
using compiler::register_backend;
using compiler::save_cache_artifacts;
using compiler::set_default_backend;
using compiler::set_stance;
using compiler::Stance;
using compiler::StanceOptions;
using compiler::StanceScope;
using compiler::substitute_in_graph;

}  // namespace tenon
