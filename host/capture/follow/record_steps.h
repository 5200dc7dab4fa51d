// Turning a run along a path into a recording.
#pragma once

#include "capture/follow/frame.h"
#include "capture/trace.h"

namespace tenon {

struct StepRange {
  size_t first, end;
};
/// Puts these steps into the trace, as the body has performed them with the tensors and numbers of
/// the frame, and with requests about values of the path; the fakes that the body holds become those of
/// the trace. The frame is of no use afterwards.
void record_steps(Trace& trace, const Path& path, const Frame& frame, StepRange range,
                  const autograd::TapeRequests& requests);

}  // namespace tenon
