// Limits of recompiles, and what is said about them.
#include "runtime/limits.h"

#include "capture/tape/run_again.h"
#include "config/flag_def.h"
#include "config/flags.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "report/events.h"
#include "report/log.h"
#include "report/observers.h"

#include <tenon/compiler.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

namespace tenon {

using detail::Leaves;
using detail::Site;

std::string display_name(const Site& site) {
  return site.options.name.empty() ? message("number {}", site.number) : site.options.name;
}

namespace {

constexpr std::string_view eager_reasons[] = {
    "", "recompile_limit", "accumulated_recompile_limit", "suppressed_error", "stance", "disabled"};

bool is_limit(Eager reason) {
  return reason == Eager::recompile_limit || reason == Eager::accumulated_recompile_limit;
}

report::Counter& counter_of(Eager reason) {
  constexpr size_t n = std::size(eager_reasons);
  static const auto counters = [] {
    std::array<report::Counter*, n> all{};
    for (size_t i = 0; i < n; ++i)
      all[i] = &report::counter(message("eager_fallback[{}]", eager_reasons[i]));
    return all;
  }();
  return *counters[static_cast<size_t>(reason)];
}

}  // namespace

void note_eager_call(Site& site, Eager reason) {
  ++site.eager_calls;
  counter_of(reason).add();
  if (site.unit) site.unit->note_eager(eager_reasons[static_cast<size_t>(reason)]);
  if (is_limit(reason)) site.eager_after_limit.fetch_add(1, std::memory_order_relaxed);
  if (report::has_observers())
    report::tell_observers(compiler::EventKind::fallback, display_name(site),
                           eager_reasons[static_cast<size_t>(reason)]);
}

void note_eager_call(Site& site) {
  note_eager_call(site, site.eager_because.load(std::memory_order_relaxed));
}

void run_eagerly(Site& site, const detail::Body& body) {
  run_eagerly(site, body, site.eager_because.load(std::memory_order_relaxed));
}

void run_eagerly(Site& site, const detail::Body& body, Eager reason) {
  note_eager_call(site, reason);
  report::TimeScope time(site.unit, report::Work::eager);
  body.run_eager(body.context);
}

namespace {

// Told when the lock of the site is free again.
struct WaitingEvents {
  std::vector<compiler::Event> events;
  ~WaitingEvents() {
    for (const auto& e : events) report::tell_observers(e.kind, e.callable, e.text);
  }
};

void check_flag_conflicts() {
  const config::DynamoFlags& flags = config::flags().dynamo;
  require(!flags.suppress_errors || !flags.fail_on_recompile_limit_hit, ErrorCode::config,
          "dynamo.suppress_errors and dynamo.fail_on_recompile_limit_hit are both true: one hides "
          "errors that the other asks for; set one of them to false");
}

// Of the versions that served last, `most` at most.
std::string guard_failures(const Site& site, const Leaves& leaves, const std::string& difference,
                           uint32_t most = UINT32_MAX) {
  std::string out;
  uint32_t n = site.versions.size();
  std::string_view told = difference;
  for (uint32_t i = 0; i < std::min(n, most); ++i) {
    const Entry& entry = *site.versions[i];
    bool left = !difference.empty() && entry.accepts(leaves);
    out += (i ? "; " : "") + message("{}: {}", entry.id, left ? told : entry.why_not(leaves));
    if (left) told = "the body does something else";  // that of the version it was compared with
  }
  if (n > most)
    out += message("; and {} other{} (TENON_LOGS=recompiles_verbose shows them)", n - most,
                   n - most == 1 ? "" : "s");
  return out;
}

// What helps against the failure of one of the `most` versions that served last.
std::string_view advice_on_failures(const Site& site, const Leaves& leaves,
                                    const std::string& difference, uint32_t most) {
  for (uint32_t i = 0; i < std::min<uint32_t>(site.versions.size(), most); ++i) {
    const Entry& entry = *site.versions[i];
    if (!difference.empty() && entry.accepts(leaves)) continue;  // the body has left it
    if (std::string_view advice = entry.recorded.guards.advice(leaves); !advice.empty())
      return advice;
  }
  return "";
}

// For each version every condition that fails, a line each.
std::string every_failure(const Site& site, const Leaves& leaves, const std::string& difference) {
  std::string out = display_name(site);
  for (uint32_t i = 0; i < site.versions.size(); ++i) {
    const Entry& entry = *site.versions[i];
    std::string failures = entry.recorded.guards.every_failure(leaves);
    if (failures.empty()) failures = difference.empty() ? entry.why_not(leaves) : difference;
    for (const std::string& line : config::split(failures, '\n'))
      out += message("\n  {}: {}", entry.id, line);
  }
  return out;
}

struct Limit {
  std::string_view flag;
  Eager reason = Eager::none;
  int64_t value = 0, n_compiled = 0;
  bool reached = false;
};

bool sets(const Site& site, std::string_view flag) {
  return std::ranges::any_of(site.options.options, [&](const auto& option) {
    return option.first.find('.') != std::string::npos && config::info(option.first).key == flag;
  });
}

// A limit of the callable's own is meant: that of the process does not cut it short.
int64_t accumulated_limit_of(const Site& site) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  bool is_own =
      sets(site, "dynamo.recompile_limit") && !sets(site, "dynamo.accumulated_recompile_limit");
  if (!is_own) return flags.accumulated_recompile_limit;
  auto n_segments = std::max<int64_t>(1, static_cast<int64_t>(site.segment_versions.size()));
  bool fits = flags.recompile_limit <= INT64_MAX / n_segments;
  int64_t own = fits ? flags.recompile_limit * n_segments : INT64_MAX;
  return std::max<int64_t>(flags.accumulated_recompile_limit, own);
}

Limit limit_of(const Site& site) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  int64_t n = site.versions.size();
  if (n >= flags.recompile_limit)
    return {"recompile_limit", Eager::recompile_limit, flags.recompile_limit, n, true};
  // Segments of cut bodies count here, too.
  n = std::max<int64_t>(site.attempts.load(), site.compiles);
  if (n < flags.accumulated_recompile_limit) return {};
  int64_t limit = accumulated_limit_of(site);
  return {"accumulated_recompile_limit", Eager::accumulated_recompile_limit, limit, n, n >= limit};
}

