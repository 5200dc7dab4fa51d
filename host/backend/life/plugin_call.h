// Calling the functions of a plugin: the second net, which an exception falls into that a plugin
// let out.
//
// The first net is inside the plugin (plugin.hpp puts a barrier into every function). This one
// catches only what plugins throw that share the C++ runtime of the host; it costs nothing while
// nothing is thrown.
#pragma once

#include "backend/find/diagnose.h"
#include "backend/life/lifetime.h"
#include "core/error.h"
#include "core/float_mode.h"

#include <tenon/plugin.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace tenon {

/// What is known of the calls into one plugin. Lives as long as the process. Threads: any.
class PluginNet {
 public:
  PluginNet(const std::string& name, std::string path) : life_(name), path_(std::move(path)) {}

  /// Whether an exception has left the plugin: then nothing more is compiled with it.
  bool is_faulty() const { return faulty_.load(std::memory_order_relaxed); }
  /// P10 when faulty.
  Diagnosis diagnosis() const;
  const std::string& name() const { return life_.name(); }
  const std::string& path() const { return path_; }
  PluginLife& life() { return life_; }
  const PluginLife& life() const { return life_; }

  /// Inside a handler of what `function` ("compile of backend x") threw: marks the plugin faulty,
  /// in the catalog too, and gives a status with the text of P10. Only the end of a thread is
  /// thrown on.
  tn_status* caught(std::string_view function);
  /// The P23 of a rule that the plugin broke; the catalog lists it from now on.
  Diagnosis note_broken(std::string problem);
  /// Throws BackendError with that.
  [[noreturn]] void broke_contract(ErrorCode code, std::string_view backend, std::string problem);
  /// The handler part of caught() alone: a diagnosis of the exception in flight.
  static Diagnosis describe_current(const std::string& path, std::string_view function);

 private:
  PluginLife life_;
  std::string path_;
  std::atomic<bool> faulty_{false};
  mutable std::mutex first_lock_;  ///< guards the next one
  Diagnosis first_;
};

/// While it lives, code of a plugin runs that must leave the floating-point mode of the thread as
/// it is. Where it did not (libraries that are linked with -ffast-math switch to flushing when they
/// are mapped), the mode is restored and a warning names the plugin. Cost: two nanoseconds.
class KeepsFloatMode {
 public:
  /// `function` must outlive it.
  KeepsFloatMode(const std::string& path, std::string_view function)
      : path_(path), function_(function), before_(FloatMode::now()) {}
  ~KeepsFloatMode() {
    if (FloatMode now = FloatMode::now(); now != before_) [[unlikely]]
      restore(now);
  }
  KeepsFloatMode(const KeepsFloatMode&) = delete;
  KeepsFloatMode& operator=(const KeepsFloatMode&) = delete;

  /// How often a mode had to be restored in this process.
  static uint64_t times_restored();

 private:
  void restore(const FloatMode& now) noexcept;

  const std::string& path_;
  std::string_view function_;
  FloatMode before_;
};

/// The TN_FAILED_PRECONDITION that calls get after shutdown.
tn_status* status_of_closed_gate();

/// `f()`, which calls one function of the plugin and returns its status; what it throws becomes a
/// status as well, and after shutdown it is not called. `function` names it in the message, and
/// `place`, where it is given, in the report of a crash.
template <class F>
tn_status* call_plugin(PluginNet& net, std::string_view function, F&& f,
                       std::string_view place = {}) {
  InPlugin in(net.life(), InPlugin::Purpose::use, place.empty() ? function : place);
  if (!in) [[unlikely]]
    return status_of_closed_gate();
  KeepsFloatMode mode(net.path(), function);
  try {
    return f();
  } catch (...) {
    return net.caught(function);
  }
}

/// Frees a status that nobody waits for, after writing it as a warning.
void log_and_free(const PluginNet& net, tn_status* status) noexcept;

/// The same for functions that give something back and have no status (artifact.destroy): the
/// failure is only logged, and a plugin that is down is left alone.
template <class F>
void call_plugin_quietly(PluginNet& net, std::string_view function, F&& f) {
  InPlugin in(net.life(), InPlugin::Purpose::cleanup);
  if (!in) return;
  log_and_free(net, call_plugin(net, function, [&]() -> tn_status* {
                 f();
                 return nullptr;
               }));
}

/// A string as a tn_sink, for functions of a plugin that write text. What does not fit into memory
/// is left out.
class TextSink {
 public:
  TextSink();
  TextSink(const TextSink&) = delete;
  const tn_sink* get() const { return &sink_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  tn_sink sink_;
};

}  // namespace tenon
