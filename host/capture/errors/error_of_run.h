// The error that a run of a body ends with, whatever the body does about it.
//
// Problem: operations run together, later than the body calls them. So an error of one arrives at
// another line, within a `try` that means something else, or within a destructor. Recording has errors
// of its own besides, which no plain run throws. Model: the run remembers the first error of these
// kinds. Each operation and each look at data that follows throws it again, and the end of the body
// does. Where that would end the process (may_throw.h), nothing is thrown: operations run at once, and
// who looks gets what can be computed without what has failed, or zeros. Other errors are the body's.
//
// Threads: of one run.
#pragma once

#include "core/dispatch.h"
#include "core/function_ref.h"

#include <tenon/detail/leaves.h>
#include <tenon/tensor.h>

#include <exception>
#include <list>
#include <memory>
#include <span>
#include <vector>

namespace tenon {

class Graph;

/// Of the innermost run of a thread.
class ErrorOfRun {
 public:
  ErrorOfRun();
  ~ErrorOfRun() { innermost_ = outer_; }
  ErrorOfRun(const ErrorOfRun&) = delete;

  /// Runs the body, and throws what is noted by then instead of what it throws; what it has given is
  /// nobody's then. Nothing is noted later.
  void run_to_end(detail::ResultTensors& given, FunctionRef<void()> body);

  // ---- called while the body runs; outside of a run nothing happens

  /// The first one counts.
  static void note(std::exception_ptr error);
  /// That which is handled.
  static void note_current() { note(std::current_exception()); }
  /// An operation of the graph has failed, which has run with these inputs; `fake_of(i)` stands for its
  /// output i.
  static void note(std::exception_ptr error, const std::shared_ptr<Graph>& graph,
                   std::span<detail::TensorHead* const> inputs, std::span<const int64_t> symbols,
                   size_t n_outputs, FunctionRef<const Tensor&(size_t)> fake_of);
  /// Throws what is noted. True where something is, and may not be thrown.
  static bool is_to_be_ignored() { return is_noted() && innermost_->throw_or_ignore(); }
  /// The same for an operation that is not recorded or followed any more, since no segment could run
  /// that has it.
  static bool runs_at_once() { return is_to_be_ignored() && innermost_->failed_; }
  /// Looks at the data of a tensor: the result of `read`, or what there is where that may not throw.
  static const Tensor& look(const Tensor& t, FunctionRef<const Tensor&()> read);
  /// Carries out what a body asks for that is no operation, or leaves it out where it may not throw.
  static void run_or_ignore(FunctionRef<void()> f);
  /// The body has ended: what asks for tensors is the recording.
  static bool is_body_over() { return innermost_ && innermost_->is_over_; }

  /// The tensor that a fake stands for, or what there is in its place.
  static const Tensor& value_of(const Tensor& t);

 private:
  // What an operation that has failed leaves.
  struct Failed {
    std::shared_ptr<Graph> graph;
    std::vector<Tensor> inputs;
    std::vector<int64_t> symbols;
    std::vector<const detail::TensorHead*> outputs;  // fakes, which others hold
  };

  static bool is_noted() { return innermost_ && innermost_->error_; }
  bool may_throw() const;
  bool throw_or_ignore() const;
  const Tensor& instead_of(const Tensor& fake);

  static thread_local constinit ErrorOfRun* innermost_;
  ErrorOfRun* const outer_;
  const int n_exceptions_;  // that were on their way when the run began
  std::exception_ptr error_;
  bool is_over_ = false;
  std::unique_ptr<Failed> failed_;  // null: no operation has
  std::list<Tensor> made_up_;
};

/// fail(), where no plain run would throw: the recording itself cannot go on with the body. The run ends
/// with that, whatever the body does about it.
template <class... Args>
[[noreturn]] void refuse(ErrorCode code, detail::MessagePattern pattern, const Args&... args) {
  try {
    fail(code, pattern, args...);
  } catch (...) {
    ErrorOfRun::note_current();
    throw;
  }
}
/// The same unless `condition` holds.
template <class... Args>
void refuse_unless(bool condition, ErrorCode code, detail::MessagePattern pattern,
                   const Args&... args) {
  if (!condition) [[unlikely]]
    refuse(code, pattern, args...);
}

/// Runs an operation of the body on what tensors stand for, see ErrorOfRun::runs_at_once.
void run_at_once(const CallArgs& call);

}  // namespace tenon
