// Which recorder, if any, gets the operations of a thread.
#include "core/dispatch.h"
#include "core/tensor/owner_thread.h"
#include "graph/record.h"
#include "report/observers.h"

#include <utility>

namespace tenon {

RecordScope::RecordScope(GraphRecorder& recorder)
    : previous_(thread_modes.tracer),
      follower_(std::exchange(thread_modes.follower, nullptr)),
      keys_(bit(Key::trace), bit(Key::autograd)),
      excluded_outside_(std::exchange(thread_modes.excluded_outside, keys_.excluded_before())),
      shapes_(*recorder.shape_env()) {
  if (recorder.on_tape) thread_modes.exclude &= ~bit(Key::autograd);
  thread_modes.tracer = &recorder;
  own_trace(recorder.id(), &recorder);
}

RecordScope::~RecordScope() {
  thread_modes.tracer = previous_;
  thread_modes.follower = follower_;
  thread_modes.excluded_outside = excluded_outside_;
}

PauseRecording::PauseRecording()
    : previous_(std::exchange(thread_modes.tracer, nullptr)),
      follower_(std::exchange(thread_modes.follower, nullptr)),
      include_(thread_modes.include),
      exclude_(thread_modes.exclude) {
  thread_modes.include &= ~bit(Key::trace);
  if (previous_) thread_modes.exclude = thread_modes.excluded_outside;
}

PauseRecording::~PauseRecording() {
  thread_modes.tracer = previous_;
  thread_modes.follower = follower_;
  thread_modes.include = include_;
  thread_modes.exclude = exclude_;
}

namespace {

const bool lets_observers_compute = (
    report::unrecorded_slot =
        [](FunctionRef<void()> f) {
          PauseRecording pause;
          f();
        },
    true);

}  // namespace

}  // namespace tenon
