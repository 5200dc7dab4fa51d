// The list of units, their times and facts.
#include "report/unit.h"

#include "config/flags.h"
#include "report/events.h"
#include "report/program_report.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>

namespace tenon::report {

namespace {

constexpr std::string_view work_names[n_works] = {
    "call",      "forward", "backward", "eager", "trace",   "guards", "joint",
    "partition", "lower",   "cache",    "load",  "backend", "compile"};

int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

struct Units {
  std::mutex facts_lock;  ///< guards all below, and the facts of all units
  std::deque<Unit> list;
  std::map<std::pair<UnitKind, std::string>, Unit*, std::less<>> by_name;
  Unit* others = nullptr;
  std::vector<FigureSource> sources;
};
Units& units() {
  static Units& units = *new Units();
  // A child must not find it locked by a thread that it lacks.
  [[maybe_unused]] static const int registered =
      ::pthread_atfork([] { units.facts_lock.lock(); }, [] { units.facts_lock.unlock(); },
                       [] { units.facts_lock.unlock(); });
  return units;
}

thread_local TimeScope* innermost = nullptr;

size_t my_shard() {
  static std::atomic<size_t> next{0};
  thread_local const size_t shard = next.fetch_add(1, std::memory_order_relaxed);
  return shard;
}

}  // namespace

std::string_view name_of(Work work) { return work_names[static_cast<size_t>(work)]; }

Work work_of(std::string_view phase) {
  const auto* found = std::ranges::find(work_names, phase);
  return found == std::end(work_names) ? Work::compile : static_cast<Work>(found - work_names);
}

UnitFigures& UnitFigures::operator+=(const UnitFigures& o) {
  calls += o.calls;
  hits += o.hits;
  compiles += o.compiles;
  replays += o.replays;
  eager_calls += o.eager_calls;
  graph_breaks += o.graph_breaks;
  after_limit += o.after_limit;
  suppressed_errors += o.suppressed_errors;
  return *this;
}

void CountedTexts::add(std::string_view text) {
  constexpr size_t most_texts = 64;
  auto found = std::ranges::find(counts_, text, &std::pair<std::string, int64_t>::first);
  if (found != counts_.end())
    ++found->second;
  else if (counts_.size() < most_texts)
    counts_.emplace_back(text, 1);
  else
    ++n_others_;
}

int64_t CountedTexts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), n_others_,
                         [](int64_t sum, const auto& c) { return sum + c.second; });
}

// ---- facts

void Unit::add_time(Work work, int64_t ns) {
  Times& mine = times_[my_shard() % times_.size()];
  size_t i = static_cast<size_t>(work);
  mine.ns[i].fetch_add(ns, std::memory_order_relaxed);
  mine.n[i].fetch_add(1, std::memory_order_relaxed);
}

void Unit::add(const UnitFigures& figures) {
  std::lock_guard lock(units().facts_lock);
  facts_.figures += figures;
}

void Unit::note_break(std::string_view where) {
  std::lock_guard lock(units().facts_lock);
  facts_.breaks.add(where);
}

void Unit::note_eager(std::string_view why) {
  std::lock_guard lock(units().facts_lock);
  facts_.eager.add(why);
}

void Unit::note_cache(std::string_view said) {
  std::lock_guard lock(units().facts_lock);
  facts_.cache.add(said);
}

void Unit::note_recompile(std::string_view why) {
  std::lock_guard lock(units().facts_lock);
  facts_.recompiles.add({std::string(why), seconds_of_report()});
}

void Unit::note_version(VersionFacts version) {
  version.at_s = seconds_of_report();
  std::lock_guard lock(units().facts_lock);
  facts_.versions.add(std::move(version));
}

void Unit::note_saved(SavedFacts saved) {
  std::lock_guard lock(units().facts_lock);
  facts_.saved.add(std::move(saved));
}

std::shared_ptr<CodeTime> Unit::note_graph(GraphFacts graph) {
  auto time = std::make_shared<CodeTime>();
  std::lock_guard lock(units().facts_lock);
  ++facts_.n_graphs;
  facts_.graphs.push_back(std::move(graph));
  code_times_.push_back(time);
  bound_graphs();
  return time;
}

