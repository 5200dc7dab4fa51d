// What happens on every call of a compiled callable.
#include "runtime/call.h"

#include "aot/joint_pass.h"
#include "backend/backend.h"
#include "backend/device_graphs.h"
#include "capture/outside.h"
#include "config/flag_def.h"
#include "config/flags.h"
#include "config/toml.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/inline_vector.h"
#include "core/kept_numbers.h"
#include "core/process_end.h"
#include "core/tensor/owner_thread.h"
#include "report/events.h"
#include "report/log.h"
#include "report/stack.h"
#include "runtime/compiled_backward.h"
#include "runtime/limits.h"
#include "runtime/overrides.h"
#include "runtime/stance.h"
#include "runtime/summary.h"
#include "runtime/verify.h"

#include <tenon/compiler.h>

#include <map>

namespace tenon {

void (*miss_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                  detail::CallResult&) = nullptr;
void (*follow_entry_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                          detail::CallResult&) = nullptr;
void (*replay_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                    detail::CallResult&) = nullptr;
bool (*verify_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                    detail::CallResult&) = nullptr;

std::shared_ptr<void> (*compiled_backward_slot)(const Options&) = nullptr;
void (*forget_backward_slot)() = nullptr;

namespace {

bool sets_just(const std::string& key, const config::TomlNode& root) {
  const config::TomlNode* node = &root;
  for (const std::string& part : config::split(key, '.')) {
    bool is_only = node->kind == config::TomlNode::Kind::table && node->members.size() == 1 &&
                   node->members[0].name == part;
    if (!is_only) return false;
    node = &node->members[0].node;
  }
  return true;
}

// The text of a value may come from outside of the program: its lines are not to set other options.
void require_one_option(const std::string& key, const std::string& value) {
  config::TomlNode root =
      config::parse_toml(message("{} = {}", key, value), message("option '{}'", key));
  require(sets_just(key, root), ErrorCode::config,
          "option '{}': expected a name and one TOML value, found text that sets other options, "
          "too; give each option as an entry of its own",
          key);
}

}  // namespace

OptionTexts option_texts(const std::map<std::string, std::string>& options) {
  OptionTexts texts;
  for (const auto& [key, value] : options) {
    require_one_option(key, value);
    bool is_flag = key.find('.') != std::string::npos;
    (is_flag ? texts.flags : texts.backend) += key + " = " + value + "\n";
  }
  return texts;
}

namespace detail {

namespace {

std::mutex all_sites_lock;
std::map<Site*, std::weak_ptr<Site>>& all_sites() {
  static auto* sites = new std::map<Site*, std::weak_ptr<Site>>;
  return *sites;
}

}  // namespace

void ChangeLock::lock() {
  require(!is_mine(), ErrorCode::unsupported,
          "callable {} is being compiled by this thread, and its backend calls or resets it; do so "
          "after the call that compiles",
          display_name(site_));
  mutex_.lock();
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

bool ChangeLock::try_lock() {
  if (is_mine() || !mutex_.try_lock()) return false;
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  return true;
}

void ChangeLock::unlock() {
  owner_.store({}, std::memory_order_relaxed);
  mutex_.unlock();
}

Site::Site(Options o) : options(std::move(o)), number(next_compile_number()) {
  if (options.recompile_limit)
    options.options["dynamo.recompile_limit"] = std::to_string(*options.recompile_limit);
  unit = report::find_unit(report::UnitKind::callable, display_name(*this));
  std::string own_flags = option_texts(options.options).flags;
  if (own_flags.empty()) return;
  flags = config::check_options(own_flags);
  config::OptionScope scope(flags);
  const config::Flags& own = config::flags();
  auto sets = [&](const char* flag) { return options.options.contains(flag); };
  if (sets("capture.mode")) own_mode = own.capture.mode;
  if (sets("dynamo.disable")) own_disable = own.dynamo.disable;
  if (sets("dynamo.compiled_autograd")) own_compiled_autograd = own.dynamo.compiled_autograd;
}

Site::Counters& Site::my_counters() { return counters[VersionList<Entry>::my_shard()]; }

bool Site::skips_bodies(const config::Flags& flags) const {
  Choice mode = own_mode ? *own_mode : flags.capture.mode;
  return (mode == "hit" || (options.pure && mode != "replay")) &&
         !was_stale.load(std::memory_order_relaxed);
}

void Site::move_to_front(uint32_t from) {
  std::unique_lock lock(changing, std::try_to_lock);
  if (lock) versions.move_to_front(from);
}

static report::UnitFigures figures_of(const Site& site) {
  report::UnitFigures out;
  for (const Site::Counters& c : site.counters) {
    out.calls += c.calls;
    out.hits += c.hits;
  }
  out.compiles = site.compiles;
  out.replays = site.replays;
  out.eager_calls = site.eager_calls;
  out.graph_breaks = site.graph_breaks;
  out.after_limit = site.eager_after_limit;
  out.suppressed_errors = site.suppressed_errors;
  return out;
}

// Its counts, before they begin anew or go.
void Site::add_to_process() {
  int64_t evaluations = 0, failures = 0;
  for (const Counters& c : counters) {
    evaluations += c.calls - c.unserved + c.guard_failures;
    failures += c.guard_failures;
  }
  static report::Counter &evals = report::counter("guard.evals"),
                         &failed = report::counter("guard.failures");
  evals.add(evaluations);
  failed.add(failures);
  if (unit) unit->add(figures_of(*this));
}

Site::~Site() { add_to_process(); }

void Site::reset() {
  std::lock_guard lock(changing);
  add_to_process();
  versions.clear();
  segments.clear();
  segment_versions.clear();
  memory = {};
  attempts = 0;
  limit_reported = false;
  run_only = false;
  calls_backward = false;
  recompile_reasons.clear();
  was_stale = false;
  compiles = replays = eager_calls = graph_breaks = 0;
  eager_after_limit = suppressed_errors = 0;
  eager_because = Eager::none;
  break_reasons.clear();
  had_first_call = false;
  for (Counters& c : counters) c.calls = c.hits = c.unserved = c.guard_failures = 0;
}

// Code that goes may take callables with it, whose sites ask for the lock.
static std::vector<std::shared_ptr<Site>> sites_alive() {
  std::vector<std::shared_ptr<Site>> sites;
  std::lock_guard lock(all_sites_lock);
  for (auto& [site, alive] : all_sites())
    if (auto own = alive.lock()) sites.push_back(std::move(own));
  return sites;
}

void each_site(FunctionRef<void(Site&)> f) {
  std::lock_guard lock(all_sites_lock);
  for (auto& [site, alive] : all_sites()) f(*site);
}

namespace {

// The callables that there are; what is gone is counted already.
void count_guards(std::map<std::string, int64_t>& counters) {
  each_site([&](const Site& site) {
    for (const Site::Counters& c : site.counters) {
      counters["guard.evals"] += c.calls - c.unserved + c.guard_failures;
      counters["guard.failures"] += c.guard_failures;
    }
  });
}

void count_calls(std::map<const report::Unit*, report::UnitFigures>& figures) {
  each_site([&](const Site& site) {
    if (site.unit) figures[site.unit] += figures_of(site);
  });
}

const bool counts_guards = (report::add_counter_source(&count_guards), true);
const bool counts_calls = (report::add_figure_source(&count_calls), true);

}  // namespace

void check_options(const Options& options) {
  std::string own = option_texts(options.options).backend;
  require(
      options.mode.empty() || own.empty(), ErrorCode::config,
      "mode '{}' and options ({}) are given together; expected one of them, since a mode is a set "
      "of options: both can't be specified at the same time",
      options.mode, own.substr(0, own.find('\n')));
  if (!options.backend.empty()) check_backend_options(options.backend, options.mode, own);
}

std::shared_ptr<Site> make_site(const Options& options) {
  std::shared_ptr<Site> site(new Site(options), [](Site* s) {
    {
      std::lock_guard lock(all_sites_lock);
      all_sites().erase(s);
    }
    keep_for_summary(*s);
    delete s;
  });
  write_summary_at_exit();
  std::lock_guard lock(all_sites_lock);
  all_sites().emplace(site.get(), site);
  return site;
}

// Flag dynamo.error_on_nested_fx_trace. A capture takes inner callables in, and so does what records
// the definition of an op: lowering, compiled autograd. The program's own tracers do not.
static void require_nesting_allowed(const Site& site) {
  require(!is_in_joint_pass() || !config::flags().dynamo.error_on_nested_fx_trace,
          "callable {} is compiled and was called while a graph tracer records; call the plain "
          "function, or set dynamo.error_on_nested_fx_trace = false to trace through it",
          display_name(site));
}

// Threads share a group of counters rarely: a count that is lost then does not matter.
static void add(std::atomic<int64_t>& counter, int64_t n) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

/// Keeps the arguments while the body runs, which may assign to the very handles that the caller has
/// passed: `f(last)` with `last = x` in the body. Afterwards the leaves are the caller's again.
class HeldArguments {
 public:
  explicit HeldArguments(const Leaves& leaves) : leaves_(leaves.tensors) {
    for (size_t i = 0; i < leaves_.size(); ++i) held_.push_back({leaves_[i], *leaves_[i]});
    for (size_t i = 0; i < held_.size(); ++i) place(i) = &held_[i].tensor;
  }
  ~HeldArguments() {
    for (size_t i = 0; i < held_.size(); ++i) place(i) = held_[i].given;
  }
  HeldArguments(const HeldArguments&) = delete;

 private:
  struct Held {
    const Tensor* given;
    Tensor tensor;
  };
  // The array is a local variable of the call, and nobody else's.
  const Tensor*& place(size_t i) { return const_cast<const Tensor*&>(leaves_.data()[i]); }

  const LeafArray<const Tensor*, 24>& leaves_;
  InlineVector<Held, 24> held_;  // calls that are quick need no heap
};

// Arguments may be numbers that an earlier call has left behind. The array is the call's, as above.
static void make_plain(const Leaves& leaves) {
  for (Number& n : const_cast<Leaves&>(leaves).numbers)
    if (n.is_symbolic()) [[unlikely]]
      n = with_kept_values(n);
}

// Inside another recording the body is part of the outer graph. Where an op is only asked what its
// results look like, it is a part of that answer.
static bool is_within_another() {
  return thread_modes.tracer || (thread_modes.include & bit(Key::meta));
}

// A call that would be served, were it not for a stance or flag. Within a recording the body is part
// of that, and the call none.
static void call_uncompiled(Site& site, const Body& body, Eager reason) {
  if (is_within_another()) return body.run_eager(body.context);
  Site::Counters& counters = site.my_counters();
  add(counters.calls, 1);
  add(counters.unserved, 1);
  run_eagerly(site, body, reason);
}

static bool runs_body(const Entry& entry, bool skips_bodies) {
  return entry.replays() || !skips_bodies;
}

static bool takes(const Entry& entry, const Leaves& leaves, bool skips_bodies) {
  return runs_body(entry, skips_bodies) ? entry.accepts(leaves) : entry.serves(leaves);
}

bool has_version_for(const Site& site, const Leaves& leaves) {
  bool skips_bodies = site.skips_bodies();
  for (uint32_t i = 0; i < site.versions.size(); ++i)
    if (takes(*site.versions[i], leaves, skips_bodies)) return true;
  return false;
}

bool serve_by_version(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  Site::Counters& counters = site.my_counters();
  uint32_t n = site.versions.size(), stance = stance_in_effect();
  bool skips_bodies = site.skips_bodies(), skips_guards = n == 1 && skips_guards_in(stance);
  for (uint32_t i = 0; i < n; ++i) {
    Entry* entry = site.versions[i];
    bool is_taken =
        (skips_guards && entry->has_like_leaves(leaves)) || takes(*entry, leaves, skips_bodies);
    if (!is_taken) continue;
    if (i > 0) {
      add(counters.guard_failures, i);
      site.move_to_front(i);
    }
    ConstantsScope constants(&entry->constants);
    if (runs_body(*entry, skips_bodies)) {
      HeldArguments held(leaves);
      follow_entry_slot(site, *entry, leaves, body, result);
      return true;
    }
    if (is_due(site, *entry, leaves)) {
      HeldArguments held(leaves);
      if (verify_slot(site, *entry, leaves, body, result)) return true;
    }
    add(counters.hits, 1);
    result.prototype = entry->recorded.prototype.get();
    autograd::RequestsOfCall brings(entry->recorded.requests);
    entry->run({leaves}, result);
    return true;
  }
  return false;
}

void call_site(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  uint32_t stance = stance_in_effect();
  if (site.options.disable || is_in(stance, compiler::Stance::force_eager) || is_uncompiled() ||
      is_process_ending()) {
    bool is_asked_for = site.options.disable || is_uncompiled() || is_process_ending();
    return is_asked_for ? body.run_eager(body.context) : call_uncompiled(site, body, Eager::stance);
  }
  const config::DynamoFlags& flags = config::flags().dynamo;
  if (is_within_another() || site.own_disable.value_or(flags.disable)) {
    require_nesting_allowed(site);
    return call_uncompiled(site, body, Eager::disabled);
  }
  for (const Tensor* t : leaves.tensors) require_own_thread(*t, "calling a compiled callable");
  make_plain(leaves);
  report::TimeScope time(site.unit, report::Work::call);
  GraphCall recordings;
  std::shared_ptr<void> backward;
  if (site.own_compiled_autograd.value_or(flags.compiled_autograd)) {
    config::OptionScope options(site.flags);
    backward = compiled_backward_slot(site.options);
  }
  if (stance != 0 && serve_by_stance(site, leaves, body, result)) return;
  VersionList<Entry>::Reading reading(site.versions);
  Site::Counters& counters = site.my_counters();
  add(counters.calls, 1);
  if (serve_by_version(site, leaves, body, result)) return;
  add(counters.unserved, 1);
  add(counters.guard_failures, site.versions.size());
  HeldArguments held(leaves);
  miss_slot(site, leaves, body, result);
}

CallStats site_stats(const Site& site) {
  CallStats out;
  {
    std::lock_guard lock(site.others_lock);
    for (const auto& [backend, other] : site.with_backend) out += site_stats(*other);
  }
  for (const Site::Counters& c : site.counters) {
    out.calls += c.calls.load(std::memory_order_relaxed);
    out.hits += c.hits.load(std::memory_order_relaxed);
  }
  out.compiles += site.compiles;
  out.replays += site.replays;
  out.eager_calls += site.eager_calls;
  out.graph_breaks += site.graph_breaks;
  out.eager_calls_after_limit += site.eager_after_limit;
  return out;
}

void reset_site(Site& site) {
  site.reset();
  std::lock_guard lock(site.others_lock);
  for (const auto& [backend, other] : site.with_backend) other->reset();
}

void fail_assigned_argument() {
  fail(
      "the body of a compiled callable makes an object longer or shorter, or aims pointers in it "
      "elsewhere, that a smart pointer or span among its arguments points to, and that holds smart "
      "pointers itself or cannot be assigned; return what is new, or capture the object");
}

void fail_part_of_object(const std::type_info& whole, const std::type_info& part) {
  std::string base = report::demangled(part.name());
  fail(
      "an argument or result of a compiled callable is a {} behind a pointer or reference to its "
      "base "
      "{}, by which it cannot be copied; name its own type, or make {} opaque (TENON_OPAQUE in "
      "place of "
      "TENON_TREE) and hold it in a shared_ptr: then the body gets the object itself",
      report::demangled(whole.name()), base, base);
}

void require_changes_are_seen(const Site& site) {
  require(
      !site.skips_bodies(), ErrorCode::unsupported,
      "the body of callable {} assigns through a smart pointer or span among its arguments, and "
      "is stated pure; return what is new, or leave out Options::pure",
      display_name(site));
}

void require_views_are_seen(const Site& site) {
  require(!site.skips_bodies(), ErrorCode::unsupported,
          "the body of callable {} returns a span, a text view or a pointer to a part of its "
          "arguments, "
          "and is stated pure; return the part by value, or leave out Options::pure",
          display_name(site));
}

void fail_null_callable() {
  fail(
      "compile() was given a null pointer or an empty function; expected something to call: a "
      "function, an object with a call operator, or a shared pointer to a module");
}

void fail_empty_callable() {
  fail(
      "this compiled callable is empty: it was moved from, or never assigned; call the one that it "
      "was moved to");
}

}  // namespace detail

CallStats& CallStats::operator+=(const CallStats& other) {
  calls += other.calls;
  hits += other.hits;
  compiles += other.compiles;
  replays += other.replays;
  eager_calls += other.eager_calls;
  graph_breaks += other.graph_breaks;
  eager_calls_after_limit += other.eager_calls_after_limit;
  return *this;
}

void reset() {
  forget_backward_slot();
  for (const auto& site : detail::sites_alive()) site->reset();
  forget_recordings();
  report::reset_counters();
  report::forget_warnings();
}

}  // namespace tenon
