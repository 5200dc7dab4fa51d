// Exit statuses of the `tenon` program.
#pragma once

#include <tenon/error.h>

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tenon::cli {

enum class ExitStatus : int {
  done = 0,
  check_failed = 1,
  usage = 2,
  bad_file = 3,
  plugin = 4,
  unsupported = 5,
  internal = 6,
  interrupted = 130,
};

/// What the statuses mean, for the manual page.
struct ExitMeaning {
  ExitStatus status;
  std::string_view meaning;
};
std::span<const ExitMeaning> exit_meanings();

/// What a child of this program failed with, when this program fails with it: the status, and what
/// the child wrote.
struct ChildFailure : std::runtime_error {
  ChildFailure(int ended_with, const std::string& log)
      : std::runtime_error(log), status(ended_with) {}
  int status;
};

/// The status that an error ends the program with.
ExitStatus exit_status_of(const Error& error);

}  // namespace tenon::cli
