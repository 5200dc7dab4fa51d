// Segments of bodies with graph breaks: compiled like other graphs, and found again by structure.
#pragma once

#include "capture/trace.h"
#include "runtime/call.h"

namespace tenon {

/// Code of a graph, or the graph op by op where dynamo.suppress_errors hides that there is none. Under
/// the lock of the site; who frees it tells of the call. `place`: see hides_error().
struct MadeCode {
  std::shared_ptr<Artifact> artifact;
  bool is_compiled = true;
};
MadeCode make_code(detail::Site& site, const std::shared_ptr<Graph>& graph,
                   std::optional<size_t> place = {});

/// The code of a graph: that of an equal one where it serves, else new. `syms`: values of the
/// graph's symbols that are known before it runs; `overlaps`: of its inputs, where it writes some;
/// `place`: of a segment among those of its body.
std::shared_ptr<const SegmentCode> segment_code(detail::Site& site,
                                                const std::shared_ptr<Graph>& graph,
                                                std::span<const int64_t> syms,
                                                const std::vector<Overlap>& overlaps,
                                                std::optional<size_t> place = {});
/// Code that an equal segment has and that serves this one, with inputs that overlap so, or null.
std::shared_ptr<const SegmentCode> code_of_equal(detail::Site& site, const Segment& segment,
                                                 std::span<const int64_t> syms,
                                                 const std::vector<Overlap>& overlaps);
void run_segment(const SegmentCode& code, std::span<detail::TensorHead*> inputs,
                 std::span<const int64_t> syms, std::span<Tensor> outputs);

/// Counts a call whose body has run in segments, where some of them runs op by op.
void note_segments(detail::Site& site, const Recording& recording);

/// Runs the segments of a recording for the site.
SegmentRunner segment_runner(detail::Site& site);

}  // namespace tenon
