// Records of compilations: times of their phases, sizes, outcome. The newest 64 stay in memory.
//
//   CompileWatch watch("3/0", "callable f");       // the compilation of this thread
//   { PhaseScope phase("trace"); ... }             // phases nest
//   watch.finish("compiled");
//
// Flags: dynamo.log_compilation_metrics keeps the records and writes them to
// <dynamo.debug_dir_root>/metrics.jsonl where that folder exists, and to the log artifact
// `metrics`; dynamo.cprofile writes the phases as a Chrome trace.
//
// Threads: a watch belongs to its thread; compile_records() may be called from any.
#pragma once

#include "report/events.h"
#include "report/unit.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::report {

struct CompilePhase {
  std::string_view name;
  int64_t begin_us = 0, end_us = 0;  ///< since the compilation began
  int depth = 0;
};

struct CompileRecord {
  std::string id;       ///< "3/0": site and attempt
  std::string site;     ///< name of the callable
  std::string backend;  ///< the last one that was asked
  std::string outcome;  ///< compiled, replays, or the error
  std::string cache;    ///< hit, miss, or why the cache on disk was not asked; empty: switched off
  std::vector<CompilePhase> phases;
  size_t n_ops = 0, n_guards = 0, n_symbols = 0, n_entries = 0;
};

/// As one JSON object; times in ms by phase.
std::string to_json(const CompileRecord& record);
/// The newest records, oldest first.
std::vector<CompileRecord> compile_records();
void forget_compile_records();

class CompileWatch {
 public:
  CompileWatch(std::string id, std::string site);
  /// Keeps the record; a watch that was not finished failed with the exception in flight.
  ~CompileWatch();
  CompileWatch(const CompileWatch&) = delete;
  CompileWatch& operator=(const CompileWatch&) = delete;

  void finish(std::string_view outcome) {
    record_.outcome = outcome;
    counter("frames.ok").add();
  }
  CompileRecord& record() { return record_; }
  /// Of this thread, or null.
  static CompileWatch* current();

 private:
  friend class PhaseScope;
  void write_profile() const;

  TimeScope time_;
  CompileRecord record_;
  CompileWatch* outer_;
  int64_t begun_us_;
  int depth_ = 0;
};

/// A phase of this thread's compilation and an event of the trace. `name` must live for ever.
class [[nodiscard]] PhaseScope {
 public:
  explicit PhaseScope(std::string_view name);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  TimeScope time_;
  CompileWatch* watch_;
  size_t index_ = 0;
  Span span_;
};

/// The phase that began last and goes on, on any thread; empty: none. For a line that tells what
/// takes so long.
std::string_view newest_phase();

}  // namespace tenon::report
