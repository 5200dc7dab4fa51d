// The `tenon` program: finds the verb, parses its options, runs it, turns errors into statuses.
#include "backend/backend.h"
#include "backend/catalog.h"
#include "backend/life/crash_report.h"
#include "cli/exit_status.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "cli/repro.h"
#include "cli/terminal/progress.h"
#include "config/config.h"
#include "core/error.h"
#include "core/threads/thread_pool.h"
#include "core/unfinished.h"
#include "core/version.h"
#include "debug/child_process.h"
#include "report/log.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

namespace tenon::cli {

namespace {

using Arguments = std::vector<std::string>;

bool is_child = false;  // started by this program

std::string overview() {
  std::string out =
      "usage: tenon VERB [ARGUMENTS] [OPTIONS]\n\nCompiles and runs models; see the docs.\n\n";
  for (const Verb* verb : verbs()) {
    if (verb->hidden) continue;
    std::string name(verb->name);
    name.resize(12, ' ');
    out += "  " + name + " " + std::string(verb->summary) + "\n";
  }
  return out + "\n`tenon VERB --help` lists the options of a verb and shows an example.\n";
}

std::string unknown_verb(const std::string& name) {
  std::vector<std::string> known;
  for (const Verb* verb : verbs())
    if (!verb->hidden) known.emplace_back(verb->name);
  return message("there is no verb '{}'; the nearest are {}; see tenon --help", name,
                 nearest_names(name, known));
}

Arguments split_folders(const Arguments& values) {
  Arguments out;
  for (const std::string& value : values)
    for (const std::string& folder : config::split(value, ':'))
      if (!folder.empty()) out.push_back(folder);
  return out;
}

// A file that somebody names is meant: one that cannot be used is an error, not a file fewer.
void search_plugins(const Globals& globals, bool also_broken) {
  for (const std::string& file : globals.plugins)
    require(!file.empty(), "--plugin: expected the name of a file, found an empty one");
  set_plugin_search(globals.plugins, split_folders(globals.plugin_path));
  if (!globals.plugins.empty() && !also_broken) require_named_plugins();
}

void apply(const Globals& globals, const Verb& verb) {
  set_color(globals.color);
  if (!globals.config_file.empty()) config::use_file(globals.config_file);
  if (globals.quiet) config::set_from_command_line("logging.level=error");
  if (globals.verbose > 0)
    config::set_from_command_line(globals.verbose > 1 ? "logging.level=debug"
                                                      : "logging.level=info");
  if (globals.threads > 0)
    config::set_from_command_line("compiler.threads=" + std::to_string(globals.threads));
  for (const std::string& setting : globals.settings) config::set_from_command_line(setting);
  search_plugins(globals, verb.judges_plugins);
  config::require_all_known();
  // A name that logging.logs does not take is told now, not at the first line.
  static_cast<void>(report::log_enabled(report::LogLevel::error, "cli"));
  if (int64_t threads = config::flags().compiler.threads; threads > 0)
    set_num_threads(static_cast<int>(std::min<int64_t>(threads, max_threads)));
}

int fail_usage(const std::string& text) {
  print_message(text);
  return static_cast<int>(ExitStatus::usage);
}

int run_verb(const Verb& verb, Arguments arguments) {
  Globals globals;
  Action action;
  ReadLine line = read_line(verb, options_of(verb, globals, action), std::move(arguments));
  if (!line.help.empty()) return print(line.help), 0;
  if (!line.problem.empty()) return fail_usage(line.problem);
  if (verb.reads_flags) apply(globals, verb);
  // The terminal of a program that is traced is its own; a child leaves the line to its parent.
  bool has_terminal = verb.name != "trace" && !is_child;
  ProgressLine progress(message("tenon {}", verb.name), has_terminal && !globals.quiet);
  return action(globals);
}

int run_line(const Arguments& arguments) {
  if (arguments.empty()) {
    std::fputs(overview().c_str(), stderr);
    return static_cast<int>(ExitStatus::usage);
  }
  // Options of every verb may stand in front of it, those with a value as --name=value.
  auto at = std::find_if(arguments.begin(), arguments.end(),
                         [](const std::string& a) { return !a.starts_with('-'); });
  for (auto it = arguments.begin(); it != at; ++it) {
    if (*it == "--version") return print(message("tenon {}\n", version)), 0;
    if (*it == "--help" || *it == "-h") return print(overview()), 0;
  }
  if (at == arguments.end())
    return fail_usage(message("expected a verb, found only {}; see tenon --help", arguments[0]));
  if (*at == "help") {
    if (at + 1 == arguments.end()) return print(overview()), 0;
    const Verb* verb = find_verb(at[1]);
    return verb ? run_verb(*verb, {"--help"}) : fail_usage(unknown_verb(at[1]));
  }
  const Verb* verb = find_verb(*at);
  if (!verb) return fail_usage(unknown_verb(*at));
  Arguments rest(arguments.begin(), at);
  rest.insert(rest.end(), at + 1, arguments.end());
  return run_verb(*verb, std::move(rest));
}

int fail_internally(const Arguments& arguments, const char* what) {
  print_message(what);
  std::string folder = write_repro(arguments, what);
  if (!folder.empty()) print_message("what it takes to see this again is in " + folder);
  return static_cast<int>(ExitStatus::internal);
}

int run_caught(const Arguments& arguments) {
  try {
    return run_line(arguments);
  } catch (const Error& error) {
    ExitStatus status = exit_status_of(error);
    if (status == ExitStatus::internal) return fail_internally(arguments, error.what());
    print_message(error.what());
    return static_cast<int>(status);
  } catch (const ChildFailure& failure) {
    print_message(failure.what());
    return failure.status;
  } catch (const std::bad_alloc&) {
    print_message("there is not enough memory for this");
    return static_cast<int>(ExitStatus::unsupported);
  } catch (const std::exception& error) {
    return fail_internally(arguments, error.what());
  } catch (...) {
    return fail_internally(arguments, "an exception of an unknown kind");
  }
}

// Threads of kernels may be at work: nothing is torn down but what would stay on the disk.
extern "C" void on_interrupt(int) {
  remove_unfinished();
  static constexpr char text[] = "tenon: interrupted\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  _exit(static_cast<int>(ExitStatus::interrupted));
}

extern "C" void on_request_to_end(int signal) {
  remove_unfinished();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

int finish(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  print_message("stdout: cannot be written; is the disk full?");
  return static_cast<int>(ExitStatus::bad_file);
}

}  // namespace

}  // namespace tenon::cli

int main(int argc, char** argv) {
  std::signal(SIGINT, tenon::cli::on_interrupt);
  for (int signal : {SIGTERM, SIGHUP})
    if (std::signal(signal, tenon::cli::on_request_to_end) == SIG_IGN)
      std::signal(signal, SIG_IGN);  // as nohup wants it
  std::signal(SIGXFSZ, SIG_IGN);     // a file over `ulimit -f`: an error of that file's writing
  tenon::cli::is_child = tenon::end_with_parent();
  tenon::report_crashes();
  try {
    return tenon::cli::finish(tenon::cli::run_caught({argv + std::min(argc, 1), argv + argc}));
  } catch (const std::bad_alloc&) {
    return static_cast<int>(tenon::cli::ExitStatus::unsupported);
  } catch (...) {
    return static_cast<int>(tenon::cli::ExitStatus::internal);
  }
}
