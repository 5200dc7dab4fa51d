// Compile times as a new process has them: with an empty disk cache, and with the one that the
// first process left.
#pragma once

#include "cli/model_options.h"

#include <cstdint>
#include <string>

namespace tenon::cli {

struct Start {
  double compile_ms = 0;
  uint64_t peak_bytes = 0;  ///< most memory of the process, after one call
};
struct Starts {
  Start cold, warm;
};

/// Both, each in a child process. Throws UserError where a child fails, with what it said.
Starts measure_starts(const std::string& path, const std::string& backend,
                      const InputOptions& inputs, const ModelOptions& options,
                      const Globals& globals);

}  // namespace tenon::cli