// Of the older ones, that whose code took least time goes.
void Unit::bound_graphs() {
  constexpr size_t most_graphs = 24, newest = 8;
  if (facts_.graphs.size() <= most_graphs) return;
  auto victim = std::min_element(code_times_.begin(), code_times_.end() - newest,
                                 [](const auto& a, const auto& b) { return a->ns < b->ns; });
  facts_.graphs.erase(facts_.graphs.begin() + (victim - code_times_.begin()));
  code_times_.erase(victim);
}

bool Unit::takes_event() {
  constexpr int64_t most_events = 30'000;
  int64_t n = n_events_.fetch_add(1, std::memory_order_relaxed);
  if (n == most_events)
    instant("later calls are left out", "run", name_, {{"events", most_events}});
  return n < most_events;
}

static Told told_by(CodeTime& code) {
  std::lock_guard lock(code.asking);
  return code.ask ? code.ask() : code.told;
}

UnitFacts Unit::facts() const {
  UnitFacts out;
  std::vector<std::shared_ptr<CodeTime>> codes;
  {
    std::lock_guard lock(units().facts_lock);
    out = facts_;
    codes = code_times_;
  }
  for (size_t i = 0; i < out.graphs.size(); ++i) {
    out.graphs[i].calls = codes[i]->calls;
    out.graphs[i].ns = codes[i]->ns;
    out.graphs[i].told = told_by(*codes[i]);
  }
  out.kind = kind_;
  out.name = name_;
  out.times.resize(n_works);
  for (const Times& t : times_)
    for (size_t i = 0; i < n_works; ++i) {
      out.times[i].ns += t.ns[i].load(std::memory_order_relaxed);
      out.times[i].n += t.n[i].load(std::memory_order_relaxed);
    }
  return out;
}

// ---- the list

Unit* find_unit(UnitKind kind, const std::string& name) {
  constexpr size_t most_units = 256;
  if (!report_wanted() && !tracing()) return nullptr;
  Units& all = units();
  std::lock_guard lock(all.facts_lock);
  if (auto known = all.by_name.find(std::pair{kind, name}); known != all.by_name.end()) {
    ++known->second->facts_.n_joined;
    return known->second;
  }
  if (all.list.size() < most_units)
    return all.by_name[{kind, name}] = &all.list.emplace_back(kind, name);
  if (all.others)
    ++all.others->facts_.n_joined;
  else
    all.others = &all.list.emplace_back(UnitKind::callable, "all others");
  return all.others;
}

void add_figure_source(FigureSource source) {
  std::lock_guard lock(units().facts_lock);
  units().sources.push_back(source);
}

std::vector<UnitFacts> all_units() {
  std::vector<const Unit*> list;
  std::vector<FigureSource> sources;
  {
    std::lock_guard lock(units().facts_lock);
    for (const Unit& unit : units().list) list.push_back(&unit);
    sources = units().sources;
  }
  std::map<const Unit*, UnitFigures> figures;
  for (FigureSource source : sources) source(figures);
  std::vector<UnitFacts> out;
  for (const Unit* unit : list) {
    out.push_back(unit->facts());
    out.back().figures += figures[unit];
  }
  return out;
}

// ---- time

Unit* current_unit() { return innermost ? innermost->unit_ : nullptr; }

// Phases of compilations are events already.
static bool is_running(Work work) { return work <= Work::eager; }

std::string_view TimeScope::event_name() const {
  return work_ == Work::call ? std::string_view(unit_->name()) : name_of(work_);
}

void TimeScope::begin(Work work, CodeTime* code) {
  work_ = work;
  code_ = code;
  is_event_ = is_running(work) && tracing() && unit_->takes_event();
  if (is_event_) detail::emit(Phase::begin, event_name(), "run", {}, {});
  inside_ns_ = 0;
  outer_ = std::exchange(innermost, this);
  begun_ns_ = now_ns();
}

void TimeScope::end() {
  int64_t taken = now_ns() - begun_ns_;
  innermost = outer_;
  if (outer_) outer_->inside_ns_ += taken;
  unit_->add_time(work_, taken - inside_ns_);
  if (is_event_) detail::emit(Phase::end, event_name(), "run", {}, {});
  if (!code_) return;
  code_->ns.fetch_add(taken - inside_ns_, std::memory_order_relaxed);
  code_->calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tenon::report
