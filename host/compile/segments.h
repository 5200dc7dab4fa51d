// Segments of bodies with graph breaks: compiled like other graphs, and found again by structure.
#pragma once

#include "capture/trace.h"
#include "runtime/call.h"

namespace tenon {

/// The code of a graph: that of an equal one where it serves, else new. `syms`: values of the
/// graph's symbols that are known before it runs.
std::shared_ptr<Artifact> segment_code(detail::Site& site, const std::shared_ptr<Graph>& graph,
                                       std::span<const int64_t> syms);

/// Runs the segments of a recording for the site.
SegmentRunner segment_runner(detail::Site& site);

}  // namespace tenon
