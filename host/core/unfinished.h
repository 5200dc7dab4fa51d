// Files and folders that must not outlive the process when it is interrupted.
#pragma once

#include <string>

namespace tenon {

/// Remembers a path while it lives. Removing it in the ordinary course is the owner's. What does
/// not fit into the list (16 at a time, 4095 bytes each) is not remembered. Threads: any.
class Unfinished {
 public:
  explicit Unfinished(const std::string& path) noexcept;
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  int place_;  ///< -1: none
};

/// Removes what is remembered. For a handler of a signal after which the process ends.
void remove_unfinished() noexcept;

}  // namespace tenon
