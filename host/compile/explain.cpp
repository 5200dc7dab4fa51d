// explain(): the text about a compiled callable, and what one call of a callable shows.
#include "compile/explain.h"

#include "capture/outside.h"
#include "compile/site_settings.h"
#include "compile/told.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "runtime/limits.h"
#include "runtime/stance.h"

#include <mutex>
#include <sstream>
#include <utility>

namespace tenon::detail {

std::string regime_of(const Site& site, const Entry& e) {
  size_t n = e.courses.size();
  if (e.replays() && n == 0)
    return message("the body is recorded on every call: {} ({})", e.recorded.break_reason,
                   e.why_no_path);
  if (e.replays())
    return message("the body runs on every call, compared with {} recorded courses: {}", n,
                   e.recorded.break_reason);
  if (site.skips_bodies()) return "the code runs alone: the body is stated pure";
  if (e.path) return "the body runs on every call, compared with the recorded one";
  return "the body is recorded on every call: " + e.why_no_path;
}

std::string explain_site(const Site& s) {
  auto& site = const_cast<Site&>(s);
  std::unique_lock lock(site.changing, std::defer_lock);
  if (!site.changing.is_mine()) lock.lock();  // else a backend asks that compiles for it
  std::string out =
      message("callable {} with backend {}: {} versions, {} compiles\n", display_name(site),
              backend_of(site), site.versions.size(), site.compiles.load());
  for (uint32_t i = 0; i < site.versions.size(); ++i) {
    const Entry& e = *site.versions[i];
    out += message("version {}: {}\n", e.id, regime_of(site, e));
    out += e.recorded.guards.to_text();
    if (e.recorded.has_code) out += to_text(*e.recorded.graph);
    for (const std::string& line : e.artifact ? told_by(*e.artifact) : std::vector<std::string>())
      out += line + "\n";
  }
  for (const std::string& reason : site.recompile_reasons)
    out += "recompiled because " + reason + "\n";
  for (const std::string& reason : site.break_reasons) out += "graph break: " + reason + "\n";
  return out;
}

static std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

static std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) ops.push_back(name_of(node.op));
  return ops;
}

void add_entries(const Site& s, std::vector<CompiledEntry>& entries) {
  auto& site = const_cast<Site&>(s);
  std::unique_lock lock(site.changing, std::defer_lock);
  if (!site.changing.is_mine()) lock.lock();
  for (uint32_t i = 0; i < site.versions.size(); ++i) {
    const Entry& e = *site.versions[i];
    const Recording& recorded = e.recorded;
    entries.push_back({e.id, regime_of(site, e), lines_of(recorded.guards.to_text()),
                       recorded.has_code ? ops_of(*recorded.graph) : std::vector<std::string>()});
  }
}

// ---- one call

struct ExplainScope::State {
  Explanation found;
  const Site* site = nullptr;  // the first one that compiles
  State* outer = nullptr;
  // Scopes and stances that the program is in would leave nothing to tell.
  RecordingItself in_no_scope;
  bool ignored_stance = std::exchange(ignores_stance, true);
  ~State() { ignores_stance = ignored_stance; }
};

static thread_local ExplainScope::State* explaining = nullptr;

ExplainScope::ExplainScope() : state_(std::make_unique<State>()) {
  require(!thread_modes.tracer, ErrorCode::unsupported,
          "explain: called inside of a compiled callable, which would record the call as a part of "
          "itself; explain the function around the compiled call");
  state_->outer = std::exchange(explaining, state_.get());
}
ExplainScope::~ExplainScope() { explaining = state_->outer; }
Explanation ExplainScope::take() { return std::move(state_->found); }

Options explaining_options() {
  Options options;
  options.backend = "eager";
  options.name = "explain";
  options.options = {{"dynamo.disable", "false"},
                     {"dynamo.minimum_call_count", "1"},
                     {"dynamo.recompile_limit", "256"}};
  return options;
}

}  // namespace tenon::detail

namespace tenon {

using detail::ExplainScope;
using detail::Site;

static Explanation* explanation_for(const Site& site) {
  ExplainScope::State* state = detail::explaining;
  if (!state) return nullptr;
  if (!state->site) state->site = &site;
  return state->site == &site ? &state->found : nullptr;
}

void explain_graph(const Site& site, const Graph& graph, double compile_ms) {
  Explanation* found = explanation_for(site);
  if (!found) return;
  Explanation::GraphSummary& summary = found->graphs.emplace_back();
  summary.ops = detail::ops_of(graph);
  summary.compile_ms = compile_ms;
}

void explain_recording(const Site& site, const Recording& recording) {
  Explanation* found = explanation_for(site);
  if (!found) return;
  found->break_reasons = recording.break_reasons;
  found->graph_break_count = recording.n_graph_breaks;
  found->guards = detail::lines_of(recording.guards.to_text());
}

std::string Explanation::str() const {
  std::string out = message("{} graphs, {} graph breaks, {} operations, {} guards\n", graph_count(),
                            graph_break_count, op_count(), guards.size());
  for (const std::string& reason : break_reasons) out += "graph break: " + reason + "\n";
  for (size_t i = 0; i < graphs.size(); ++i) {
    out += message("graph {}, compiled in {} ms:", i, graphs[i].compile_ms);
    for (const std::string& op : graphs[i].ops) out += " " + op;
    out += "\n";
  }
  for (const std::string& guard : guards) out += "guard: " + guard + "\n";
  return out;
}

}  // namespace tenon
