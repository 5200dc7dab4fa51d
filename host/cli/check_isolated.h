// One file checked in a child process, so that a crash is one failed case.
#pragma once

#include "cli/output.h"

#include <string>
#include <vector>

namespace tenon::cli {

struct IsolatedRun {
  std::vector<Json> cases;
  std::string error;  ///< "crashed with signal 11 (Segmentation fault)"; empty when it ended itself
};

/// Runs this program's `check --json` on `file`; its stderr stays ours.
IsolatedRun check_isolated(const std::string& file, const std::string& backend,
                           const std::vector<std::string>& arguments);

}  // namespace tenon::cli
