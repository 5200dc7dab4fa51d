// Lines of the summary, for callables that are gone and for those that live until the end.
#include "runtime/summary.h"

#include "core/error.h"
#include "report/log.h"
#include "runtime/limits.h"

#include <cstdlib>
#include <mutex>

namespace tenon {

using detail::Site;

namespace {

struct Summary {
  std::mutex lines_lock;
  std::vector<std::string> lines;
  int64_t n_others = 0;
  CallStats others;
};
Summary& summary() {
  static Summary& summary = *new Summary();
  return summary;
}

bool is_remarkable(const CallStats& stats, const Site& site) {
  return site.limit_reported || stats.eager_calls > 0 || stats.graph_breaks > 0 ||
         site.suppressed_errors > 0;
}

std::string line_of(const CallStats& s, const Site& site) {
  std::string out =
      message("callable {}: {} calls, {} compiles", display_name(site), s.calls, s.compiles);
  if (site.limit_reported)
    out += message(", at its limit of recompiles ({} calls ran eagerly because of it)",
                   s.eager_calls_after_limit);
  if (int64_t n = s.eager_calls - s.eager_calls_after_limit; n > 0)
    out += message(", {} other eager calls", n);
  if (s.graph_breaks > 0) out += message(", {} graph breaks", s.graph_breaks);
  if (int64_t n = site.suppressed_errors; n > 0) out += message(", {} suppressed errors", n);
  return out;
}

void add_line(const Site& site) {
  constexpr size_t most_lines = 256;
  if (site.is_for_stance) return;  // counted with the callable's own
  CallStats stats = detail::site_stats(site);
  std::lock_guard lock(summary().lines_lock);
  if (is_remarkable(stats, site) && summary().lines.size() < most_lines)
    return summary().lines.push_back(line_of(stats, site));
  ++summary().n_others;
  summary().others += stats;
}

void write_summary() {
  if (!report::artifact_enabled("summary")) return;
  detail::each_site([](Site& site) { add_line(site); });
  for (const std::string& line : summary().lines) report::log_artifact("summary", line);
  const CallStats& s = summary().others;
  report::log_artifact(
      "summary", message("{} other callables: {} calls, {} compiles, {} eager calls, {} graph "
                         "breaks",
                         summary().n_others, s.calls, s.compiles, s.eager_calls, s.graph_breaks));
}

}  // namespace

void write_summary_at_exit() {
  static const int registered = std::atexit([] {
    try {
      write_summary();
    } catch (const std::exception&) {
      return;  // nobody is left to be told
    }
  });
  static_cast<void>(registered);
}

void keep_for_summary(const Site& site) noexcept try {
  if (report::artifact_enabled("summary")) add_line(site);
} catch (const std::exception&) {
  return;  // a line of a report is not worth an error
}

}  // namespace tenon
