// SPDX-License-Identifier: Apache-2.0
// Compiled autograd: backward passes are captured and compiled, whatever made their tape.
//
//     auto on = tenon::compiled_autograd::enable("inductor");
//     loss.backward();                        // captured, compiled, and run
//
// tenon::compile sees the backward of what it has compiled; here the engine's whole pass is seen,
// across graph breaks, hooks and the addition of gradients. A pass is recorded once for each kind
// of tape: which nodes there are, dtypes and layouts of what they keep, numbers that are no sizes.
// Sizes, data and the functions that hooks call may differ. Hooks and functions with a derivative
// of their own are called between pieces of compiled code, in the order of the engine. What cannot
// be compiled (create_graph, a tape that was freed) runs on the engine, and is counted.
//
// Threads: a scope is for the thread that made it; passes of different threads run at once.
#pragma once

#include <tenon/compiler.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace tenon::compiled_autograd {

struct EnableOptions {
  /// Sizes are symbols from the first pass on; false: a size becomes one when it has changed.
  bool dynamic = true;
  /// As Options::mode and Options::options of tenon::compile.
  std::string mode = {};
  std::map<std::string, std::string> options = {};
  /// A pass that would run on the engine, or call user code between pieces of code, is an error.
  bool fullgraph = false;
};

/// Until it ends, passes of this thread run as enable() or disable() has said; then as before.
/// Scopes end in the reverse order of their beginning.
class TENON_API Scope {
 public:
  struct State;
  explicit Scope(std::shared_ptr<const State> state);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  std::shared_ptr<const State> before_;
};

/// Passes of this thread are compiled with the backend; empty: as for tenon::compile. Throws
/// UserError for a backend, a mode or an option that there is not.
[[nodiscard]] TENON_API Scope enable(const std::string& backend = "",
                                     const EnableOptions& options = {});
/// The same with a function of the program, called once for each piece of a pass.
[[nodiscard]] TENON_API Scope enable(compiler::BackendFunction backend,
                                     const EnableOptions& options = {});
/// Passes of this thread run on the engine.
[[nodiscard]] TENON_API Scope disable();

/// For all threads without a scope of their own, until disable_everywhere().
TENON_API void enable_everywhere(const std::string& backend = "",
                                 const EnableOptions& options = {});
TENON_API void disable_everywhere();

/// Forgets all captured passes and the figures, and undoes enable_everywhere(). Throws UserError
/// inside of a compiled pass.
TENON_API void reset();
/// Whether the calling thread is inside of a compiled pass: in a hook, or in a function.
TENON_API bool in_compiled_autograd_region();

/// What has happened in this process since the last reset().
struct Stats {
  int64_t captures = 0;      ///< passes that were recorded and compiled
  int64_t hits = 0;          ///< passes that code was there for
  int64_t eager_passes = 0;  ///< that could not be compiled and ran on the engine
  int64_t departures = 0;    ///< passes that the engine ended: a hook gave another kind of gradient
  int64_t dropped = 0;       ///< captured passes that compiled_autograd.cache_size has pushed out
};
TENON_API Stats stats();

}  // namespace tenon::compiled_autograd
