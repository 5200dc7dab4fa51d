// A model compiled and called, with what its backend tells about the code.
#pragma once

#include "cli/model_options.h"

#include <string>

namespace tenon::cli {

struct MeasuredModel {
  Json stats;  ///< TN_DESC_STATS_JSON, with times of items where there are some
  double compile_ms = 0;
  double median_us = 0;                             ///< of a call; 0 where none was asked for
  std::string loops_before, loops, fusion, memory;  ///< the other texts
  /// Time of a call that is spent outside of items, in µs; negative where items have no times.
  double overhead_us = -1;
};

/// Compiles an archive or a saved graph and calls it for `seconds`, with the option `profile` where
/// the backend has one.
MeasuredModel measure_model(const std::string& path, const ModelOptions& options,
                            const InputOptions& inputs, const std::string& backend, double seconds);

}  // namespace tenon::cli
