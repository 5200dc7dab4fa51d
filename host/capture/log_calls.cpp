// The table of log functions, and what a recording does with their calls.
#include "capture/log_calls.h"

#include "capture/follow/follow.h"
#include "capture/trace.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/stand_in.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace tenon {

namespace {

struct LogFunctions {
  std::mutex functions_mutex;
  std::map<std::string, LogFunction, std::less<>> by_name;
};

LogFunctions& log_functions() {
  static LogFunctions& functions = *new LogFunctions();
  return functions;
}

bool lists(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

void register_log_fn(std::string name, LogFunction function) {
  std::lock_guard lock(log_functions().functions_mutex);
  log_functions().by_name.insert_or_assign(std::move(name), std::move(function));
}

void run_log_fn(std::string_view name, std::string_view text, std::span<const Tensor> tensors) {
  LogFunction function;
  std::vector<std::string> known;
  {
    std::lock_guard lock(log_functions().functions_mutex);
    for (const auto& [key, value] : log_functions().by_name) {
      known.push_back(key);
      if (key == name) function = value;
    }
  }
  require(static_cast<bool>(function),
          "there is no log function '{}'; register it with register_log_fn; known are {}", name,
          known.empty() ? "none" : nearest_names(name, known));
  function(text, tensors);
}

// Runs the function now or after the graph, as the flags say.
void call_log_fn(std::string_view name, std::string_view text,
                 std::initializer_list<Tensor> tensors) {
  std::vector<Tensor> list(tensors);
  if (!thread_modes.tracer) return run_log_fn(name, text, list);
  const config::DynamoFlags& flags = config::flags().dynamo;
  if (lists(flags.ignore_logging_functions, name)) return;
  bool waits = lists(flags.reorderable_logging_functions, name);
  if (Follower* follower = Follower::current(); follower && !waits && follower->passes_break()) {
    for (Tensor& t : list)
      if (t.defined() && t.is_fake()) t = Tensor(follower->walk().real_of(t));
    PauseRecording pause;
    return run_log_fn(name, text, list);
  }
  Trace* trace = Trace::current();
  if (!trace) return run_log_fn(name, text, list);
  if (waits) {
    trace->log_calls().calls.push_back({std::string(name), std::string(text), std::move(list)});
    return;
  }
  constexpr std::source_location where{};  // not known
  trace->graph_break(message("the log function {}", name), where);
  for (Tensor& t : list)
    if (t.defined() && t.is_fake()) t = trace->observe(t, name, where);
  PauseRecording pause;
  run_log_fn(name, text, list);
}

void PendingLogCalls::run() {
  PauseRecording pause;
  for (Call& call : calls) {
    for (Tensor& t : call.tensors) t = real_of(t);
    run_log_fn(call.name, call.text, call.tensors);
  }
  calls.clear();
}

void PendingLogCalls::run_before_throw() {
  auto is_there = [](const Tensor& t) { return !t.defined() || real_of(t).defined(); };
  auto missing = std::ranges::find_if(
      calls, [&](const Call& call) { return !std::ranges::all_of(call.tensors, is_there); });
  calls.erase(missing, calls.end());
  run();
}

int32_t PendingLogCalls::references(const Tensor& fake) const {
  int32_t n = 0;
  for (const Call& call : calls)
    for (const Tensor& t : call.tensors) n += same_head(t, fake);
  return n;
}

}  // namespace tenon
