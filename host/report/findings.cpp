// Rules: each looks at one unit and may have something to say.
#include "report/findings.h"

#include "core/error.h"

#include <algorithm>
#include <cstdio>

namespace tenon::report {

namespace {

int64_t sum_of(const UnitFacts& unit, Work first, Work last) {
  int64_t sum = 0;
  for (size_t i = static_cast<size_t>(first); i <= static_cast<size_t>(last); ++i)
    sum += unit.times[i].ns;
  return sum;
}

int64_t percent(int64_t part, int64_t whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

std::string plural(int64_t n, std::string_view what) {
  return message("{} {}{}", n, what, n == 1 ? "" : "s");
}

int64_t compile_ns(const UnitFacts& unit) { return sum_of(unit, Work::trace, Work::compile); }
int64_t code_ns(const UnitFacts& unit) { return sum_of(unit, Work::forward, Work::backward); }
int64_t total_ns(const UnitFacts& unit) { return sum_of(unit, Work::call, Work::compile); }

std::string time_text(int64_t ns) {
  constexpr const char* units[] = {"ns", "µs", "ms", "s"};
  double value = static_cast<double>(ns);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) value /= 1000;
  char text[48];
  std::snprintf(text, sizeof text, "%.*f %s",
                unit == 0 || value >= 100 ? 0
                : value < 10              ? 2
                                          : 1,
                value, units[unit]);
  return text;
}

namespace {

// Why the newest version did not serve the last call that had none; the older ones have reasons, too.
std::string last_reason(const UnitFacts& unit) {
  if (unit.recompiles.items.empty()) return "not told";
  const std::string& why = unit.recompiles.items.back().why;
  return why.empty() ? "not told" : why.substr(0, why.find("; "));
}

using Rule = void (*)(const UnitFacts& unit, std::vector<Finding>& out);

void limit(const UnitFacts& unit, std::vector<Finding>& out) {
  if (unit.figures.after_limit == 0) return;
  int64_t ns = time_of(unit, Work::eager).ns;
  out.push_back(
      {message("{} has reached its limit of versions: {} ran as plain code ({}). The last "
               "reason for another version was: {}. Mark what changes as dynamic, or "
               "raise dynamo.recompile_limit.",
               unit.name, plural(unit.figures.after_limit, "call"), time_text(ns),
               last_reason(unit)),
       true, ns});
}

void suppressed(const UnitFacts& unit, std::vector<Finding>& out) {
  if (unit.figures.suppressed_errors == 0) return;
  int64_t ns = time_of(unit, Work::eager).ns;
  out.push_back({message("{} could not be compiled and runs as plain code ({}), since "
                         "dynamo.suppress_errors hides the error. Turn the flag off to see it.",
                         unit.name, time_text(ns)),
                 true, ns});
}

void recompiles(const UnitFacts& unit, std::vector<Finding>& out) {
  bool is_told_by_limit = unit.figures.after_limit > 0;
  if (unit.recompiles.n < 2 || is_told_by_limit) return;
  out.push_back({message("{} was compiled again {} after its first time; compiling took {} in all. "
                         "The last reason: {}.",
                         unit.name, plural(unit.recompiles.n, "time"), time_text(compile_ns(unit)),
                         last_reason(unit)),
                 true, compile_ns(unit)});
}

void breaks(const UnitFacts& unit, std::vector<Finding>& out) {
  const auto& places = unit.breaks.counts();
  if (places.empty()) return;
  auto most = std::ranges::max_element(places, {}, &std::pair<std::string, int64_t>::second);
  out.push_back(
      {message("The graph of {} breaks in {}, most often because of {}. Its body runs on "
               "each call; return the value instead of looking at it, or use "
               "tenon::where.",
               unit.name, plural(static_cast<int64_t>(places.size()), "place"), most->first),
       true, time_of(unit, Work::call).ns});
}

void overhead(const UnitFacts& unit, std::vector<Finding>& out) {
  constexpr int64_t few_calls = 100;
  const WorkTime& call = time_of(unit, Work::call);
  if (call.n < few_calls || call.ns < code_ns(unit)) return;
  out.push_back(
      {message("Calls of {} spend {} % of their time outside of compiled code ({} a call): in "
               "guards, in the body and in wrappers. Compile a larger piece at once, or state the "
               "body pure if it only depends on its arguments.",
               unit.name, percent(call.ns, call.ns + code_ns(unit)), time_text(call.ns / call.n)),
       false, call.ns});
}

void elsewhere(const UnitFacts& unit, std::vector<Finding>& out) {
  size_t nodes = 0;
  const ElsewhereFacts* most = nullptr;
  int64_t ns = 0;
  for (const GraphFacts& graph : unit.graphs) {
    for (const ElsewhereFacts& e : graph.elsewhere) {
      nodes += e.n_nodes;
      if (!most || e.n_nodes > most->n_nodes) most = &e;
    }
    if (!graph.elsewhere.empty()) ns += graph.ns;
  }
  if (!most) return;
  out.push_back({message("{} of {} were declined by the backend; {} runs them{}{}: {}.",
                         plural(static_cast<int64_t>(nodes), "node"), unit.name, most->run_by,
                         most->op.empty() ? "" : ", most of them ", most->op, most->why),
                 true, ns});
}

void engine(const UnitFacts& unit, std::vector<Finding>& out) {
  if (unit.kind != UnitKind::backward || unit.figures.eager_calls == 0) return;
  out.push_back({message("{} ran on the engine instead of compiled: {}.",
                         plural(unit.figures.eager_calls, "backward pass"),
                         unit.eager.counts().front().first),
                 true, 0});
}

void bypass(const UnitFacts& unit, std::vector<Finding>& out) {
  int64_t ns = compile_ns(unit);
  for (const auto& [said, n] : unit.cache.counts())
    if (said.starts_with("bypass"))
      out.push_back({message("The disk cache cannot keep {}, so each process compiles it ({}): {}.",
                             unit.name, time_text(ns), said),
                     false, ns});
}

constexpr Rule rules[] = {&limit,    &suppressed, &recompiles, &breaks,
                          &overhead, &elsewhere,  &engine,     &bypass};

// Whether compiling or running is what takes the time.
Finding balance(const ProgramFacts& facts) {
  int64_t all = 0, compiling = 0, code = 0, eager = 0;
  for (const UnitFacts& unit : facts.units) {
    all += total_ns(unit);
    compiling += compile_ns(unit);
    code += code_ns(unit);
    eager += time_of(unit, Work::eager).ns;
  }
  auto wall = static_cast<int64_t>(facts.wall_s * 1e9);
  return {
      message("Compiled callables, models and backward passes took {} ({} % of the {} since the "
              "first was made): {} % of that went into compiling, {} % into compiled code, {} % "
              "into plain code, {} % into guards, bodies and wrappers.",
              time_text(all), percent(all, wall), time_text(wall), percent(compiling, all),
              percent(code, all), percent(eager, all),
              percent(all - compiling - code - eager, all)),
      false, 0};
}

}  // namespace

std::vector<Finding> findings(const ProgramFacts& facts) {
  constexpr size_t most_findings = 24;
  std::vector<Finding> out;
  for (const UnitFacts& unit : facts.units)
    for (Rule rule : rules) rule(unit, out);
  std::ranges::stable_sort(out, std::greater(), &Finding::ns);
  if (out.size() > most_findings) out.resize(most_findings);
  out.insert(out.begin(), balance(facts));
  return out;
}

}  // namespace tenon::report
