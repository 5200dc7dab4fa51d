// Many mutants of one format, run in child processes: what ends one ends only its batch.
#pragma once

#include "mutants/mutant.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::fuzz {

/// Which mutants: those that the seeds `first`, `first + 1`, ... of the choices make.
struct Batch {
  const Format* format;
  std::vector<std::string> files;  ///< what mutants are made of
  uint32_t first = 0, count = 0;
  std::string findings;  ///< a folder; inputs that are found are written there
};

struct Outcome {
  uint32_t run = 0, found = 0;
  int64_t most_growth = 0;                 ///< of memory while one ran, in bytes
  std::map<std::string, uint64_t> counts;  ///< see count() in fuzz.h
};

/// Runs them all, in children of some hundred. Each finding is told on stderr: the mutant's number
/// and what went wrong.
Outcome run(const Batch& batch);

}  // namespace tenon::fuzz
