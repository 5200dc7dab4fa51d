// Running this program again in a child process, so that a crash there is a result here.
#pragma once

#include <sys/types.h>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// A file of ours that the child gets under another number.
struct ChildFile {
  int ours, theirs;
};

/// Starts this program with `arguments`, the first of which is its name. Throws UserError.
/// `environment`: NAME=value, in the place of what this process has.
pid_t start_self(const std::vector<std::string>& arguments, std::span<const ChildFile> files,
                 const std::vector<std::string>& environment = {});
/// In the program that start_self() started: from now on it is killed when its parent ends, in
/// whatever way. Nothing anywhere else. Tells whether this is such a program.
bool end_with_parent();
/// Waits for its end and gives the status of waitpid.
int wait_for(pid_t child);

/// What a child wrote to stdout, and the status of waitpid.
struct ChildOutput {
  std::string text;
  int status = 0;
};
/// Runs this program until it ends. Throws UserError where it cannot be started.
ChildOutput output_of_self(const std::vector<std::string>& arguments);

/// How a child ended.
struct ChildEnd {
  int exit_status = 0;
  int signal = 0;  ///< that ended it; 0: none
  bool timed_out = false;
  std::string log;  ///< the end of what it wrote to stdout and stderr
};

/// The file number on which a watched child writes its lines.
inline constexpr int child_lines_file = 3;

/// Runs this program until it ends, or until it has written no line for `limit_s` seconds: then it
/// is killed. `on_line` gets each line of the file child_lines_file, while the child runs.
ChildEnd watch_self(const std::vector<std::string>& arguments, double limit_s,
                    const std::function<void(std::string_view line)>& on_line,
                    const std::vector<std::string>& environment = {});

}  // namespace tenon
