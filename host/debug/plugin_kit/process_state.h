// What a plugin must leave alone in the process that it is loaded into.
#pragma once

#include <string>
#include <vector>

namespace tenon::kit {

/// Signal handlers, floating-point environment, locale, working directory, affinity, threads.
class ProcessState {
 public:
  /// Of this process and thread, as it is now.
  static ProcessState now();
  /// What differs in `after`, in words; empty when nothing does. Threads count only where asked
  /// for.
  std::string change_to(const ProcessState& after, bool with_threads) const;

 private:
  std::vector<std::string> handlers_;  // by signal number
  std::string floating_point_, locale_, folder_, affinity_;
  size_t threads_ = 0;
};

}  // namespace tenon::kit
