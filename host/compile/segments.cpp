// The code of segments, and when it may be used again.
#include "compile/segments.h"

#include "aot/backward_autocast.h"
#include "aot/training.h"
#include "compile/site_settings.h"
#include "compile/tape_pieces.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/inline_vector.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "graph/hash.h"
#include "runtime/end_of_process.h"
#include "runtime/limits.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tenon {

using detail::Site;

namespace {

// A condition over some of its symbols: others are what they were in the run that was recorded. Null
// where that is not known.
const Expr* over_known(const Expr* condition, const ShapeEnv& env,
                       FunctionRef<bool(const Expr*)> is_known) {
  bool all = true;
  const Expr* out = substitute(condition, [&](const Expr* symbol) -> const Expr* {
    if (is_known(symbol)) return nullptr;
    std::optional<SymValue> value = env.info(symbol).hint;
    bool is_number = value && value->kind == ExprKind::integer;
    all = all && is_number;
    return is_number ? intern_integer(value->integer()) : nullptr;
  });
  return all ? out : nullptr;
}

// Code holds for the sizes that the backend asked for and what the recording before the segment
// had decided on or asserted, which lowering relies on: conditions over the symbols of the graph
// that are known before it runs. What its own nodes compute, it asserts itself. The code does not
// depend on symbols that the graph lacks, so it holds as soon as there are values for them that fit,
// such as those of the recorded run. Nothing when that cannot be told. The outputs are `distances`.
std::optional<SymProgram> segment_conditions(const Graph& graph, const Artifact& artifact,
                                             std::span<const Expr* const> distances) {
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
    const Expr* own = over_known(condition, env, is_in(known));
    if (!own) return std::nullopt;
    conditions.push_back(own);
  }
  return SymProgram::compile(known, conditions, distances);
}

// How far apart inputs that overlap begin, which code that writes one of them computes with: over the
// symbols of the graph, where it says so. The places of views that turns of a loop take are symbols.
std::vector<const Expr*> distances_in(const Graph& graph, std::span<const Overlap> overlaps) {
  auto first_byte = [](const GraphValue& v) {
    return v.offset * static_cast<int64_t>(itemsize(v.meta.dtype));
  };
  auto is_known = [&](const Expr* symbol) {
    return std::ranges::find(graph.symbols, symbol, &SymbolBinding::symbol) !=
               graph.symbols.end() &&
           graph.shape_env->info(symbol).is_known_before_run();
  };
  auto has_value = [&](SymInt v, int64_t bytes) {
    return graph.shape_env->int_hint(v) == bytes &&
           std::ranges::all_of(free_symbols(as_expr(v)), is_known);
  };
  std::vector<const Expr*> distances;
  for (const Overlap& o : overlaps) {
    const GraphValue &a = graph.value(graph.inputs()[o.first]),
                     &b = graph.value(graph.inputs()[o.second]);
    SymInt bytes = o.bytes;
    if (a.alias_group && a.alias_group == b.alias_group)
      if (SymInt told = first_byte(b) - first_byte(a); has_value(told, o.bytes)) bytes = told;
    distances.push_back(as_expr(bytes));
  }
  return distances;
}

}  // namespace

// Asked at each break of each call: no state is made where nothing casts.
static bool is_cast_like(const AutocastState& made_for) {
  bool casts = thread_modes.include & ~thread_modes.exclude & bit(Key::autocast);
  return casts ? same_casts(made_for, autocast_in_effect()) : !made_for.is_on();
}

// What runs op by op reads and writes the inputs themselves, wherever they lie.
bool SegmentCode::serves(std::span<const int64_t> symbols, std::span<const Overlap> found) const {
  if (!is_cast_like(autocast) || !conditions) return false;
  if (because != Eager::none || (found.empty() && overlaps.empty()))
    return conditions->check(symbols);
  auto pair = [](const Overlap& o) { return std::pair(o.first, o.second); };
  InlineVector<int64_t, 16> distances(overlaps.size());
  return conditions->run(symbols, {distances.data(), distances.size()}) &&
         std::ranges::equal(overlaps, found, {}, pair, pair) &&
         std::ranges::equal(distances, found, {}, {}, &Overlap::bytes);
}

namespace {

using KnownCode = std::vector<std::shared_ptr<const SegmentCode>>;

// The code that serves comes to the front, but not before what is compiled.
std::shared_ptr<const SegmentCode> find_in(KnownCode& known, const Graph& graph,
                                           std::span<const int64_t> syms,
                                           const std::vector<Overlap>& overlaps) {
  auto found = std::ranges::find_if(known, [&](const auto& code) {
    return code->serves(syms, overlaps) && structurally_equal(*code->graph, graph);
  });
  if (found == known.end()) return nullptr;
  if ((*found)->because != Eager::none) return *found;
  std::rotate(known.begin(), found, found + 1);
  return known.front();
}

std::shared_ptr<const SegmentCode> known_code(Site& site, const Graph& graph,
                                              std::span<const int64_t> syms,
                                              const std::vector<Overlap>& overlaps) {
  auto known = site.segments.find(structural_hash(graph));
  return known == site.segments.end() ? nullptr : find_in(known->second, graph, syms, overlaps);
}

// Versions of an equal graph that would serve, did their inputs overlap so.
int64_t n_for_other_overlaps(Site& site, const Graph& graph, std::span<const int64_t> syms) {
  auto known = site.segments.find(structural_hash(graph));
  if (known == site.segments.end()) return 0;
  return std::ranges::count_if(known->second, [&](const auto& code) {
    return code->because == Eager::none && is_cast_like(code->autocast) &&
           code->conditions->check(syms) && structurally_equal(*code->graph, graph);
  });
}

}  // namespace

