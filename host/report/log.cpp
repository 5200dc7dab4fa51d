// The only file that sees the logging library: sinks, and what is written to them.
#include "report/log.h"

#include "config/config.h"
#include "core/error.h"
#include "core/threads/cancellation_off.h"
#include "core/threads/once.h"
#include "core/threads/thread_pool.h"
#include "core/utf8.h"
#include "report/log_names.h"
#include "report/without_sigpipe.h"

#include <pthread.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <tenon/thread_object.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

namespace tenon::report {

namespace {

using SinkPtr = std::shared_ptr<spdlog::sinks::sink>;

// What the flags of this thread say. Components that TENON_LOGS does not name have the level.
struct Settings {
  uint64_t serial = 0;
  LogLevel level = LogLevel::warning;
  LogLevel highest = LogLevel::warning;
  std::map<std::string, LogLevel, std::less<>> levels;
  std::set<std::string, std::less<>> artifacts;
  std::string out;
  std::string copy;
};

struct State {
  std::mutex sinks_mutex;
  std::map<std::string, SinkPtr> sinks;  // by path; stderr under ""
  std::vector<std::shared_ptr<std::vector<std::string>>> captures;
  std::set<std::string, std::less<>> warned;
};

State& state() {
  static State& state = *new State();
  // A child must not find it locked by a thread that it lacks.
  [[maybe_unused]] static const int registered =
      ::pthread_atfork([] { state.sinks_mutex.lock(); }, [] { state.sinks_mutex.unlock(); },
                       [] { state.sinks_mutex.unlock(); });
  return state;
}

LogLevel level_of(std::string_view name) {
  for (LogLevel level : {LogLevel::off, LogLevel::error, LogLevel::warning, LogLevel::info,
                         LogLevel::debug, LogLevel::trace}) {
    if (name_of(level) == name) return level;
  }
  return LogLevel::warning;
}

void write(const Settings& settings, LogLevel level, std::string_view component,
           std::string_view text);

// A component at level debug asks for its artifacts, too.
void add_component(Settings& settings, const LogComponent& component, LogLevel level) {
  for (std::string& part : config::split(component.parts, ' ')) settings.levels[part] = level;
  if (level != LogLevel::debug) return;
  for (const LogArtifact& artifact : log_artifacts())
    if (artifact.component == component.name) settings.artifacts.emplace(artifact.name);
}

// Once in a process: each thread reads the names, and reads them again after each change of flags.
void write_first(const Settings& settings, LogLevel level, const std::string& key,
                 const std::string& text) {
  {
    std::lock_guard lock(state().sinks_mutex);
    if (!state().warned.emplace(key).second) return;
  }
  write(settings, level, "report", text);
}

void add_name(Settings& settings, std::string_view item) {
  char sign = item.starts_with('+') || item.starts_with('-') ? item[0] : ' ';
  std::string name(sign == ' ' ? item : item.substr(1));
  LogLevel level = sign == '+' ? LogLevel::debug : sign == '-' ? LogLevel::error : LogLevel::info;
  const LogComponent* component = find_log_component(name);
  const LogArtifact* artifact = find_log_artifact(name);
  if (name == "all")
    settings.level = level;
  else if (name.starts_with("plugin."))
    settings.levels[name] = level;
  else if (name == "help")
    write_first(settings, LogLevel::info, "help", log_help());
  else if (!component && !artifact)
    write_first(settings, LogLevel::warning, "logs " + name,
                message("logging.logs: {}", unknown_log(name)));
  if (component) add_component(settings, *component, level);
  if (artifact && sign != '-') settings.artifacts.insert(name);
}

Settings read_settings(const config::Flags& flags) {
  Settings settings;
  settings.serial = flags.serial;
  settings.level = level_of(flags.logging.level.text());
  settings.out = flags.logging.out;
  settings.copy = flags.dynamo.log_file_name;
  for (const std::string& item : flags.logging.logs) add_name(settings, item);
  settings.highest = settings.level;
  for (const auto& [name, level] : settings.levels)
    settings.highest = std::max(settings.highest, level);
  return settings;
}

void send_config_warnings() {
  static Once once;
  once.run([] {
    config::set_warning_sink(
        [](std::string_view text) { log_line(LogLevel::warning, "config", text); });
  });
}

// With files of flags that cannot be read, the defaults serve: the error reaches the user by the
// call that needs the flags.
const Settings& settings() {
  Settings& current = ThreadObject<Settings>::get();  // also while the process ends
  try {
    send_config_warnings();
    const config::Flags& flags = config::flags();
    if (flags.serial != current.serial) current = read_settings(flags);
  } catch (const std::exception&) {
    current = {};
  }
  return current;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::trace:
      return spdlog::level::trace;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

SinkPtr make_sink(const std::string& path) {
  if (!path.empty()) {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: [%n] %v");
    return file;
  }
  auto mode = std::getenv("NO_COLOR") ? spdlog::color_mode::never : spdlog::color_mode::automatic;
  auto terminal = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(mode);
  terminal->set_pattern("%^tenon %l:%$ [%n] %v");
  return terminal;
}

// Files are made at the first line; where that fails, lines go to stderr.
SinkPtr sink(const std::string& path, const char* flag) {
  auto [entry, is_new] = state().sinks.emplace(path, nullptr);
  if (!is_new) return entry->second;
  try {
    entry->second = make_sink(path);
  } catch (const spdlog::spdlog_ex& error) {
    std::string why = message("{}: {}; its lines go to stderr", flag, shown(error.what()));
    std::fprintf(stderr, "tenon warning: [report] %s\n", why.c_str());
    entry->second = sink("", flag);
  }
  return entry->second;
}

void write(const Settings& settings, LogLevel level, std::string_view component,
           std::string_view untrusted_text) {
  std::string text = shown(untrusted_text);
  spdlog::details::log_msg line({component.data(), component.size()}, to_spdlog(level),
                                {text.data(), text.size()});
  const CancellationOff until_written;
  const WithoutSigpipe scope;
  std::lock_guard lock(state().sinks_mutex);
  SinkPtr first = sink(settings.out, "logging.out");
  SinkPtr second = settings.copy.empty() ? nullptr : sink(settings.copy, "dynamo.log_file_name");
  if (second == first) second = nullptr;  // both flags name one file, or stderr stands for one
  for (const SinkPtr& target : {first, second}) {
    if (!target) continue;
    target->log(line);
    target->flush();
  }
  for (const auto& capture : state().captures)
    capture->push_back(message("{}: [{}] {}", name_of(level), component, text));
}

}  // namespace

std::string_view name_of(LogLevel level) {
  constexpr std::string_view names[] = {"off", "error", "warning", "info", "debug", "trace"};
  return names[static_cast<size_t>(level)];
}

// Where there is no memory to read the flags with, nothing is said.
void guard_forks() { state(); }

bool log_enabled(LogLevel level, std::string_view component) noexcept try {
  const Settings& now = settings();
  if (level > now.highest || level == LogLevel::off) return false;
  auto found = now.levels.find(component);
  if (found == now.levels.end() && component.starts_with("plugin."))
    found = now.levels.find(std::string_view("plugin."));
  return level <= (found == now.levels.end() ? now.level : found->second);
} catch (const std::exception&) {
  return false;
}

// A full disk or a lost terminal must not end the program: such a line is lost.
void log_line(LogLevel level, std::string_view component, std::string_view text) noexcept try {
  if (log_enabled(level, component)) write(settings(), level, component, text);
} catch (const std::exception&) {
  return;
}

bool artifact_enabled(std::string_view artifact) noexcept try {
  const Settings& now = settings();
  return !now.artifacts.empty() && now.artifacts.contains(artifact);
} catch (const std::exception&) {
  return false;
}

void log_artifact(std::string_view artifact, std::string_view text) noexcept try {
  if (artifact_enabled(artifact)) write(settings(), LogLevel::info, artifact, text);
} catch (const std::exception&) {
  return;
}

bool warn_once(std::string_view key, std::string_view component, std::string_view text) noexcept {
  try {
    std::lock_guard lock(state().sinks_mutex);
    if (!state().warned.emplace(key).second) return false;
  } catch (const std::exception&) {
    // Without memory for the key the line is said again.
  }
  log_line(LogLevel::warning, component, text);
  return true;
}

void forget_warnings() noexcept {
  std::lock_guard lock(state().sinks_mutex);
  state().warned.clear();
}

// Said by the pool, which sees no log.
static const struct FillSlots {
  FillSlots() {
    fewer_threads_slot = [](int wanted, int got) noexcept {
      char text[160];
      int n = std::snprintf(text, sizeof text,
                            "the system gives no more threads: kernels run on %d of %d; "
                            "set_num_threads() or compiler.threads tries again",
                            got, wanted);
      warn_once("threads", "report", {text, static_cast<size_t>(n)});
    };
  }
} fill_slots;

LogCapture::LogCapture() : lines_(std::make_shared<std::vector<std::string>>()) {
  std::lock_guard lock(state().sinks_mutex);
  state().captures.push_back(lines_);
}

LogCapture::~LogCapture() {
  std::lock_guard lock(state().sinks_mutex);
  std::erase(state().captures, lines_);
}

std::vector<std::string> LogCapture::lines() const {
  std::lock_guard lock(state().sinks_mutex);
  return *lines_;
}

size_t LogCapture::count(std::string_view text) const {
  std::lock_guard lock(state().sinks_mutex);
  return static_cast<size_t>(
      std::count_if(lines_->begin(), lines_->end(),
                    [&](const std::string& line) { return line.find(text) != std::string::npos; }));
}

}  // namespace tenon::report
