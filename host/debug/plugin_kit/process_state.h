// What a plugin must leave alone in the process that it is loaded into.
#pragma once

#include <string>
#include <vector>

namespace tenon::kit {

/// Signal handlers, floating-point environment, locale, working directory, affinity, threads,
/// copies of the process.
class ProcessState {
 public:
  /// Of this process and thread, as it is now.
  static ProcessState now();
  /// What differs in `after`, in words; empty when nothing does. Threads and copies of the process
  /// count only where asked for.
  std::string change_to(const ProcessState& after, bool with_threads) const;

 private:
  std::vector<std::string> handlers_;  // by signal number
  std::string floating_point_, locale_, folder_, affinity_;
  size_t threads_ = 0;
  int forks_ = 0;
};

/// Keeps what is written to stdout while it lives out of it, and counts it.
class StdoutWatch {
 public:
  StdoutWatch();
  ~StdoutWatch();
  StdoutWatch(const StdoutWatch&) = delete;
  /// The beginning of what has been written, empty for nothing.
  std::string text() const;

 private:
  int kept_, file_;
};

}  // namespace tenon::kit