std::shared_ptr<const SegmentCode> code_of_equal(Site& site, const Segment& segment,
                                                 std::span<const int64_t> syms,
                                                 const std::vector<Overlap>& overlaps) {
  std::lock_guard lock(site.changing);
  return known_code(site, *segment.graph, syms, overlaps);
}

namespace {

// One structure may have several versions, of which those that served longest ago go.
void keep_code(Site& site, const std::shared_ptr<const SegmentCode>& code) {
  KnownCode& known = site.segments[structural_hash(*code->graph)];
  known.insert(code->because == Eager::none ? known.begin() : known.end(), code);
  constexpr size_t most_versions = 16;
  if (known.size() > most_versions) known.pop_back();
  // Courses keep the code of their segments; what is forgotten here is compiled again at worst.
  if (site.segments.size() > static_cast<uint64_t>(config::flags().capture.trace_tree_max_nodes))
    site.segments.clear();
}

}  // namespace

MadeCode make_code(Site& site, const std::shared_ptr<Graph>& graph, std::optional<size_t> place) {
  auto asked = [&] { return graph->shape_env ? graph->shape_env->guards().size() : 0; };
  size_t n_before = asked();
  try {
    return {compile_for(site, graph)};
  } catch (const std::exception& error) {
    if (!hides_error(site, place, error.what())) throw;
  }
  std::shared_ptr<Artifact> artifact = op_by_op(graph);
  for (size_t i = n_before; i < asked(); ++i)  // before it failed
    artifact->guards.push_back(graph->shape_env->guards()[i].condition);
  return {std::move(artifact), false};
}

std::shared_ptr<const SegmentCode> segment_code(Site& site, const std::shared_ptr<Graph>& graph,
                                                std::span<const int64_t> syms,
                                                const std::vector<Overlap>& overlaps,
                                                std::optional<size_t> place) {
  int64_t n_alike = 0;
  {
    std::lock_guard lock(site.changing);
    if (auto found = known_code(site, *graph, syms, overlaps)) return found;
    n_alike = n_for_other_overlaps(site, *graph, syms);
  }
  // What runs op by op only while a stance says so must not serve later.
  bool is_for_now = compiles_nothing_new();
  bool is_compiled = !is_for_now && (!place || may_compile_segment(site, *place, n_alike));
  std::lock_guard lock(site.changing);
  if (auto found = known_code(site, *graph, syms, overlaps)) return found;
  MadeCode made =
      is_compiled ? make_code(site, graph, place.value_or(0)) : MadeCode{op_by_op(graph), false};
  auto conditions =
      is_for_now ? std::nullopt
                 : segment_conditions(*graph, *made.artifact, distances_in(*graph, overlaps));
  Eager because = made.is_compiled || is_for_now ? Eager::none
                  : is_compiled                  ? Eager::suppressed_error
                                                 : Eager::recompile_limit;
  auto code = std::make_shared<const SegmentCode>(
      SegmentCode{graph, std::move(made.artifact), std::move(conditions), autocast_in_effect(),
                  overlaps, because});
  if (code->conditions) keep_code(site, code);
  return code;
}

void run_segment(const SegmentCode& code, std::span<detail::TensorHead*> inputs,
                 std::span<const int64_t> syms, std::span<Tensor> outputs) {
  BelowAutocast casts_are_recorded;
  PieceOfBody piece;
  if (syms.size() == code.graph->symbols.size())
    return call_to_the_end(*code.artifact, code.graph, inputs, syms, outputs);
  std::vector<int64_t> words(syms.begin(), syms.end());
  words.resize(code.graph->symbols.size());  // 0 for those that the code computes
  call_to_the_end(*code.artifact, code.graph, inputs, words, outputs);
}

void note_segments(Site& site, const Recording& recording) {
  auto is_eager = [](const Segment& segment) {
    return segment.code && segment.code->because != Eager::none;  // none where it has failed
  };
  auto eager = std::ranges::find_if(recording.segments, is_eager);
  if (eager != recording.segments.end()) note_eager_call(site, eager->code->because);
}

SegmentRunner segment_runner(Site& site) {
  return [&site](const Segment& segment, std::span<detail::TensorHead*> inputs,
                 std::span<const int64_t> syms, std::span<Tensor> outputs) {
    auto code = segment_code(site, segment.graph, syms, segment.overlaps, segment.place);
    run_segment(*code, inputs, syms, outputs);
    return code;
  };
}

}  // namespace tenon
