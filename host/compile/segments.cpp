// The code of segments, and when it may be used again.
#include "compile/segments.h"

#include "aot/backward_autocast.h"
#include "compile/site_settings.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_expr.h"
#include "graph/hash.h"

#include <algorithm>
#include <optional>

namespace tenon {

using detail::Site;

namespace {

// Code holds for the sizes that the backend asked for and what the recording before the segment
// had decided on or asserted, which lowering relies on: conditions over the symbols of the graph
// that are known before it runs. What its own nodes compute, it asserts itself. Nothing when all
// that cannot be told from these symbols.
std::optional<SymProgram> segment_conditions(const Graph& graph, const Artifact& artifact) {
  const ShapeEnv& env = *graph.shape_env;
  std::vector<const Expr*> known, computed, conditions = artifact.guards;
  for (const SymbolBinding& b : graph.symbols)
    (env.info(b.symbol).is_known_before_run() ? known : computed).push_back(b.symbol);
  auto is_in = [](const std::vector<const Expr*>& list) {
    return [&list](const Expr* s) { return std::ranges::find(list, s) != list.end(); };
  };
  for (const Expr* condition : env.assumptions()) {
    std::vector<const Expr*> used = free_symbols(condition);
    if (std::ranges::any_of(used, is_in(computed))) {
      if (config::flags().dynamo.do_not_emit_runtime_asserts) return std::nullopt;
      continue;
    }
    if (std::ranges::none_of(used, is_in(known))) continue;
    if (!std::ranges::all_of(used, is_in(known))) return std::nullopt;
    conditions.push_back(condition);
  }
  return SymProgram::compile(known, conditions);
}

}  // namespace

// One structure may have several versions, of which those that served longest ago go.
std::shared_ptr<Artifact> segment_code(Site& site, const std::shared_ptr<Graph>& graph,
                                       std::span<const int64_t> syms) {
  std::lock_guard lock(site.changing);
  std::vector<SegmentCode>& known = site.segments[structural_hash(*graph)];
  AutocastOptions autocast = autocast_in_effect();
  auto serves = [&](const SegmentCode& code) {
    return same_casts(code.autocast, autocast) && structurally_equal(*code.graph, *graph) &&
           code.conditions.check(syms);
  };
  auto found = std::find_if(known.begin(), known.end(), serves);
  if (found != known.end()) {
    std::rotate(known.begin(), found, found + 1);
    return known.front().artifact;
  }
  std::shared_ptr<Artifact> made = compile_for(site, graph);
  auto conditions = segment_conditions(*graph, *made);
  if (!conditions) return made;
  known.insert(known.begin(), {graph, made, std::move(*conditions), autocast});
  constexpr size_t most_versions = 16;
  if (known.size() > most_versions) known.pop_back();
  return made;
}

SegmentRunner segment_runner(Site& site) {
  return [&site](const std::shared_ptr<Graph>& graph, std::span<detail::TensorHead*> inputs,
                 std::span<const int64_t> syms, std::span<Tensor> outputs) {
    std::vector<int64_t> words(syms.begin(), syms.end());
    std::shared_ptr<Artifact> code = segment_code(site, graph, syms);
    words.resize(graph->symbols.size());  // 0 for those that the code computes
    BelowAutocast casts_are_recorded;
    code->call(inputs, words, outputs);
  };
}

}  // namespace tenon
