// Running other programs.
#pragma once

#include <string>
#include <vector>

namespace tenon::cli {

/// Runs a program, which is looked for in PATH, until it ends. `environment`: NAME=value, in the
/// place of what this process has. Gives its exit status, 128 and the number of the signal that
/// ended it, or 127 where it cannot be started.
int run_child_program(std::vector<std::string> command,
                      const std::vector<std::string>& environment = {});

}  // namespace tenon::cli
