// Counters and events: what happened, as numbers and as a trace.
//
//   static report::Counter& compiles = report::counter("capture.compiles");
//   compiles.add();
//   report::Span span("compile", "aot", id, {{"nodes", 12}});
//
// Counters always count; their names are `room.name`. Events cost one load unless somebody listens:
// the folder of TENON_TRACE (flag logging.trace), which gets events.jsonl, a JSON object a line,
// and trace.json for chrome://tracing and Perfetto, or a listener of add_listener().
//
// Threads: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tenon::report {

class Counter {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

/// The counter of that name, made at the first call. The reference is good for ever.
Counter& counter(std::string_view name);
/// Counts `family[which]`, such as that of one reason. Of each family the first 1024 have a count of
/// their own; the others share `family[other]`.
void count_in(std::string_view family, std::string_view which);
/// Counts what is counted elsewhere: adds to the counters that are given out.
using CounterSource = void (*)(std::map<std::string, int64_t>& counters);
void add_counter_source(CounterSource source);
/// The counters that are not zero.
std::map<std::string, int64_t> counters();
void reset_counters();

enum class Phase : uint8_t { begin, end, instant, counter };

/// A number or a text that belongs to an event. The text must live during the call only.
struct EventArg {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;

  EventArg(std::string_view arg_name, std::string_view text) : name(arg_name), value(text) {}
  EventArg(std::string_view arg_name, const char* text)
      : name(arg_name), value(std::string_view(text)) {}
  EventArg(std::string_view arg_name, double number) : name(arg_name), value(number) {}
  template <std::integral T>
  EventArg(std::string_view arg_name, T number)
      : name(arg_name), value(static_cast<int64_t>(number)) {}
};

struct Event {
  Phase phase;
  std::string_view name;      ///< "compile"
  std::string_view category;  ///< the room: "aot"
  std::string_view id;        ///< compile id "site/attempt", or empty
  std::span<const EventArg> args;
  int64_t time_ns;  ///< since the process began to trace
  int64_t thread;   ///< 1, 2, ... in the order in which threads first appear
};

namespace detail {
extern constinit std::atomic<int> listening;  // -1: the flag has not been read yet
bool start_listening() noexcept;
void emit(Phase phase, std::string_view name, std::string_view category, std::string_view id,
          std::span<const EventArg> args) noexcept;
}  // namespace detail

/// Whether anybody takes events.
inline bool tracing() {
  int state = detail::listening.load(std::memory_order_relaxed);
  return state > 0 || (state < 0 && detail::start_listening());
}

inline void instant(std::string_view name, std::string_view category, std::string_view id = {},
                    std::initializer_list<EventArg> args = {}) {
  if (tracing()) detail::emit(Phase::instant, name, category, id, {args.begin(), args.size()});
}

/// The course of a number over time, such as bytes in use.
inline void sample(std::string_view name, std::string_view category, double value) {
  if (!tracing()) return;
  EventArg arg("value", value);
  detail::emit(Phase::counter, name, category, {}, {&arg, 1});
}

/// A begin event now and its end when it is destroyed, on the same thread. The texts must outlive
/// the span.
class [[nodiscard]] Span {
 public:
  Span(std::string_view name, std::string_view category, std::string_view id = {},
       std::initializer_list<EventArg> args = {})
      : name_(name), category_(category), id_(id), begun_(tracing()) {
    if (begun_) detail::emit(Phase::begin, name, category, id, {args.begin(), args.size()});
  }
  ~Span() {
    if (begun_) detail::emit(Phase::end, name_, category_, id_, {});
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  std::string_view name_, category_, id_;
  bool begun_;
};

/// Calls `listener` for each event until the result is destroyed. It may be called from several
/// threads, one at a time, and must not throw or add and remove listeners.
using Listener = std::function<void(const Event&)>;
std::shared_ptr<void> add_listener(Listener listener);

/// Reads logging.trace again: opens or closes the trace of the process.
void restart_trace();

/// `text` as a JSON string, with its quotes; see core/json_text.h.
std::string json_text(std::string_view text);

}  // namespace tenon::report
