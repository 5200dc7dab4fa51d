// SPDX-License-Identifier: Apache-2.0
// What happened: counters, events for the program, and which log lines are written.
//
//     auto watch = tenon::compiler::on_event([](const tenon::compiler::Event& e) {
//       if (e.kind == tenon::compiler::EventKind::limit) alert(e.callable, e.text);
//     });
//     auto logs = tenon::LogScope("recompiles,graph_breaks");
//     ...
//     int64_t n = tenon::counters()["recompiles[step]"];
//
// Threads: all functions may be called from any thread.
#pragma once

#include <tenon/config.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// What this process has done since it began, or since reset(); those that are zero are left out.
/// Names are `what.detail`, or `what[which]`; docs/compile.md lists them.
TENON_API std::map<std::string, int64_t> counters();
/// Sets all of them to zero.
TENON_API void reset_counters();

/// Writes these log lines from now on, in the whole process: components and artifacts with commas
/// between them, as in TENON_LOGS ("+dynamic,recompiles,-aot"). Empty: what TENON_LOGS and the files
/// of flags say. Throws UserError ConfigError for a name that there is not.
TENON_API void set_logs(std::string_view names);
/// The names that set_logs takes, sorted.
TENON_API std::vector<std::string> log_names();
/// While one lives, its thread and what the runtime starts for it write these log lines.
class TENON_API LogScope {
 public:
  explicit LogScope(std::string_view names);

 private:
  config::Patch patch_;
};

/// Writes what the process has compiled and run so far as one HTML page, see docs/report.md: where
/// the time went, why callables were compiled again, where graphs break, what was fused, what is
/// saved for the backward, what ran eagerly. Throws UserError where nothing is collected, since
/// TENON_REPORT (flag logging.report) was not set when the first callable was made, and where the
/// file cannot be written.
TENON_API void write_report(const std::string& file);

namespace compiler {

enum class EventKind : uint8_t {
  recompile,    ///< no version serves a call; the text says why
  graph_break,  ///< a body is recorded and its graph breaks; the text says what needs data, and where
  fallback,     ///< a call runs the callable as it is; the text says why
  limit         ///< no more versions are compiled; the text names the limit
};
TENON_API std::string_view name_of(EventKind kind);

struct Event {
  EventKind kind;
  std::string callable;  ///< Options::name, or "number N"
  std::string text;
};
using EventListener = std::function<void(const Event&)>;

/// Calls `listener` for each event until the result and its copies are gone: on the thread of the
/// call that the event is about, several at once if there are several. What the listener does is not
/// recorded and is no event itself; it may use the whole API. What it throws is logged, and the call
/// goes on. A listener that runs while it is removed on another thread ends as it began. Throws
/// UserError for an empty one.
[[nodiscard]] TENON_API std::shared_ptr<void> on_event(EventListener listener);

using tenon::counters;
using tenon::set_logs;

}  // namespace compiler

using compiler::on_event;

}  // namespace tenon
