// What a run of a body does at once to tensors of the program: hooks on leaves, needs of gradients.
//
// A body that turns out to call backward() may have to run once more (WantsTape), and so may one that
// cannot be recorded where dynamo.suppress_errors hides that (RunsAsItIs). What it would then do a second
// time is undone before. Threads: of one run.
#pragma once

#include "core/function_ref.h"

#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

namespace tenon {

/// The innermost one of a thread notes what is done while it lives.
class ChangesOfRun {
 public:
  ChangesOfRun() : outer_(innermost_) { innermost_ = this; }
  ~ChangesOfRun() { innermost_ = outer_; }
  ChangesOfRun(const ChangesOfRun&) = delete;

  /// Nothing happens outside of a run.
  static void note(std::function<void()> undo);
  /// The last change first. Nothing of this is recorded.
  void undo();

 private:
  static thread_local constinit ChangesOfRun* innermost_;
  ChangesOfRun* const outer_;
  std::vector<std::function<void()>> undo_;
};

/// Thrown in place of an error of recording that dynamo.suppress_errors hides. What the body did has had
/// no effect: it runs once more, as it is.
struct RunsAsItIs : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// In a catch (...): whether it is no exception, but the unwinding of a thread that ends itself or is
/// cancelled. That has to go on, and is thrown on from that handler itself: one more would end it.
bool ends_thread();

/// While an error is handled: what stands for it where it says that the body cannot be recorded, and
/// dynamo.suppress_errors hides that. Nothing for errors of the body's own.
std::optional<RunsAsItIs> hidden_refusal();
/// Throws that instead, with the changes undone, where `has_done_nothing` besides.
void hide_refusal(ChangesOfRun& changes, FunctionRef<bool()> has_done_nothing);
/// Throws the error on that is handled. One that the flag would hide says why it does not: the body has
/// had effects, and no part of it may run twice.
[[noreturn]] void rethrow_unhidden();

}  // namespace tenon
