// What came of functions: counters, skips by reason, and their report.
#pragma once

#include "recording.h"

#include <atomic>
#include <map>
#include <string>

namespace tenon::cuda::trees {

/// Counters of one function. Threads: any.
class Statistics {
 public:
  std::atomic<uint64_t> warm_ups{0}, recordings{0}, replays{0};
  void add_direct(const Reason& why);
  void add_rerecord(const std::string& why);
  /// Whether this was not said before.
  bool is_first(const Reason& why);
  /// "direct": {...}, "rerecords": {...}
  std::string to_json() const;

 private:
  mutable std::mutex counting_;  // guards what follows
  std::map<std::string, uint64_t> direct_, rerecords_;
  std::map<std::string, std::string> said_;
};

/// Counts a graph that is not recorded, and logs it once a graph and reason.
void note_skip(const std::string& function, const Reason& why, const std::string& node,
               const std::string& source);
/// {"reason": count, ...}
std::string skips_json();

std::string quoted(std::string_view text);

}  // namespace tenon::cuda::trees
