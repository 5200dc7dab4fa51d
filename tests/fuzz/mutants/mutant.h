// The kinds of files whose mutants are run, and how one is made.
#pragma once

#include "harness/choices.h"
#include "harness/fuzz.h"

#include <string>
#include <string_view>

namespace tenon::fuzz {

/// What mutants are made of: files of a folder, as the targets take them.
struct Format {
  std::string_view name;     ///< "pt2"
  std::string_view targets;  ///< that a mutant is given to, by name, with a blank between
  std::string (*mutate)(std::string_view seed, Choices& choices);
};

/// Ends the program when there is none of that name.
const Format& find_format_of_mutants(std::string_view name);

}  // namespace tenon::fuzz
