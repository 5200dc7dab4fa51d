// Turning a run along a path into a recording.
#pragma once

#include "capture/follow/frame.h"
#include "capture/trace.h"

namespace tenon {

/// Puts the steps from `first` up to `end` into the trace, as the body has performed them with the
/// tensors and numbers of the frame; the fakes that the body holds become those of the trace. The
/// frame is of no use afterwards.
void record_steps(Trace& trace, const Path& path, const Frame& frame, size_t first, size_t end);

}  // namespace tenon
