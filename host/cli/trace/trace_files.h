// Traces of the processes of one run (report/events.h), put together.
#pragma once

#include <cstddef>
#include <string>

namespace tenon::cli {

struct MergedTrace {
  std::string json;  ///< in the format of chrome://tracing, which Perfetto reads
  size_t n_events = 0, n_processes = 0;
};

/// Reads the files trace*.json in a folder of logging.trace, one a process, whose times have one
/// origin. What a process that was killed has begun, ends with its last event. `command` names the
/// process that has no number in the name of its file. Throws UserError for a file that is not such
/// a trace.
MergedTrace merge_traces(const std::string& folder, const std::string& command);

}  // namespace tenon::cli
