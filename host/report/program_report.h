// The report of a program, one HTML page: flag logging.report (TENON_REPORT=file.html).
//
// Units (unit.h) collect what it tells while the program runs. The page is written when the process
// ends by exit() or by returning from main(), and whenever write_report() of <tenon/report.h> is
// called; `%p` in the name of the file stands for the number of the process. A process that was
// forked writes a page of its own, with its number in the name.
//
// Threads: all functions may be called from any thread.
#pragma once

#include "report/unit.h"

#include <string>

namespace tenon::report {

/// Whether the flag was set when this was first asked. One load after that.
bool report_wanted() noexcept;
/// Since the process first asked.
double seconds_of_report();

/// What is told of the process, besides its units.
struct ProgramFacts {
  std::string command;  ///< as it was given
  double wall_s = 0, cpu_s = 0;
  int64_t peak_bytes = 0;
  std::vector<UnitFacts> units;
  std::vector<std::vector<std::string>> flags;  ///< those that are not default: key, value, layer
  std::map<std::string, int64_t> counters;
};
ProgramFacts program_facts();

/// Writes what is known so far; throws UserError unless a report is wanted.
void write_program_report(const std::string& file);
/// Writes a file at once; filled in by formats/write_file.cpp.
extern void (*write_file_slot)(const std::string& path, std::string_view text);

/// The page. Equal facts give equal pages.
std::string program_page(const ProgramFacts& facts);

}  // namespace tenon::report
