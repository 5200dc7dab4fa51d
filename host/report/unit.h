// Units: what the report of a program tells about. A unit is a compiled callable, a loaded model, or
// the compiled backward passes of the process.
//
//   Unit* unit = find_unit(UnitKind::callable, "step");     // null unless a report is wanted
//   TimeScope time(unit, Work::call);                       // of this thread, until its scope ends
//   if (unit) unit->note_break("item() at train.cpp:12");
//
// Times are exclusive: what a scope measures is taken from the one around it, so the times of a
// thread add up to what it spent. Memory is bounded: 256 units, of each the first 64 of each kind of
// text and 24 graphs; what is left out is counted. Units are never freed.
//
// Cost: two reads of the clock a scope; without a unit, one comparison.
// Threads: all functions may be called from any thread; a scope belongs to its thread.
#pragma once

#include "report/unit_facts.h"

#include <memory>
#include <string_view>

namespace tenon::report {

/// What a thread spends its time with.
enum class Work : uint8_t {
  call,       ///< of a call what is none of the others: guards, the body, wrappers
  forward,    ///< compiled code, but for
  backward,   ///< that of backward halves
  eager,      ///< bodies that run as they are
  trace,      ///< recording bodies
  guards,     ///< making guards
  joint,      ///< differentiating
  partition,  ///< cutting joint graphs
  lower,      ///< removing mutation, decomposing
  cache,      ///< asking the cache on disk
  load,       ///< loading code
  backend,    ///< backends at work
  compile     ///< of a compilation what is none of the others
};
constexpr size_t n_works = static_cast<size_t>(Work::compile) + 1;
/// "trace"; the names of CompilePhase.
std::string_view name_of(Work work);
/// The one of that name; compile for others.
Work work_of(std::string_view phase);

class Unit;
/// The unit of that name, made at the first call; null unless a report or a trace is wanted. Beyond
/// 256 one unit stands for all others.
Unit* find_unit(UnitKind kind, const std::string& name);

class Unit {
 public:
  Unit(UnitKind kind, std::string name) : kind_(kind), name_(std::move(name)) {}

  void add_time(Work work, int64_t ns);
  /// Counts of a callable that ends or begins anew.
  void add(const UnitFigures& figures);
  void note_break(std::string_view where);
  void note_eager(std::string_view why);
  void note_cache(std::string_view said);
  void note_recompile(std::string_view why);
  void note_version(VersionFacts version);
  void note_saved(SavedFacts saved);
  /// The time that its code takes is added to the result, which may know how to ask the code.
  std::shared_ptr<CodeTime> note_graph(GraphFacts graph);

  /// All so far.
  UnitFacts facts() const;
  const std::string& name() const { return name_; }
  /// Whether work of it is to be an event of the trace: its first 30,000 pieces are.
  bool takes_event();

 private:
  struct alignas(64) Times {
    std::array<std::atomic<int64_t>, n_works> ns{}, n{};
  };
  void bound_graphs();
  friend Unit* find_unit(UnitKind kind, const std::string& name);

  std::atomic<int64_t> n_events_{0};
  const UnitKind kind_;
  const std::string name_;
  std::array<Times, 8> times_;  ///< threads share one rarely
  /// By graph of the facts.
  std::vector<std::shared_ptr<CodeTime>> code_times_;
  UnitFacts facts_;  ///< but for kind, name and times; one lock guards those of all
};

/// All of them, in the order in which they were made.
std::vector<UnitFacts> all_units();
/// The unit that this thread is at work for, or null.
Unit* current_unit();

/// Adds what units have counted elsewhere so far.
using FigureSource = void (*)(std::map<const Unit*, UnitFigures>& figures);
void add_figure_source(FigureSource source);

class [[nodiscard]] TimeScope {
 public:
  /// The time counts for `code`, too.
  TimeScope(Unit* unit, Work work, CodeTime* code = nullptr) : unit_(unit) {
    if (unit) begin(work, code);
  }
  /// For the unit that the thread is at work for.
  explicit TimeScope(Work work) : TimeScope(current_unit(), work) {}
  ~TimeScope() {
    if (unit_) end();
  }
  TimeScope(const TimeScope&) = delete;
  TimeScope& operator=(const TimeScope&) = delete;

 private:
  friend Unit* current_unit();
  void begin(Work work, CodeTime* code);
  void end();
  std::string_view event_name() const;

  Unit* unit_;  ///< null: what follows is not set
  Work work_;
  CodeTime* code_;
  bool is_event_;                 ///< of the trace
  int64_t begun_ns_, inside_ns_;  ///< the latter: of scopes inside of this one
  TimeScope* outer_;
};

}  // namespace tenon::report
