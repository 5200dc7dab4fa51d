// Runs the calls of a session again that compiler.record_calls has kept.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tenon {

/// One call that ran again.
struct ReplayedCall {
  int64_t number = 0;
  std::string graph, backend;
  bool by_value = false;  ///< with the recorded elements, and compared with the recorded results
  std::string problem;    ///< what failed or differs; empty: nothing
};

struct ReplayOptions {
  std::string backend;  ///< instead of those of the record; empty: as recorded
  std::string mode;
};

/// Whether the folder holds a session.
bool holds_session(const std::string& folder);

/// Runs the calls in their order; `on_call` is told of each when it has run. Throws UserError
/// bad_file for a record that cannot be read.
std::vector<ReplayedCall> replay_calls(const std::string& folder, const ReplayOptions& options,
                                       const std::function<void(const ReplayedCall&)>& on_call);

}  // namespace tenon
