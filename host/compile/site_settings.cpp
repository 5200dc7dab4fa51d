// Options of sites, with the overrides and flags that count for them.
#include "compile/site_settings.h"

#include "backend/backend.h"
#include "compile/captured_logs.h"
#include "compile/compile_graph.h"
#include "compile/explain.h"
#include "compile/tape_pieces.h"
#include "config/flags.h"
#include "graph/passes/passes.h"
#include "report/events.h"
#include "runtime/limits.h"
#include "runtime/overrides.h"
#include "runtime/size_policy.h"

#include <algorithm>
#include <chrono>

namespace tenon {

using detail::Leaves;
using detail::Site;

std::string backend_of(const Site& site) {
  if (std::optional<std::string> other = backend_override(site.number)) return *other;
  return site.options.backend.empty() ? default_backend() : site.options.backend;
}

namespace {

CompileGraphOptions graph_options(Site& site, bool dynamic) {
  CompileGraphOptions o;
  o.backend = backend_of(site);
  o.mode = site.options.mode;
  o.options_toml = option_texts(site.options.options).backend;
  o.compile_id = message("{}/{}", site.number, site.attempts.load());
  o.dynamic = dynamic;
  return o;
}

// By the manifest; looked up once for each backend of the site.
bool backend_takes_symbols(Site& site) {
  std::string backend = backend_of(site);
  if (!site.takes_symbols || site.takes_symbols->first != backend)
    site.takes_symbols = {backend, backend_info(backend).dynamic_shapes};
  return site.takes_symbols->second;
}

bool is_symbolic(const Graph& graph) { return !graph.symbols.empty(); }

// A graph with fewer operations than dynamo.minimum_call_count is not worth a compilation.
bool is_too_small(const Graph& graph) {
  const config::DynamoFlags& flags = config::flags().dynamo;
  bool wanted_empty = graph.nodes().empty() && flags.allow_empty_graphs;
  return static_cast<int64_t>(graph.nodes().size()) < flags.minimum_call_count && !wanted_empty;
}

}  // namespace

namespace {

/// Where other courses of the body had numbers. Entries live as long as the call does.
struct EarlierPaths {
  bool is_of_other_arguments;
  std::vector<const Path*> paths;
  std::vector<std::shared_ptr<const Course>> courses;
  std::vector<std::shared_ptr<const PlainNumbers>> without_path;
  // Of a body that has left a path with symbolic sizes: what it has computed from sizes by then is
  // plain, and other where they are.
  std::vector<const Path*> of_other_sizes;

