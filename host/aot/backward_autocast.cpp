// Reading flag functorch.backward_pass_autocast, and recording under what it says.
#include "aot/backward_autocast.h"

#include "config/flag_def.h"
#include "config/flags.h"
#include "core/error.h"

namespace tenon {

namespace {

[[noreturn]] void refuse(std::string_view value, std::string_view part) {
  fail(ErrorCode::config,
       "functorch.backward_pass_autocast = \"{}\": expected same_as_forward, off, or contexts "
       "separated by commas, found '{}'; a context is cpu:bf16, cpu:f16, cpu:off or the same of "
       "cuda, and a later one lies inside of an earlier one",
       value, part);
}

// A later context of a device lies inside of an earlier one.
void add_context(AutocastState& state, std::string_view value, std::string_view text) {
  size_t colon = text.find(':');
  std::string_view device = text.substr(0, colon);
  if (colon == std::string_view::npos || (device != "cpu" && device != "cuda")) refuse(value, text);
  AutocastOptions& context = device == "cpu" ? state.cpu : state.cuda;
  std::string_view type = text.substr(colon + 1);
  if (type != "off" && type != "f16" && type != "bf16") refuse(value, text);
  context.enabled = type != "off";
  if (context.enabled) context.dtype = *parse_dtype(type);
}

}  // namespace

AutocastState autocast_in_effect() {
  AutocastState now = autocast_state();
  if (!(thread_modes.exclude & bit(Key::autocast))) return now;
  now.cpu.enabled = now.cuda.enabled = false;
  return now;
}

AutocastState autocast_of_backward(const AutocastState& forward) {
  const std::string& value = config::flags().functorch.backward_pass_autocast;
  if (value == "same_as_forward") return forward;
  AutocastState state;
  if (value == "off") return state;
  std::vector<std::string> contexts = config::split(value, ',');
  if (contexts.empty()) refuse(value, value);
  for (const std::string& text : contexts) add_context(state, value, text);
  return state;
}

// What is off is excluded, too: whoever runs below may have set it.
AutocastScope::AutocastScope(const AutocastState& state) : keys_(0, 0), before_(autocast_state()) {
  uint64_t key = bit(Key::autocast);
  set_autocast_state(state);
  thread_modes.exclude = (thread_modes.exclude & ~key) | (state.is_on() ? 0 : key);
}

AutocastScope::~AutocastScope() { set_autocast_state(before_); }

}  // namespace tenon
