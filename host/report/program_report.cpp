// When the page of a program is written, and what is told of the process.
#include "report/program_report.h"

#include "config/config.h"
#include "core/error.h"
#include "report/events.h"
#include "report/log.h"

#include <sys/resource.h>
#include <tenon/report.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace tenon::report {

void (*write_file_slot)(const std::string& path, std::string_view text) = nullptr;

namespace {

using Clock = std::chrono::steady_clock;

/// Set once, when the process first asks.
struct Wanted {
  std::string file;
  ::pid_t process = ::getpid();
  Clock::time_point begin = Clock::now();
};

// Of the process that writes; a forked one gets a name of its own.
std::string name_for(const Wanted& wanted) {
  std::string name = wanted.file, number = std::to_string(::getpid());
  bool has_number = false;
  for (size_t at = 0; (at = name.find("%p", at)) != name.npos; at += number.size()) {
    name.replace(at, 2, number);
    has_number = true;
  }
  if (has_number || ::getpid() == wanted.process) return name;
  size_t slash = name.rfind('/'), point = name.rfind('.');
  bool has_extension = point != name.npos && (slash == name.npos || point > slash + 1);
  return name.insert(has_extension ? point : name.size(), "." + number);
}

const Wanted* wanted();

void write_at_exit() {
  std::string name = name_for(*wanted());
  try {
    write_program_report(name);
  } catch (const std::exception& error) {
    log_line(LogLevel::warning, "report", message("no report is written: {}", error.what()));
  }
}

// Null where the flag is not set, or where flags cannot be read: that is for others to say.
const Wanted* read_flag() try {
  const std::string& file = config::flags().logging.report;
  if (file.empty()) return nullptr;
  static_cast<void>(std::atexit(&write_at_exit));
  return new Wanted{.file = file};
} catch (const std::exception&) {
  return nullptr;
}

const Wanted* wanted() {
  static const Wanted* const wanted = read_flag();
  return wanted;
}

// The arguments of this process, with spaces between them.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (text.ends_with('\0')) text.pop_back();
  for (char& c : text)
    if (c == '\0') c = ' ';
  constexpr size_t most = 500;
  return text.size() > most ? text.substr(0, most) + " ..." : text;
}

double seconds(const ::timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

}  // namespace

bool report_wanted() noexcept { return wanted() != nullptr; }

double seconds_of_report() {
  const Wanted* since = wanted();
  return since ? std::chrono::duration<double>(Clock::now() - since->begin).count() : 0;
}

ProgramFacts program_facts() {
  ProgramFacts out;
  ::rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  out.command = command_line();
  out.wall_s = seconds_of_report();
  out.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
  out.peak_bytes = int64_t{used.ru_maxrss} * 1024;
  out.units = all_units();
  for (const config::FlagInfo& flag : config::list())
    if (flag.source.layer != "default")
      out.flags.push_back(
          {flag.key, config::value_text(flag.value), flag.source.layer, flag.source.origin});
  out.counters = counters();
  return out;
}

void write_program_report(const std::string& file) {
  require(report_wanted(),
          "{}: nothing was collected for a report; set TENON_REPORT or the flag logging.report "
          "before the first callable, model or backward pass is compiled",
          file);
  write_file_slot(file, program_page(program_facts()));
}

}  // namespace tenon::report

namespace tenon {

void write_report(const std::string& file) { report::write_program_report(file); }

}  // namespace tenon
