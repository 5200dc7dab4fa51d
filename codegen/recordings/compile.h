// From a request to code that is recorded as far as it can be.
#pragma once

#include "recorded.h"

namespace recordings {

/// Thrown by a maker: the graph is not recorded.
struct Unrecorded {
  Skip why;
};

/// What a backend brings.
struct Compiling {
  Settings settings;
  Maker maker;
  DrawsThere draws_there;
};

/// What came of it: recordings, or why there are none, for explain and reports; nothing is said of
/// graphs that have nothing to record.
struct Outcome {
  std::unique_ptr<Recorded> recorded;
  std::string told;
};

/// Skips are logged and counted. Throws where a skip is an error by the settings.
Outcome compile(const tn_compile_request& request, Compiling how);

/// The statistics of code, a JSON object, with the lists `told` and `recorded` added.
std::string with_lists(std::string statistics, const std::vector<std::string>& told,
                       const std::vector<std::string>& recorded);

}  // namespace recordings
