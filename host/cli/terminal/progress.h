// A line on the terminal while a verb works longer than a second.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tenon::cli {

/// "tenon run: compile, 3 s" on stderr, with the phase of compiling that goes on, from the second
/// second on; rewritten each second and gone with the object, or when something else is written.
/// Nothing where stderr is no terminal, or where it is not wanted. One at a time.
class ProgressLine {
 public:
  ProgressLine(std::string verb, bool is_wanted);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;

 private:
  void run();

  std::string verb_;
  std::mutex ending_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread teller_;
};

/// Takes the line away before something else is written. Without locks: a forked child may call it.
void clear_progress();

}  // namespace tenon::cli
