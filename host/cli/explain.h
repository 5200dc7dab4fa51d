// What becomes of a model, as facts: for the verbs that tell it.
#pragma once

#include "cli/bench/bench_timing.h"
#include "cli/bench/measured.h"
#include "cli/model_options.h"

#include <string>

namespace tenon::cli {

/// Reads, lowers and compiles the model: the document of `explain --json`. `backend`: empty for the
/// default one. `with_assembly`: code as text, too, where the backend gives it.
Json explain_model(const std::string& model, const std::string& backend,
                   const ModelOptions& options, bool with_assembly = false);

/// A line for each item of the code that was timed: what, µs, share, GB/s or GF/s, part of the
/// peak.
std::vector<std::vector<std::string>> item_rows(const Json& stats);
inline const std::vector<std::string> item_header{"ITEM", "US", "%", "GB/s", "GF/s", "% OF PEAK"};

}  // namespace tenon::cli
