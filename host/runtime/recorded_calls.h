// A record of the calls of compiled code: a session that `tenon replay` runs again.
//
// Flag compiler.record_calls: `shapes` keeps dtype, sizes and strides of the arguments, `values` also
// their elements and those of the results. What lies below dynamo.debug_dir_root/run_<process>/calls:
//
//   graph_3.tng              the graph of a compilation, as it was captured
//   flags.toml               the changed flags
//   calls.jsonl              a line for each call: {"call": 7, "graph": "graph_3.tng", "backend": ...,
//                            "inputs": [{"dtype": "f32", "sizes": [2, 3], "strides": [3, 1]}, ...],
//                            "values": "call_7.safetensors" or null}
//   call_7.safetensors       in.N before the call, out.N after it
//
// A call's line is on the disk before the call, so that one that crashes is the last.
#pragma once

#include "graph/artifact.h"

#include <memory>
#include <string>
#include <string_view>

namespace tenon {

/// `artifact`, or where the flag asks for it a wrapper that records each call. What stands in the
/// way of recording costs a warning and the record, never the call.
std::shared_ptr<Artifact> recorded_artifact(const std::shared_ptr<Graph>& graph,
                                            std::shared_ptr<Artifact> artifact,
                                            std::string_view backend);

}  // namespace tenon
