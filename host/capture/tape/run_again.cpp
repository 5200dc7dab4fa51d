// The changes of a thread's run.
#include "capture/tape/run_again.h"

#include "core/dispatch.h"
#include "graph/record.h"

#include <utility>

namespace tenon {

static constinit thread_local ChangesOfRun* innermost_run = nullptr;

ChangesOfRun::ChangesOfRun() : outer_(std::exchange(innermost_run, this)) {}
ChangesOfRun::~ChangesOfRun() { innermost_run = outer_; }

void ChangesOfRun::note(std::function<void()> undo) {
  if (innermost_run) innermost_run->undo_.push_back(std::move(undo));
}

void ChangesOfRun::undo() {
  PauseRecording pause;
  for (; !undo_.empty(); undo_.pop_back()) undo_.back()();
}

}  // namespace tenon