bool fails_on_recompile() {
  return config::flags().dynamo.error_on_recompile ||
         compiler::get_stance() == compiler::Stance::fail_on_recompile;
}

}  // namespace

bool is_given_up(const Site& site) {
  require(
      !site.run_only || !fails_on_recompile(), ErrorCode::recompile,
      "a recompile is needed: callable {} runs this call as it is, since a limit was reached or "
      "an error suppressed before",
      display_name(site));
  return site.run_only;
}

namespace {

// Finds out why no version serves the call, and tells it as flags ask.
std::string note_recompile(Site& site, const Leaves& leaves, const std::string& difference) {
  if (site.versions.size() == 0) return "";
  bool report_reasons = config::flags().dynamo.report_guard_failures;
  std::string reason = report_reasons ? guard_failures(site, leaves, difference) : "";
  if (site.unit) site.unit->note_recompile(reason);
  if (report_reasons) {
    constexpr size_t most_kept = 64;
    if (site.recompile_reasons.size() == most_kept)
      site.recompile_reasons.erase(site.recompile_reasons.begin());
    site.recompile_reasons.push_back(reason);
    report::log_line(report::LogLevel::debug, "guards", "recompiling: " + reason);
    report::log_artifact("recompiles", message("{}: {}", display_name(site), reason));
    if (report::artifact_enabled("recompiles_verbose"))
      report::log_artifact("recompiles_verbose", every_failure(site, leaves, difference));
  }
  require(!fails_on_recompile(), ErrorCode::recompile, "a recompile is needed: {}",
          report_reasons ? reason : "dynamo.report_guard_failures is off");
  return reason;
}

// What was reached and why, with a next step that helps against that reason.
std::string limit_text(const Site& site, const Limit& limit, const Leaves& leaves,
                       const std::string& difference) {
  if (limit.value == 0)
    return message("callable {} is not compiled, since the limit dynamo.{} is 0; raise the limit",
                   display_name(site), limit.flag);
  bool has_reason = site.versions.size() > 0 && config::flags().dynamo.report_guard_failures;
  constexpr uint32_t most = 2;
  std::string reason = has_reason ? guard_failures(site, leaves, difference, most) : "";
  std::string_view advice =
      has_reason ? advice_on_failures(site, leaves, difference, most) : std::string_view();
  return message(
      "callable {} was compiled {} times, the limit dynamo.{} is {}{}{}; {}{}raise the limit",
      display_name(site), limit.n_compiled, limit.flag, limit.value,
      has_reason ? "; last reason: " : "", reason, advice, advice.empty() ? "" : ", or ");
}

// No more versions: what capture.on_limit says.
Miss at_limit(Site& site, const Limit& limit, const std::function<std::string()>& text_of,
              WaitingEvents& waiting) {
  Choice then = config::flags().capture.on_limit;
  bool is_first = !site.limit_reported.exchange(true);
  bool is_error = config::flags().dynamo.fail_on_recompile_limit_hit || then == "error" ||
                  site.options.fullgraph;
  std::string text = is_first || is_error ? text_of() : "";
  site.eager_because = limit.reason;
  if (is_first && report::has_observers())
    waiting.events.push_back({compiler::EventKind::limit, display_name(site), text});
  require(!is_error, ErrorCode::recompile_limit, "{}", text);
  if (is_first) report::log_line(report::LogLevel::warning, "runtime", text);
  if (then == "evict_lru" && limit.flag == "recompile_limit" && limit.value > 0) {
    site.versions.drop_last();
    return Miss::compile;
  }
  if (then == "replay") return Miss::replay;
  site.run_only = true;
  return Miss::eager;
}

}  // namespace

