// Reading flag functorch.backward_pass_autocast, and recording under what it says.
#include "aot/backward_autocast.h"

#include "config/flag_def.h"
#include "config/flags.h"
#include "core/error.h"
#include "ops/autocast.h"

namespace tenon {

namespace {

[[noreturn]] void refuse(std::string_view value, std::string_view part) {
  fail(ErrorCode::config,
       "functorch.backward_pass_autocast = \"{}\": expected same_as_forward, off, or contexts "
       "separated by commas, found '{}'; a context is cpu:bf16, cpu:f16 or cpu:off, and a later "
       "one lies inside of an earlier one",
       value, part);
}

AutocastOptions context_of(std::string_view value, std::string_view text) {
  AutocastOptions context;
  if (text == "cpu:off")
    context.enabled = false;
  else if (text == "cpu:f16" || text == "cpu:bf16")
    context.dtype = *parse_dtype(text.substr(4));
  else
    refuse(value, text);
  return context;
}

}  // namespace

AutocastOptions autocast_in_effect() {
  AutocastOptions now = autocast_state();
  now.enabled = now.enabled && !(thread_modes.exclude & bit(Key::autocast));
  return now;
}

AutocastOptions autocast_of_backward(const AutocastOptions& forward) {
  const std::string& value = config::flags().functorch.backward_pass_autocast;
  if (value == "same_as_forward") return forward;
  AutocastOptions state{.enabled = false};
  if (value == "off") return state;
  std::vector<std::string> contexts = config::split(value, ',');
  if (contexts.empty()) refuse(value, value);
  for (const std::string& text : contexts) state = context_of(value, text);
  return state;
}

AutocastScope::AutocastScope(const AutocastOptions& options)
    : keys_(0, 0), dtype_(thread_modes.autocast_dtype) {
  uint64_t key = bit(Key::autocast);
  thread_modes.include = (thread_modes.include & ~key) | (options.enabled ? key : 0);
  thread_modes.exclude = (thread_modes.exclude & ~key) | (options.enabled ? 0 : key);
  thread_modes.autocast_dtype = options.dtype;
}

AutocastScope::~AutocastScope() { thread_modes.autocast_dtype = dtype_; }

}  // namespace tenon