  // An index or a bound may follow from the arguments.
  std::optional<Number> operator()(const NumberPlace& place) const {
    if (is_of_other_arguments && is_place(place) && !place.is_size()) return std::nullopt;
    for (const Path* path : paths)
      if (std::optional<Number> number = path->number_at(place)) return number;
    for (const auto& numbers : without_path)
      if (std::optional<Number> number = (*numbers)(place)) return number;
    for (const Path* path : of_other_sizes)
      if (std::optional<Number> number = path->number_at(place)) return number;
    return std::nullopt;
  }
};

// Whether the version is for tensors of the same kind, and of other sizes at most.
bool differs_in_sizes(const Entry& entry, const Leaves& leaves) {
  std::span<const TensorGuard> guards = entry.recorded.guards.tensors;
  if (!entry.has_like_leaves(leaves)) return false;
  for (size_t i = 0; i < guards.size(); ++i) {
    const Tensor& t = *leaves.tensors[i];
    bool is_like = guards[i].defined == t.defined() &&
                   (!t.defined() || (guards[i].ndim == t.dim() &&
                                     guards[i].dtype == static_cast<int32_t>(t.dtype())));
    if (!is_like) return false;
  }
  return true;
}

// The one that was left comes first; it may have another operation where a further one has this.
// Where none was left, because no version takes the arguments, those of other arguments tell.
EarlierPaths earlier_paths(const Site& site, const Leaves& leaves, const TracePolicy& policy,
                           const Path* left) {
  EarlierPaths found{};
  bool has_free_sizes = std::ranges::any_of(policy.sizes, [](const std::vector<DimPolicy>& sizes) {
    return std::ranges::any_of(sizes, [](DimPolicy p) { return p != DimPolicy::fixed; });
  });
  if (left) found.paths.push_back(left);
  std::vector<const Entry*> entries;
  for (uint32_t i = 0; i < site.versions.size(); ++i) entries.push_back(site.versions[i]);
  auto accepts = [&](const Entry* entry) { return entry->accepts(leaves); };
  found.is_of_other_arguments = !left && std::ranges::none_of(entries, accepts);
  for (const Entry* entry : entries) {
    if (!found.is_of_other_arguments && !accepts(entry)) {
      if (left && has_free_sizes && entry->path && differs_in_sizes(*entry, leaves))
        found.of_other_sizes.push_back(entry->path.get());
      continue;
    }
    for (auto& numbers : entry->courses.numbers_without_path())
      found.without_path.push_back(std::move(numbers));
    if (entry->path) found.paths.push_back(entry->path.get());
    for (auto& course : entry->courses.of_call(leaves)) {
      found.paths.push_back(&course->path);
      found.courses.push_back(std::move(course));
    }
  }
  return found;
}

}  // namespace

TracePolicy policy_of(Site& site, const Leaves& leaves, const Path* left) {
  TracePolicy policy = trace_policy(site, leaves, backend_takes_symbols(site));
  policy.on_tape = site.calls_backward;
  policy.calls_backward = &site.calls_backward;
  policy.state = site.options.state;
  policy.callable = display_name(site);
  if (site.options.dynamic == false || !backend_takes_symbols(site)) return policy;
  policy.body_numbers = site.memory.body_numbers;
  bool has_others = site.versions.size() > 0 && !site.skips_bodies();
  policy.compares_turns = !site.skips_bodies();
  if (left || has_others) policy.earlier_number = earlier_paths(site, leaves, policy, left);
  return policy;
}

namespace {

std::shared_ptr<Artifact> compile_part(Site& site, const std::shared_ptr<Graph>& recorded) {
  std::shared_ptr<Graph> graph = recorded;
  if (config::flags().dynamo.dead_code_elimination) {
    graph = clone(*recorded);
    remove_dead_code(*graph, {.keep_random = true});
  }
  report::counter("stats.unique_graphs").add();
  report::counter("stats.calls_captured").add(static_cast<int64_t>(graph->nodes().size()));
  auto begun = std::chrono::steady_clock::now();
  auto artifact = compile_graph(graph, graph_options(site, is_symbolic(*graph)));
  std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begun;
  explain_graph(site, *graph, taken.count());
  return artifact;
}

// Compiled code is on the tape as a whole, or not at all.
bool has_gradients_in_parts(const Graph& graph) {
  auto is_on = [](const Node& node) {
    auto fact = node.facts.find("grad");
    return fact != node.facts.end() && fact->second == "on";
  };
  auto may_need_one = [&](ValueId input) {
    return graph.value(input).flags.requires_grad || !config::flags().guards.strict_requires_grad;
  };
  return !thread_modes.grad_enabled && std::ranges::any_of(graph.nodes(), is_on) &&
         std::ranges::any_of(graph.inputs(), may_need_one);
}

}  // namespace

std::shared_ptr<Artifact> compile_for(Site& site, const std::shared_ptr<Graph>& recorded) {
  log_captured(*recorded);
  if (is_too_small(*recorded)) return op_by_op(recorded);
  ++site.compiles;
  if (has_gradients_in_parts(*recorded)) return op_by_op(recorded);
  return compile_tape_pieces(recorded, site.options, [&](const std::shared_ptr<Graph>& piece) {
    return compile_part(site, piece);
  });
}

}  // namespace tenon
