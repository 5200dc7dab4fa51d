// Who has asked for compiled passes: scopes of threads, and the process.
#include "autograd/engine.h"
#include "backend/backend.h"
#include "config/flags.h"
#include "core/error.h"
#include "runtime/call.h"
#include "runtime/compiled_backward.h"
#include "tape/compiled_pass.h"

#include <tenon/compiled_autograd.h>
#include <tenon/thread_object.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

namespace tenon::compiled_autograd {

/// What passes are compiled with; without: they run on the engine.
struct Scope::State {
  std::optional<tape::PassSettings> settings;
};

namespace {

using State = Scope::State;

std::shared_ptr<const State>& state_of_thread() {
  return ThreadObject<std::shared_ptr<const State>>::get();
}

std::mutex process_state_lock;
std::shared_ptr<const State>& state_of_process() {
  static auto* state = new std::shared_ptr<const State>;
  return *state;
}

std::shared_ptr<const State> state_in_effect() {
  if (const auto& own = state_of_thread()) return own;
  std::lock_guard lock(process_state_lock);
  return state_of_process();
}

// Equal settings have equal numbers, so that captured passes are found again.
uint64_t serial_of(const tape::PassSettings& s) {
  static std::mutex known_lock;
  static auto* known = new std::map<std::tuple<std::string, std::string, std::string>, uint64_t>;
  std::lock_guard lock(known_lock);
  return known->try_emplace({s.backend, s.mode, s.options_toml}, known->size() + 1).first->second;
}

std::shared_ptr<const State> enabled(const std::string& backend, const EnableOptions& options) {
  tape::PassSettings settings{.backend = backend.empty() ? default_backend() : backend,
                              .mode = options.mode,
                              .options_toml = option_texts(options.options).backend,
                              .dynamic = options.dynamic,
                              .fullgraph = options.fullgraph};
  static_cast<void>(backend_info(settings.backend));
  check_backend_options(settings.backend, settings.mode, settings.options_toml);
  settings.serial = serial_of(settings);
  return std::make_shared<const State>(State{std::move(settings)});
}

bool take(const autograd::PassRequest& request, std::vector<Tensor>& captured) {
  std::shared_ptr<const State> state = state_in_effect();
  if (!state || !state->settings) return false;
  if (compiler::get_stance() == compiler::Stance::force_eager) return false;
  return tape::take_pass(*state->settings, request, captured);
}

}  // namespace

Scope::Scope(std::shared_ptr<const State> state)
    : before_(std::exchange(state_of_thread(), std::move(state))) {
  autograd::n_pass_takers.fetch_add(1, std::memory_order_relaxed);
}

Scope::~Scope() {
  state_of_thread() = std::move(before_);
  autograd::n_pass_takers.fetch_sub(1, std::memory_order_relaxed);
}

Scope enable(const std::string& backend, const EnableOptions& options) {
  return Scope(enabled(backend, options));
}

Scope enable(compiler::BackendFunction backend, const EnableOptions& options) {
  require(backend != nullptr, "compiled_autograd::enable: the function is empty");
  static std::atomic<uint64_t> number{0};
  std::string name = message("compiled_autograd function {}", number.fetch_add(1));
  compiler::register_backend(name, std::move(backend), {"debug"});
  return Scope(enabled(name, options));
}

Scope disable() { return Scope(std::make_shared<const State>()); }

void enable_everywhere(const std::string& backend, const EnableOptions& options) {
  auto state = enabled(backend, options);
  std::lock_guard lock(process_state_lock);
  if (!std::exchange(state_of_process(), std::move(state)))
    autograd::n_pass_takers.fetch_add(1, std::memory_order_relaxed);
}

void disable_everywhere() {
  std::lock_guard lock(process_state_lock);
  if (std::exchange(state_of_process(), nullptr))
    autograd::n_pass_takers.fetch_sub(1, std::memory_order_relaxed);
}

static void forget_programs() {
  require(!tape::in_pass(),
          "reset() was called inside of a compiled backward pass, from a hook or a callback; call "
          "it when backward() has returned");
  tape::forget_passes();
}

void reset() {
  forget_programs();
  disable_everywhere();
}

namespace {

bool wants_fullgraph(const Options& options) {
  bool fullgraph = options.fullgraph;
  for (const std::string& word : config::flags().dynamo.compiled_autograd_kwargs_override) {
    require(word == "fullgraph=true" || word == "fullgraph=false",
            "dynamo.compiled_autograd_kwargs_override: expected fullgraph=true or fullgraph=false, "
            "found \"{}\"",
            word);
    fullgraph = word == "fullgraph=true";
  }
  return fullgraph;
}

// An outer scope of the program, be it of disable(), counts over the flag.
std::shared_ptr<void> enable_in_callable(const Options& options) {
  if (state_of_thread()) return nullptr;
  return std::make_shared<Scope>(enabled(
      options.backend,
      {.mode = options.mode, .options = options.options, .fullgraph = wants_fullgraph(options)}));
}

const bool installed_tape = [] {
  autograd::take_pass_slot = &take;
  compiled_backward_slot = &enable_in_callable;
  forget_backward_slot = &forget_programs;
  return true;
}();

}  // namespace

bool in_compiled_autograd_region() { return tape::in_pass(); }

Stats stats() {
  tape::PassFigures f = tape::figures();
  return {f.captures, f.hits, f.eager_passes, f.departures, f.dropped};
}

}  // namespace tenon::compiled_autograd
