// The table of log functions, and what a recording does with their calls.
#include "capture/log_calls.h"

#include "capture/trace.h"
#include "config/flags.h"
#include "core/error.h"

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

void call_log_fn(std::string_view name, std::string_view text,
                 std::initializer_list<Tensor> tensors) {
  std::vector<Tensor> list(tensors);
  Trace* trace = Trace::current();
  if (!trace) return run_log_fn(name, text, list);
  trace->call_log_fn(name, text, std::move(list));
}

void Trace::call_log_fn(std::string_view name, std::string_view text, std::vector<Tensor> tensors) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  if (lists(flags.ignore_logging_functions, name)) return;
  if (lists(flags.reorderable_logging_functions, name)) {
    pending_logs_.push_back({std::string(name), std::string(text), std::move(tensors)});
    return;
  }
  auto where = std::source_location::current();
  cut(message("the log function {}", name), where);
  for (Tensor& t : tensors)
    if (t.defined() && t.is_fake()) t = observe(t, name, where);
  PauseRecording pause;
  run_log_fn(name, text, tensors);
}

// Of a body that was cut: everything has run, so the logs run with what came out.
void Trace::run_pending_logs() {
  PauseRecording pause;
  for (PendingLogCall& call : pending_logs_) {
    for (Tensor& t : call.tensors)
      if (t.defined() && t.is_fake()) t = impl_of(t)->ensure_extra().concrete;
    run_log_fn(call.name, call.text, call.tensors);
  }
  pending_logs_.clear();
}

}  // namespace tenon
