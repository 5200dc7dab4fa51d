// Log lines: levels, components, artifacts.
//
//   report::log(LogLevel::info, "capture", "{} compiled in {} ms", site, ms);
//
// The flags logging.level, logging.logs (TENON_LOGS) and logging.out decide what is written where.
// Artifacts are named extras ("recompiles", "graph_breaks", "guards"): they are written where
// TENON_LOGS names them, whatever the level. log_names.h has the rows of both.
//
// Threads: all functions may be called from any thread. None of them throws.
#pragma once

#include <tenon/error.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::report {

enum class LogLevel : uint8_t { off, error, warning, info, debug, trace };
std::string_view name_of(LogLevel level);

/// From here on a fork waits for those who write lines. At the first call, or the first line.
void guard_forks();

/// Whether a line of that level would be written. A few ns.
bool log_enabled(LogLevel level, std::string_view component) noexcept;
void log_line(LogLevel level, std::string_view component, std::string_view text) noexcept;

/// log_line() with the formatted message, which is made only if it is written.
template <class... Args>
void log(LogLevel level, std::string_view component, std::string_view pattern,
         const Args&... args) {
  if (log_enabled(level, component)) log_line(level, component, message(pattern, args...));
}

bool artifact_enabled(std::string_view artifact) noexcept;
/// Writes the artifact if TENON_LOGS asks for it.
void log_artifact(std::string_view artifact, std::string_view text) noexcept;

/// A warning the first time that `key` is seen in this process; true that time.
bool warn_once(std::string_view key, std::string_view component, std::string_view text) noexcept;
/// Makes warn_once() forget all keys.
void forget_warnings() noexcept;

/// Collects the lines of all threads while it lives, besides writing them. For tests and reports.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  /// "warning: [capture] text", oldest first.
  std::vector<std::string> lines() const;
  /// The number of lines that hold `text`.
  size_t count(std::string_view text) const;

 private:
  std::shared_ptr<std::vector<std::string>> lines_;
};

}  // namespace tenon::report
