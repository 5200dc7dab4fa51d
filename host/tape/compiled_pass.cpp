// The way of a pass: key, look-up, on a miss recording and compiling, then the program.
#include "tape/compiled_pass.h"

#include "aot/backward_autocast.h"
#include "autograd/engine.h"
#include "compile/compile_graph.h"
#include "config/flags.h"
#include "core/device/matmul_precision.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/layout_questions.h"
#include "graph/text/print.h"
#include "report/compile_record.h"
#include "report/events.h"
#include "report/log.h"
#include "report/unit.h"
#include "tape/cache.h"

#include <tenon/config.h>
#include <tenon/thread_object.hpp>

#include <cxxabi.h>

#include <array>

namespace tenon::tape {

using autograd::PassRequest;

namespace {

thread_local bool inside = false;

struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

Cache& cache() {
  static auto* passes = new Cache;
  return *passes;
}

struct Counters {
  report::Counter& captures = report::counter("compiled_autograd.captures");
  report::Counter& hits = report::counter("compiled_autograd.hits");
  report::Counter& eager_passes = report::counter("compiled_autograd.eager_passes");
  report::Counter& departures = report::counter("compiled_autograd.departures");
};
Counters& counters() {
  static auto* all = new Counters;
  return *all;
}

// Of the flags that decide what a compilation produces; a set of flags is looked at once a thread.
uint64_t flags_hash() {
  struct Known {
    uint64_t serial = ~uint64_t{0}, hash = 0;
  };
  thread_local Known known;
  uint64_t serial = config::flags().serial;
  if (known.serial != serial) known = {serial, std::hash<std::string>()(config::hash())};
  return known.hash;
}

std::array<uint64_t, 3> root_key(const PassSettings& settings, const PassRequest& request) {
  uint64_t facts = uint64_t{request.options.accumulate} | uint64_t{settings.dynamic} << 1 |
                   uint64_t{thread_modes.deterministic} << 2 | uint64_t{allows_tf32()} << 3 |
                   autocast_in_effect().word() << 8;
  return {settings.serial, facts, flags_hash()};
}

// What a report tells of the passes; null: none is wanted.
report::Unit* unit_of_passes() {
  static report::Unit* const unit =
      report::find_unit(report::UnitKind::backward, "compiled backward passes");
  return unit;
}

[[noreturn]] void fail_fullgraph(std::string_view why) {
  fail(ErrorCode::unsupported,
       "compiled autograd with fullgraph: a backward pass cannot be one graph: {}; leave "
       "EnableOptions::fullgraph and dynamo.compiled_autograd_kwargs_override off, or put a "
       "compiled_autograd::disable() scope around the pass",
       why);
}

bool leave(const PassSettings& settings, std::string_view why) {
  if (settings.fullgraph) fail_fullgraph(why);
  counters().eager_passes.add();
  if (report::Unit* unit = unit_of_passes()) {
    unit->note_eager(why);
    unit->add({.eager_calls = 1});
  }
  if (report::log_enabled(report::LogLevel::info, "compiled_autograd"))
    report::log_line(report::LogLevel::info, "compiled_autograd",
                     message("a backward pass runs on the engine: {}", why));
  return false;
}

// Code for each piece; with what it needs of sizes the program is whole.
std::shared_ptr<const Program> compile_program(Traced traced, const PassSettings& settings,
                                               int64_t number) {
  CompileGraphOptions options{.backend = settings.backend,
                              .mode = settings.mode,
                              .options_toml = settings.options_toml,
                              .compile_id = message("backward/{}", number),
                              .dynamic = settings.dynamic};
  report::TimeScope time(report::Work::compile);
  ShapeEnvScope shapes(*traced.env);  // a pass may start inside of another recording
  for (Step& step : traced.program.steps) {
    if (!step.graph) continue;
    step.numbers = traced.fakes->bind_symbols(*step.graph);
    if (report::artifact_enabled("compiled_autograd"))
      report::log_artifact("compiled_autograd", to_text(*step.graph));
    step.artifact = compile_graph(step.graph, options);
  }
  finish_program(traced);
  if (report::artifact_enabled("compiled_autograd_verbose"))
    for (const std::string& note : traced.notes)
      report::log_artifact("compiled_autograd_verbose", note);
  return std::make_shared<const Program>(std::move(traced.program));
}

void fix_numbers(Traced& traced, const TapeWalk& walk) {
  std::vector<const Expr*> symbols = traced.fakes->symbols();
  for (uint32_t n = 0; n < symbols.size(); ++n)
    if (!symbols[n]) traced.program.fixed.emplace_back(n, walk.collected.numbers[n]);
}

// What a rule says against fakes, the engine may find no fault with: it has data. What user code
// throws, it will throw again on the engine, at the point where gradients are as far as they get.
std::optional<Traced> traced_or_why(const TapeWalk& walk, const PassSettings& settings,
                                    const PassRequest& request, uint64_t hash, Version& version) {
  try {
    Traced traced = trace_tape(walk, request, settings.dynamic, cache().experience_for(walk, hash));
    if (!settings.dynamic) fix_numbers(traced, walk);
    return traced;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    version.why = error.what();
  } catch (abi::__forced_unwind&) {
    throw;  // the thread ends
  } catch (...) {
    version.why = "a rule has thrown while it was recorded";
    version.is_kept = false;
  }
  return std::nullopt;
}

std::shared_ptr<Version> capture(const TapeWalk& walk, uint64_t hash, const PassSettings& settings,
                                 const PassRequest& request) {
  report::Span span("capture", "compiled_autograd");
  report::TimeScope time(unit_of_passes(), report::Work::trace);
  if (report::artifact_enabled("compiled_autograd_verbose"))
    report::log_artifact("compiled_autograd_verbose", cache().reason(walk, hash));
  auto version = std::make_shared<Version>();
  QuietLayouts layouts;
  std::optional<Traced> traced = traced_or_why(walk, settings, request, hash, *version);
  if (!traced) return version;
  counters().captures.add();
  if (report::Unit* unit = unit_of_passes()) unit->add({.compiles = 1});
  try {
    version->program = compile_program(*std::move(traced), settings, counters().captures.value());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::data_dependent) throw;
    version->why = error.what();
  }
  return version;
}

// What there is for the pass, or was made now; where that has no program, `why` says it.
Cache::Found find_or_capture(TapeWalk& walk, const PassSettings& settings,
                             const PassRequest& request, std::string& why) {
  auto key = root_key(settings, request);
  walk.run(request, key, false);
  if (!walk.collected.refusal) {
    uint64_t hash = walk.hash();
    Cache::Found found = cache().find(walk, hash);
    if (found.version) {
      if (found.version->program) counters().hits.add();
      why = found.version->why;
      return found;
    }
    walk.run(request, key, true);
  }
  // Another thread may have freed the tape meanwhile, or hung a hook on it.
  if (walk.collected.refusal) return why = walk.collected.refusal, Cache::Found();
  uint64_t hash = walk.hash();
  std::shared_ptr<Version> version = capture(walk, hash, settings, request);
  why = version->why;
  if (!version->is_kept) return {};
  cache().add(walk, hash, std::move(version));
  Cache::Found found = cache().find(walk, hash);
  if (!found.version) why = "what was compiled does not serve the pass that it is for";
  return found;
}

}  // namespace

