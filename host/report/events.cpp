// Counters by name, and the writer of event traces.
#include "report/events.h"

#include "config/config.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/threads/cancellation_off.h"
#include "core/threads/once.h"
#include "report/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <new>
#include <vector>

namespace tenon::report {

namespace detail {
constinit std::atomic<int> listening{-1};
}

namespace {

struct Counters {
  std::mutex names_mutex;
  std::map<std::string, Counter, std::less<>> by_name;
  std::map<std::string, std::map<std::string, int64_t, std::less<>>> families;
  std::vector<CounterSource> sources;
  std::map<std::string, int64_t> counted_before;  // what they had counted at the last reset
};

Counters& all_counters() {
  static Counters& counters = *new Counters();
  return counters;
}

std::chrono::steady_clock::time_point start_of_trace() {
  static const auto start = std::chrono::steady_clock::now();
  return start;
}

int64_t in_ns(std::chrono::steady_clock::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

int64_t now_ns() {
  auto start = start_of_trace();
  return in_ns(std::chrono::steady_clock::now() - start);
}

int64_t thread_number() {
  static std::atomic<int64_t> next{1};
  thread_local int64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

std::string arg_text(const EventArg& arg) {
  if (const auto* text = std::get_if<std::string_view>(&arg.value)) return json_text(*text);
  if (const auto* number = std::get_if<int64_t>(&arg.value)) return std::to_string(*number);
  double value = std::get<double>(arg.value);
  return std::isfinite(value) ? message("{}", value) : json_text(message("{}", value));
}

std::string args_text(const Event& event) {
  std::string out = "{";
  auto add = [&](std::string_view name, const std::string& value) {
    out += message("{}{}:{}", out.size() > 1 ? "," : "", json_text(name), value);
  };
  if (!event.id.empty()) add("id", json_text(event.id));
  for (const EventArg& arg : event.args) add(arg.name, arg_text(arg));
  return out + "}";
}

// Two files in one folder. trace.json is a JSON array at any time: each event overwrites the
// closing bracket and writes a new one, so that a crash leaves a readable file.
class TraceFiles {
 public:
  /// A forked child has files of its own from the beginning, even where its parent has ended.
  TraceFiles(const std::string& folder, bool is_child) : folder_(folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    std::string suffix;
    if (!is_child) lines_ = open_own(folder + "/events.jsonl");
    if (!lines_) {  // another process, such as our parent, writes there
      suffix = "." + std::to_string(::getpid());
      lines_ = open_own(folder + "/events" + suffix + ".jsonl");
    }
    chrome_ = open_own(folder + "/trace" + suffix + ".json");
    if (!lines_ || !chrome_) {
      log_line(LogLevel::warning, "report",
               message("{} cannot hold a trace; logging.trace needs a folder that can be written",
                       folder));
      return;
    }
    std::fputs("[\n]\n", chrome_.get());
    std::fflush(chrome_.get());
  }

  bool good() const { return lines_ && chrome_; }
  const std::string& folder() const { return folder_; }

  /// In a forked child: the place in a file is common to both processes, so nothing is flushed, and
  /// what the end of the process flushes goes nowhere.
  void leave_to_parent() {
    int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (File* file : {&lines_, &chrome_})
      if (std::FILE* stream = file->release()) ::dup2(nowhere, ::fileno(stream));
    ::close(nowhere);
  }

  void write(const Event& event) {
    constexpr std::string_view names[] = {"begin", "end", "instant", "counter"};
    constexpr std::string_view letters[] = {"B", "E", "i", "C"};
    size_t phase = static_cast<size_t>(event.phase);
    std::string args = args_text(event);
    std::string common =
        message("\"name\":{},\"cat\":{},\"tid\":{},\"args\":{}}", json_text(event.name),
                json_text(event.category), event.thread, args);
    std::fprintf(lines_.get(), "{\"t_us\":%.3f,\"event\":\"%s\",%s\n", microseconds(event),
                 names[phase].data(), common.c_str());
    std::fflush(lines_.get());
    std::fseek(chrome_.get(), first_ ? -2 : -3, SEEK_END);
    std::fprintf(chrome_.get(), "%s{\"ph\":\"%s\",\"ts\":%.3f,\"pid\":%d,%s\n]\n",
                 first_ ? "" : ",\n", letters[phase].data(), begun_us_ + microseconds(event),
                 static_cast<int>(::getpid()), common.c_str());
    std::fflush(chrome_.get());
    first_ = false;
  }

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  static double microseconds(const Event& event) {
    return static_cast<double>(event.time_ns) / 1000;
  }

  // Empties the file, unless another process has it open for a trace.
  static File open_own(const std::string& path) {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return {nullptr, &std::fclose};
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0 || ::ftruncate(fd, 0) != 0) {
      ::close(fd);
      return {nullptr, &std::fclose};
    }
    return {::fdopen(fd, "r+"), &std::fclose};
  }

  std::string folder_;
  /// Of the clock of all processes, so that their traces can be put together.
  const double begun_us_ = static_cast<double>(in_ns(start_of_trace().time_since_epoch())) / 1000;
  File lines_{nullptr, &std::fclose};
  File chrome_{nullptr, &std::fclose};
  bool first_ = true;
};

struct Trace {
  std::mutex listeners_mutex;
  std::vector<std::shared_ptr<Listener>> listeners;
  std::unique_ptr<TraceFiles> files;
  bool started = false;
};

// Set in a forked child, whose parent goes on writing its files.
constinit std::atomic<bool> is_forked{false};

Trace& trace() {
  static Trace& trace = []() -> Trace& {
    static auto& made = *new Trace();
    // A thread that holds the lock is not there in the child.
    ::pthread_atfork(nullptr, nullptr, [] {
      new (&made.listeners_mutex) std::mutex();
      is_forked.store(true, std::memory_order_relaxed);
    });
    return made;
  }();
  return trace;
}

void count_listeners(const Trace& trace) {
  int n = static_cast<int>(trace.listeners.size()) + (trace.files ? 1 : 0);
  detail::listening.store(trace.started || n > 0 ? n : -1, std::memory_order_relaxed);
}

void open_files(const std::string& folder, bool is_child = false) {
  auto files = folder.empty() ? nullptr : std::make_unique<TraceFiles>(folder, is_child);
  if (files && !files->good()) files.reset();
  std::lock_guard lock(trace().listeners_mutex);
  trace().files = std::move(files);
  trace().started = true;
  count_listeners(trace());
}

// Events of a child go into files with its number in their names.
void open_files_of_child() {
  std::unique_ptr<TraceFiles> of_parent;
  {
    std::lock_guard lock(trace().listeners_mutex);
    if (!is_forked.exchange(false)) return;
    of_parent = std::move(trace().files);
  }
  if (!of_parent) return;
  of_parent->leave_to_parent();
  open_files(of_parent->folder(), /*is_child=*/true);
}

}  // namespace

Counter& counter(std::string_view name) {
  Counters& all = all_counters();
  std::lock_guard lock(all.names_mutex);
  auto found = all.by_name.find(name);
  return found != all.by_name.end() ? found->second : all.by_name[std::string(name)];
}

void count_in(std::string_view family, std::string_view which) {
  constexpr size_t most_in_family = 1024;
  Counters& all = all_counters();
  std::lock_guard lock(all.names_mutex);
  auto& members = all.families[std::string(family)];
  auto found = members.find(which);
  if (found == members.end())
    found = members.try_emplace(members.size() < most_in_family ? std::string(which) : "other", 0)
                .first;
  ++found->second;
}

void add_counter_source(CounterSource source) {
  Counters& all = all_counters();
  std::lock_guard lock(all.names_mutex);
  all.sources.push_back(source);
}

// What others count that live on; the lock of names is not held while they are asked.
static std::map<std::string, int64_t> count_sources() {
  Counters& all = all_counters();
  std::vector<CounterSource> sources;
  {
    std::lock_guard lock(all.names_mutex);
    sources = all.sources;
  }
  std::map<std::string, int64_t> out;
  for (CounterSource source : sources) source(out);
  return out;
}

std::map<std::string, int64_t> counters() {
  Counters& all = all_counters();
  std::map<std::string, int64_t> out = count_sources();
  {
    std::lock_guard lock(all.names_mutex);
    for (const auto& [name, n] : all.counted_before) out[name] -= n;
    for (const auto& [name, counter] : all.by_name) out[name] += counter.value();
    for (const auto& [family, members] : all.families)
      for (const auto& [which, n] : members) out[message("{}[{}]", family, which)] = n;
  }
  std::erase_if(out, [](const auto& counter) { return counter.second == 0; });
  return out;
}

void reset_counters() {
  Counters& all = all_counters();
  std::map<std::string, int64_t> living = count_sources();
  std::lock_guard lock(all.names_mutex);
  for (auto& [name, counter] : all.by_name) counter.reset();
  all.families.clear();
  all.counted_before = std::move(living);
}

// Flags that cannot be read are reported by the call that needs them; there is no trace then.
bool detail::start_listening() noexcept try {
  const CancellationOff until_opened;
  static Once once;
  once.run([] { open_files(config::flags().logging.trace); });
  return listening.load(std::memory_order_relaxed) > 0;
} catch (const std::exception&) {
  return false;
}

void restart_trace() {
  if (is_forked.load(std::memory_order_relaxed)) open_files_of_child();
  {
    std::lock_guard lock(trace().listeners_mutex);
    trace().files.reset();  // before a new one asks for the lock of the same files
  }
  open_files(config::flags().logging.trace);
}

void detail::emit(Phase phase, std::string_view name, std::string_view category,
                  std::string_view id, std::span<const EventArg> args) noexcept try {
  const CancellationOff until_written;
  if (is_forked.load(std::memory_order_relaxed)) open_files_of_child();
  Event event{phase, name, category, id, args, now_ns(), thread_number()};
  std::lock_guard lock(trace().listeners_mutex);
  for (const auto& listener : trace().listeners) (*listener)(event);
  if (trace().files) trace().files->write(event);
} catch (const std::exception&) {
  return;  // an event that cannot be told must not stop what it tells about
}

std::shared_ptr<void> add_listener(Listener listener) {
  tracing();  // the files of TENON_TRACE come first
  auto kept = std::make_shared<Listener>(std::move(listener));
  std::lock_guard lock(trace().listeners_mutex);
  trace().listeners.push_back(kept);
  count_listeners(trace());
  return {kept.get(), [kept](void*) {
            std::lock_guard lock(trace().listeners_mutex);
            std::erase(trace().listeners, kept);
            count_listeners(trace());
          }};
}

std::string json_text(std::string_view text) {
  std::string out;
  append_json_text(text, out);
  return out;
}

}  // namespace tenon::report
