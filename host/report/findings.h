// What stands out in the facts of a program, in sentences that end with what to do.
#pragma once

#include "report/program_report.h"

namespace tenon::report {

/// The time of some kinds of work together, in ns.
int64_t compile_ns(const UnitFacts& unit);
int64_t code_ns(const UnitFacts& unit);
int64_t total_ns(const UnitFacts& unit);
inline const WorkTime& time_of(const UnitFacts& unit, Work work) {
  return unit.times[static_cast<size_t>(work)];
}

/// "850 ns", "12.3 ms".
std::string time_text(int64_t ns);

/// "1 call", "2 calls".
std::string plural(int64_t n, std::string_view what);

struct Finding {
  std::string text;
  bool warns = false;
  int64_t ns = 0;  ///< that it is about; the costliest come first
};
std::vector<Finding> findings(const ProgramFacts& facts);

}  // namespace tenon::report
