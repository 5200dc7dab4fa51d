// What programs ask reports for: counters, and which log lines are written.
#include "config/flag_def.h"
#include "core/error.h"
#include "report/events.h"
#include "report/log_names.h"

#include <tenon/report.h>

#include <algorithm>

namespace tenon {

namespace {

// The settings, each with a name that there is.
std::vector<std::string> checked_names(std::string_view what, std::string_view names) {
  std::vector<std::string> settings, known = log_names();
  for (std::string& item : config::split(names, ',')) {
    bool has_sign = item.starts_with('+') || item.starts_with('-');
    std::string name = has_sign ? item.substr(1) : item;
    bool is_known = std::ranges::find(known, name) != known.end() || name.starts_with("plugin.");
    require(is_known, ErrorCode::config, "{}: {}", what, report::unknown_log(name));
    settings.push_back(std::move(item));
  }
  return settings;
}

}  // namespace

std::map<std::string, int64_t> counters() { return report::counters(); }
void reset_counters() { report::reset_counters(); }

std::vector<std::string> log_names() {
  std::vector<std::string> names = {"all", "help"};
  for (const auto& row : report::log_components()) names.emplace_back(row.name);
  for (const auto& row : report::log_artifacts()) names.emplace_back(row.name);
  std::ranges::sort(names);
  auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

void set_logs(std::string_view names) {
  std::vector<std::string> settings = checked_names("set_logs", names);
  if (settings.empty())
    config::unset("logging.logs");
  else
    config::set("logging.logs", std::move(settings));
}

LogScope::LogScope(std::string_view names)
    : patch_({{"logging.logs", checked_names("LogScope", names)}}) {}

}  // namespace tenon
