// Turning a run along a path into a recording.
#pragma once

#include "capture/follow/frame.h"
#include "capture/trace.h"

namespace tenon {

struct StepRange {
  static constexpr size_t none = ~size_t{0};
  size_t first, end;
  size_t open_unit = none;  ///< the step that a unit begins with which is not over
};
/// Puts these steps into the trace, as the body has performed them with the tensors and numbers of
/// the frame, and with requests about values of the path; the fakes that the body holds become those of
/// the trace. The frame is of no use afterwards. Gives where the open unit begins.
OpUnit::Start record_steps(Trace& trace, const Path& path, const Frame& frame, StepRange range,
                           const autograd::TapeRequests& requests);

}  // namespace tenon