bool in_pass() { return inside; }

bool take_pass(const PassSettings& settings, const PassRequest& request,
               std::vector<Tensor>& captured) {
  if (inside || thread_modes.tracer) return false;
  if (request.options.create_graph)
    return leave(settings, "create_graph records the pass on the tape");
  report::TimeScope time(unit_of_passes(), report::Work::call);
  // A thread has one pass of this kind at a time.
  TapeWalk& walk = ThreadObject<TapeWalk>::get();
  struct LetGo {
    TapeWalk& walk;
    ~LetGo() { walk.collected.clear(false); }
  } let_go{walk};
  std::string why;
  Cache::Found found = find_or_capture(walk, settings, request, why);
  if (!found.version || !found.version->program) return leave(settings, why);
  const std::string& called = found.version->program->first_call;
  if (settings.fullgraph && !called.empty()) fail_fullgraph("it calls " + called);
  std::optional<Departure> departure;
  Inside now;
  captured = run_program(*found.version->program, walk, request, departure);
  if (departure) {
    counters().departures.add();
    cache().learn(found, *departure);
  }
  return true;
}

PassFigures figures() {
  return {counters().captures.value(), counters().hits.value(), counters().eager_passes.value(),
          counters().departures.value(), cache().dropped()};
}

void forget_passes() {
  cache().clear();
  for (report::Counter* c :
       {&counters().captures, &counters().hits, &counters().eager_passes, &counters().departures})
    c->reset();
}

}  // namespace tenon::tape
