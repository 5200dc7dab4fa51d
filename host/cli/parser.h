// The command line of a verb: what it may hold, as data, and reading it.
#pragma once

#include "cli/verb.h"

#include <string>
#include <vector>

namespace tenon::cli {

/// What the verb takes, with the options of every verb. `globals` and `action` outlive it.
Options options_of(const Verb& verb, Globals& globals, Action& action);

/// "-o" and "--output" of "-o,--output"; nothing for an argument by place.
std::vector<std::string> dashed_names(const Option& option);

/// At most one of them is not empty.
struct ReadLine {
  std::string help;     ///< what --help asked for
  std::string problem;  ///< a usage error
};
/// Reads the words behind the verb into the targets of its options.
ReadLine read_line(const Verb& verb, const Options& options, std::vector<std::string> words);

}  // namespace tenon::cli
