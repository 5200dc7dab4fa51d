// Programs of some twenty lines: each runs plain, then compiled on every backend, and must write
// the same log both times.
//
//     TENON_PROGRAM(AWeightIsReplaced, 1) {                 // compiles at most once
//       Tensor w = tenon::ones({2});
//       auto f = run.compile([&](const Tensor& x) { return x * w; });
//       run.log(f(tenon::ones({2})));
//       w = tenon::zeros({2});
//       run.log(f(tenon::ones({2})));
//     }
//
// Numbers are small dyadic fractions, so that backends that contract products and sums agree with
// those that do not; logs keep five digits for the few that are not.
#pragma once

#include <tenon/tenon.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon::programs {

/// One run of a program: how it compiles, and what it logs. Threads: log and compile are safe.
class Run {
 public:
  /// An empty backend: callables stay as they are.
  explicit Run(std::string backend, bool in_one_graph = false)
      : backend_(std::move(backend)), in_one_graph_(in_one_graph) {}

  bool is_plain() const { return backend_.empty(); }
  const std::string& backend() const { return backend_; }

  /// What stands for a callable in this run. Copies share it.
  template <class F>
  class Callable {
   public:
    Callable(Run& run, F fn) : held_(std::make_shared<Held>(run, std::move(fn))) {}
    Callable(Run& run, CompiledFunction<F> fn)
        : held_(std::make_shared<Held>(run, std::move(fn))) {}
    template <class... A>
    auto operator()(A&&... args) const {
      if (held_->plain) return std::invoke(*held_->plain, std::forward<A>(args)...);
      return (*held_->compiled)(std::forward<A>(args)...);
    }
    /// All zero in a plain run.
    CallStats stats() const { return held_->compiled ? held_->compiled->stats() : CallStats(); }
    std::string explain() const { return held_->compiled ? held_->compiled->explain() : ""; }
    /// Whether calls are compared with a recording, not recorded anew; true in a plain run.
    bool is_followed() const {
      return explain().find("recorded on every call") == std::string::npos;
    }
    void reset() const {
      if (!held_->compiled) return;
      held_->run.add(stats());
      held_->compiled->reset();
    }

   private:
    struct Held {
      Run& run;
      std::optional<F> plain;
      std::optional<CompiledFunction<F>> compiled;
      Held(Run& r, F fn) : run(r), plain(std::move(fn)) {}
      Held(Run& r, CompiledFunction<F> fn) : run(r), compiled(std::move(fn)) {}
      Held(const Held&) = delete;
      ~Held() {
        if (compiled) run.add(compiled->stats());
      }
    };
    std::shared_ptr<Held> held_;
  };

  template <class F>
  Callable<F> compile(F fn, Options options = {},
                      std::source_location where = std::source_location::current()) {
    options.where = where;
    if (is_plain()) return Callable<F>(*this, std::move(fn));
    return Callable<F>(*this, tenon::compile(std::move(fn), with_backend(std::move(options))));
  }
  template <class F>
  Callable<F> compile(F fn, State state, Options options = {}) {
    if (is_plain()) return Callable<F>(*this, std::move(fn));
    return Callable<F>(
        *this, tenon::compile(std::move(fn), std::move(state), with_backend(std::move(options))));
  }
  /// For calls of tenon::compile itself; a plain run has them call the callable.
  Options with_backend(Options options) const {
    options.backend = backend_;
    options.disable = options.disable || is_plain();
    options.fullgraph = options.fullgraph || in_one_graph_;
    return options;
  }

  /// One line: the values, with blanks between them.
  template <class... T>
  void log(const T&... values) {
    std::string line;
    ((line += (line.empty() ? "" : " ") + text(values)), ...);
    add_line(std::move(line));
  }
  /// The kind of error that `f` ends with: "UserError", "std::runtime_error: its text", "none".
  void log_error(const std::function<void()>& f) { add_line(kind_of_error(f)); }

  const std::vector<std::string>& lines() const { return lines_; }
  /// Of all callables, those that are gone by now.
  const CallStats& stats() const { return stats_; }

 private:
  static std::string text(std::string_view words) { return std::string(words); }
  static std::string text(const char* words) { return words; }
  static std::string text(const Tensor& t);
  template <class T>
  requires(std::is_arithmetic_v<T>) static std::string text(T number) {
    return number_text(static_cast<double>(number));
  }
  template <class T>
  static std::string text(const Scalar<T>& number) {
    return number_text(static_cast<double>(number.value()));
  }
  template <class T>
  static std::string text(const std::vector<T>& values) {
    std::string out;
    for (const auto& v : values) out += (out.empty() ? "" : ", ") + text(v);
    return "{" + out + "}";
  }
  static std::string number_text(double number);
  static std::string kind_of_error(const std::function<void()>& f);
  void add_line(std::string line);
  void add(const CallStats& stats);

  std::string backend_;
  bool in_one_graph_;
  std::mutex lines_lock_;
  std::vector<std::string> lines_;
  CallStats stats_;
};

/// A row of the list of all programs; the macro below makes one.
struct Program {
  const char* file;
  const char* name;
  int64_t most_compiles;  ///< of all its callables together that is fair
  void (*body)(Run& run);
  bool in_one_graph = false;         ///< its callables are compiled with fullgraph
  bool is_expected_to_fail = false;  ///< on some backend, today
};
std::vector<Program>& all_programs();
struct AddProgram {
  explicit AddProgram(const Program& program) { all_programs().push_back(program); }
};

/// Calls f(0) to f(n - 1) in threads of their own and waits; throws what one of them has thrown.
void in_threads(int n, const std::function<void(int)>& f);

/// Gives parameters small dyadic numbers in place of random ones.
void set_simply(const std::vector<Tensor>& parameters, double scale = 0.25);

/// {a, b, c} as f32.
inline Tensor row(std::vector<float> values) { return tensor(values); }

/// f32 of these sizes, of halves between -1.5 and 1.5; others for each i.
Tensor halves(std::vector<int64_t> sizes, int i = 0);

}  // namespace tenon::programs

/// Defines a program with the parameter `run`.
#define TENON_PROGRAM(Name, most)                                                      \
  static void Name(tenon::programs::Run& run);                                         \
  static const tenon::programs::AddProgram add_##Name({__FILE__, #Name, most, &Name}); \
  static void Name([[maybe_unused]] tenon::programs::Run& run)
/// One that does not work yet on some backend; the test fails when it does.
#define TENON_EXPECTED_FAILURE(Name, most)             \
  static void Name(tenon::programs::Run& run);         \
  static const tenon::programs::AddProgram add_##Name( \
      {__FILE__, #Name, most, &Name, false, true});    \
  static void Name([[maybe_unused]] tenon::programs::Run& run)
/// The same program once more, each of its callables as one graph.
#define TENON_PROGRAM_IN_ONE_GRAPH(Name, most)               \
  static const tenon::programs::AddProgram add_whole_##Name( \
      {__FILE__, #Name "InOneGraph", most, &Name, true})
#define TENON_EXPECTED_FAILURE_IN_ONE_GRAPH(Name, most)      \
  static const tenon::programs::AddProgram add_whole_##Name( \
      {__FILE__, #Name "InOneGraph", most, &Name, true, true})
