// What compiled code tells of itself once it has run, in lines for people.
#pragma once

#include "graph/artifact.h"

#include <string>
#include <vector>

namespace tenon {

/// From the statistics of the code (TN_DESC_STATS_JSON): the texts of the list "told", and what the
/// functions of the list "recorded" (tenon.cuda/1, function_describe) have recorded and replayed,
/// why they were recorded anew, and why they ran directly. Never throws: a plugin may write anything.
std::vector<std::string> told_by(const Artifact& code);

}  // namespace tenon
