// The changes of a thread's run.
#include "capture/tape/run_again.h"

#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "graph/record.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace tenon {

thread_local constinit ChangesOfRun* ChangesOfRun::innermost_ = nullptr;

void ChangesOfRun::note(std::function<void()> undo) {
  if (innermost_) innermost_->undo_.push_back(std::move(undo));
}

void ChangesOfRun::undo() {
  PauseRecording pause;
  for (; !undo_.empty(); undo_.pop_back()) undo_.back()();
}

namespace {

// Whether it says that a body cannot be recorded, rather than that the program is wrong.
bool is_refusal(const Error& error) {
  constexpr ErrorCode codes[] = {ErrorCode::graph_break, ErrorCode::unsupported,
                                 ErrorCode::data_dependent, ErrorCode::constraint_violation,
                                 ErrorCode::internal};
  return config::flags().dynamo.suppress_errors &&
         std::ranges::find(codes, error.code()) != std::end(codes);
}

// Without the name of the code, with which every message begins.
std::string own_text(const Error& error) {
  std::string text = error.what(), prefix = std::string(name_of(error.code())) + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

}  // namespace

bool ends_thread() { return !std::current_exception(); }

std::optional<RunsAsItIs> hidden_refusal() {
  if (ends_thread()) return std::nullopt;
  try {
    throw;
  } catch (const Error& error) {
    return is_refusal(error) ? std::optional(RunsAsItIs(error.what())) : std::nullopt;
  } catch (...) {
    return std::nullopt;
  }
}

void hide_refusal(ChangesOfRun& changes, FunctionRef<bool()> has_done_nothing) {
  std::optional<RunsAsItIs> hidden = hidden_refusal();
  if (!hidden || !has_done_nothing()) return;
  changes.undo();
  throw *hidden;
}

void rethrow_unhidden() {
  try {
    throw;
  } catch (const UserError& error) {
    if (!is_refusal(error)) throw;
    throw UserError(error.code(), own_text(error) +
                                      "; dynamo.suppress_errors does not hide this, since part of "
                                      "the body has had its effect, and no part may run twice");
  }
}

}  // namespace tenon
