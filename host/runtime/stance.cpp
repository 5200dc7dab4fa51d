// Stances: setting them, and the calls that they lead elsewhere.
#include "runtime/stance.h"

#include "backend/backend.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "runtime/call.h"
#include "runtime/limits.h"

namespace tenon {

constinit std::atomic<uint32_t> stance_word{0};
constinit thread_local bool ignores_stance = false;

using compiler::Stance;
using compiler::StanceOptions;
using detail::Site;

namespace {

constexpr uint32_t forces_backend = 1u << 9, stance_bits = 0xff;

struct Current {
  std::mutex options_lock;
  StanceOptions options;
};
Current& current() {
  static Current& current = *new Current();
  return current;
}

// The site of the same callable for another backend. Options of a backend mean nothing to another.
Site& site_with_backend(Site& site, const std::string& backend) {
  std::lock_guard lock(site.others_lock);
  std::shared_ptr<Site>& other = site.with_backend[backend];
  if (other) return *other;
  Options options = site.options;
  options.backend = backend;
  options.mode.clear();
  std::erase_if(options.options, [](auto& o) { return o.first.find('.') == std::string::npos; });
  if (options.name.empty()) options.name = display_name(site);
  other = detail::make_site(options);
  other->is_for_stance = true;
  return *other;
}

// Under a stance that compiles from the second call on: whether this is the first one. The sizes
// that it shows are remembered, so that what differs in the second one is symbolic at once.
bool is_first_call(Site& site, const detail::Leaves& leaves) {
  std::lock_guard lock(site.changing);
  if (site.had_first_call || site.versions.size() > 0) return false;
  site.had_first_call = true;
  site.memory.join(leaves);
  return true;
}

// The backend that serves the call instead of its own; empty: none does.
std::string other_backend(Site& site, uint32_t word, const detail::Leaves& leaves) {
  bool begins_by_aot = is_in(word, Stance::aot_eager_then_compile);
  if (begins_by_aot && is_first_call(site, leaves)) return "aot_eager";
  if (!(word & forces_backend)) return "";
  std::lock_guard lock(current().options_lock);
  return current().options.force_backend;
}

}  // namespace

bool serve_by_stance(Site& site, const detail::Leaves& leaves, const detail::Body& body,
                     detail::CallResult& result) {
  uint32_t word = stance_in_effect();
  if (is_in(word, Stance::eager_then_compile) && is_first_call(site, leaves)) {
    Site::Counters& counters = site.my_counters();
    ++counters.calls, ++counters.unserved;
    run_eagerly(site, body, Eager::stance);
    return true;
  }
  std::string backend = other_backend(site, word, leaves);
  if (backend.empty() || site.options.backend == backend) return false;
  detail::call_site(site_with_backend(site, backend), leaves, body, result);
  return true;
}

namespace compiler {

void set_stance(Stance stance, StanceOptions options) {
  require(!thread_modes.tracer, ErrorCode::unsupported,
          "set_stance: called inside of a compiled callable; call it around the compiled call");
  require(stance <= Stance::aot_eager_then_compile,
          "set_stance: there is no stance {}, expected one of the enumeration compiler::Stance",
          static_cast<int>(stance));
  require(options.force_backend.empty() || stance == Stance::standard,
          "set_stance: force_backend = '{}' is for Stance::standard, and another stance was given; "
          "leave one of them out",
          options.force_backend);
  if (!options.force_backend.empty()) static_cast<void>(backend_info(options.force_backend));
  std::lock_guard lock(current().options_lock);
  uint32_t word = stance_of(stance);
  if (options.skip_guard_eval_unsafe) word |= 1u << 8;
  if (!options.force_backend.empty()) word |= forces_backend;
  current().options = std::move(options);
  stance_word.store(word, std::memory_order_relaxed);
}

Stance get_stance() { return static_cast<Stance>(stance_in_effect() & stance_bits); }

StanceOptions get_stance_options() {
  std::lock_guard lock(current().options_lock);
  return current().options;
}

}  // namespace compiler

}  // namespace tenon