namespace {

Eager eager_for_now() {
  if (config::flags().dynamo.disable) return Eager::disabled;
  bool only_uses = compiler::get_stance() == compiler::Stance::eager_on_recompile;
  return only_uses ? Eager::stance : Eager::none;
}

// Whether nothing is compiled, whatever the limits say.
Eager eager_anyway(const Site& site) {
  return site.run_only ? site.eager_because.load() : eager_for_now();
}

void count_recompile(const Site& site, const std::string& reason, WaitingEvents& waiting) {
  if (site.versions.size() == 0) return;
  report::count_in("recompiles", display_name(site));
  if (report::has_observers())
    waiting.events.push_back({compiler::EventKind::recompile, display_name(site), reason});
}

}  // namespace

Miss what_to_do(Site& site, const Leaves& leaves, FunctionRef<bool()> has_come,
                const std::string& difference) {
  check_flag_conflicts();
  if (Eager reason = eager_anyway(site); reason != Eager::none) {
    site.eager_because = reason;
    return Miss::eager;
  }
  WaitingEvents waiting;
  std::lock_guard lock(site.changing);
  if (has_come()) return Miss::look_again;
  std::string reason = note_recompile(site, leaves, difference);
  Limit limit = limit_of(site);
  auto text_of = [&] { return limit_text(site, limit, leaves, difference); };
  Miss then = limit.reached ? at_limit(site, limit, text_of, waiting) : Miss::compile;
  if (then == Miss::compile) count_recompile(site, reason, waiting);
  return then;
}

bool compiles_nothing_new() { return eager_for_now() != Eager::none; }

bool may_compile_segment(Site& site, size_t place, int64_t n_alike) {
  WaitingEvents waiting;
  std::lock_guard lock(site.changing);
  bool is_second = site.versions.size() > 0 && site.segment_versions[place] > 0;
  require(!is_second || !fails_on_recompile(), ErrorCode::recompile,
          "a recompile is needed: segment {} of callable {} is another one than before", place,
          display_name(site));
  int64_t limit = config::flags().dynamo.recompile_limit;
  Choice then = config::flags().capture.on_limit;
  bool is_error = config::flags().dynamo.fail_on_recompile_limit_hit || then == "error";
  int64_t n_before = std::max(site.segment_versions[place]++, n_alike);
  if (n_before < limit || !(is_error || then == "eager")) return true;
  std::string text = message(
      "segment {} of callable {} was compiled {} times, the limit dynamo.recompile_limit is {}; "
      "further kinds of it run op by op: keep what it does alike from call to call, or raise the "
      "limit",
      place, display_name(site), limit, limit);
  bool is_first = !site.limit_reported.exchange(true);
  site.eager_because = Eager::recompile_limit;
  if (is_first && report::has_observers())
    waiting.events.push_back({compiler::EventKind::limit, display_name(site), text});
  require(!is_error, ErrorCode::recompile_limit, "{}", text);
  if (is_first) report::log_line(report::LogLevel::warning, "runtime", text);
  return false;
}

void check_shared_inputs(const Leaves& leaves) {
  int64_t limit = config::flags().functorch._max_aliased_inputs_with_dynamic_shapes_enabled;
  std::map<const Storage*, int64_t> sharing;
  int64_t most = 0;
  for (const Tensor* t : leaves.tensors.span())
    if (t->defined()) most = std::max(most, ++sharing[impl_of(*t)->storage_ref.get()]);
  require(most <= limit || most == 1, ErrorCode::unsupported,
          "{} inputs share memory, one of them is written, and sizes are symbolic; the limit "
          "functorch._max_aliased_inputs_with_dynamic_shapes_enabled is {}; compile with .dynamic "
          "= false, or mark the sizes static",
          most, limit);
}

void exclude_older(const Site& site, Entry& entry) {
  if (!config::flags().dynamo.automatic_dynamic_exclusion_guard ||
      entry.recorded.guards.loads.empty())
    return;
  for (uint32_t i = 0; i < site.versions.size(); ++i)
    if (const Entry* older = site.versions[i];
        older->recorded.guards.loads.empty() && !older->replays())
      entry.excluded.push_back(site.versions.shared(*older));
}

bool hides_error(Site& site, std::optional<size_t> place, std::string_view error) {
  if (!config::flags().dynamo.suppress_errors) return false;
  site.eager_because = Eager::suppressed_error;
  if (!place) site.run_only = true;
  if (site.suppressed_errors++ > 0) return true;
  std::string segment = place ? message("segment {} of ", *place) : "";
  report::log_line(report::LogLevel::warning, "runtime",
                   message("{}callable {} could not be compiled and runs as it is "
                           "(dynamo.suppress_errors): {}",
                           segment, display_name(site), error));
  return true;
}

// An error that the body throws now is its own: it is thrown on, and the callable not given up.
void serve_or_run_eagerly(Site& site, const detail::Body& body, FunctionRef<void()> serve) {
  std::string error;
  try {
    return serve();
  } catch (const RunsAsItIs& hidden) {
    error = hidden.what();
  }
  config::OptionScope options(site.flags);
  run_eagerly(site, body, Eager::suppressed_error);
  static_cast<void>(hides_error(site, std::nullopt, error));
}

}  // namespace tenon
