// Entries of the cache of compiled graphs as bytes and back.
#include "compile/graph_cache_entry.h"

#include "aot/saved_plan.h"
#include "autograd/vjp_plan.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "formats/json.h"
#include "formats/tenon_file.h"
#include "ops/op_table.h"
#include "saved/saved_artifact.h"

#include <set>

namespace tenon {

using formats::Json;
using formats::JsonView;
using formats::TenonFile;

namespace {

constexpr std::string_view subject = "an entry of the cache";
// Before each name: sections need no digests of their own, since the whole entry has one.
constexpr std::string_view unchecked = "sealed/";

// ---- derived ops: a text may name one only where it was derived before

void add_origins(const Graph& graph, std::set<DerivedOrigin>& seen, Json::Array& out) {
  // What a derived op was derived from comes before it.
  auto add = [&](auto& self, const OpEntry& op) -> void {
    std::optional<DerivedOrigin> origin = origin_of_derived(op);
    if (!origin || !seen.insert(*origin).second) return;
    if (const OpEntry* from = find_op(origin->op)) self(self, *from);
    out.emplace_back(Json::Object{{"op", origin->op},
                                  {"formula", int64_t{origin->formula}},
                                  {"args", formats::json_list(origin->args)}});
  };
  for (const Node& node : graph.nodes()) add(add, entry_of(node.op));
  for (const auto& sub : graph.subgraphs) add_origins(*sub, seen, out);
}

void derive_again(const JsonView& origins) {
  for (const JsonView& o : origins.items()) {
    DerivedOrigin origin{o.field("op").text(), static_cast<int>(o.field("formula").integer()), {}};
    for (const JsonView& arg : o.field("args").items())
      origin.args.push_back(static_cast<uint8_t>(arg.number_below(256)));
    derive_ops(origin);
  }
}

// ---- the cut; values go by where they come from, since a text numbers them anew

Json value_place(const Graph& graph, ValueId v) {
  const GraphValue& value = graph.value(v);
  return Json::Array{static_cast<int64_t>(value.source), int64_t{value.source_index},
                     int64_t{value.result_index}};
}

ValueId value_at(const Graph& graph, const JsonView& place) {
  std::vector<JsonView> parts = place.items();
  require(parts.size() == 3, ErrorCode::bad_file, "{}: no place of a value", place);
  switch (static_cast<ValueSource>(parts[0].number_below(3))) {
    case ValueSource::input:
      return graph.inputs()[parts[1].number_below(graph.inputs().size())];
    case ValueSource::constant: {
      size_t number = parts[1].number_below(graph.constants().size());
      for (ValueId c : graph.constants())
        if (graph.value(c).source_index == number) return c;
      break;
    }
    case ValueSource::node: {
      const Node& node =
          graph.node(static_cast<NodeId>(parts[1].number_below(graph.nodes().size())));
      return node.first_result + static_cast<ValueId>(parts[2].number_below(node.n_results));
    }
  }
  fail(ErrorCode::bad_file, "{}: no such value", place);
}

Json cut_json(const StagedGraph& staged) {
  const Graph& joint = *staged.lowered.graph;
  Json::Array saved;
  std::vector<NodeId> backward;
  for (ValueId v : staged.cut.saved) saved.push_back(value_place(joint, v));
  for (NodeId n = 0; n < joint.nodes().size(); ++n)
    if (joint.node(n).is_backward) backward.push_back(n);
  return Json::Object{{"forward", formats::json_list(staged.cut.forward)},
                      {"backward", formats::json_list(staged.cut.backward)},
                      {"saved", saved},
                      {"is_backward", formats::json_list(backward)}};
}

void read_cut(const JsonView& v, StagedGraph& staged) {
  Graph& joint = *staged.lowered.graph;
  const size_t n_nodes = joint.nodes().size();
  staged.cut.forward = v.field("forward").numbers_below(n_nodes);
  staged.cut.backward = v.field("backward").numbers_below(n_nodes);
  for (const JsonView& s : v.field("saved").items()) staged.cut.saved.push_back(value_at(joint, s));
  for (NodeId n : v.field("is_backward").numbers_below(n_nodes)) joint.node(n).is_backward = true;
  std::string problem = partition::problem_of(staged.lowered, staged.cut);
  require(problem.empty(), ErrorCode::bad_file, "{}: {}", subject, problem);
}

// ---- inputs

/// Whether a number that an entry says is the recorded graph's: plain ones as seen while tracing,
/// expressions of symbols as such, where the order of symbols is the same.
bool is_number_of(SymInt said, const Graph& functional, SymInt wanted, const Graph& recorded) {
  if (!said.is_symbolic() || !wanted.is_symbolic()) {
    auto plain = [](SymInt v, const Graph& graph) {
      return v.is_symbolic() ? graph.shape_env->int_hint(v) : std::optional(v.word());
    };
    return plain(said, functional) == plain(wanted, recorded);
  }
  const Expr* renamed = substitute(said.expr(), [&](const Expr* symbol) -> const Expr* {
    for (size_t i = 0; i < recorded.symbols.size() && i < functional.symbols.size(); ++i)
      if (functional.symbols[i].symbol == symbol) return recorded.symbols[i].symbol;
    return symbol;
  });
  return recorded.shape_env->text(renamed) == recorded.shape_env->text(wanted.expr());
}

bool are_numbers_of(const Dims& said, const Graph& functional, const Dims& wanted,
                    const Graph& recorded) {
  if (said.size() != wanted.size()) return false;
  for (size_t d = 0; d < said.size(); ++d)
    if (!is_number_of(said[d], functional, wanted[d], recorded)) return false;
  return true;
}

// Code believes what its graph says of inputs, so that must be what the recorded graph gives it.
void check_inputs(const Lowered& lowered, const Graph& recorded) {
  const Graph& functional = *lowered.graph;
  const size_t n_shared = lowered.shared.size();
  const size_t n = n_shared ? lowered.kept.size() : recorded.inputs().size();
  for (size_t i = 0; i < n; ++i) {
    const GraphValue& said = functional.value(functional.inputs()[n_shared + i]);
    const GraphValue& wanted = recorded.value(recorded.inputs()[n_shared ? lowered.kept[i] : i]);
    bool fits = said.kind == wanted.kind && said.meta.dtype == wanted.meta.dtype &&
                said.meta.device == wanted.meta.device &&
                are_numbers_of(said.meta.sizes, functional, wanted.meta.sizes, recorded) &&
                are_numbers_of(said.meta.strides, functional, wanted.meta.strides, recorded);
    require(fits, ErrorCode::bad_file, "{}: input {} is not that of the recorded graph", subject,
            i);
  }
}

// ---- code

Json code_json(const KeptCode& kept, ArtifactWriter& writer) {
  Json::Object out{{"stage", static_cast<int64_t>(kept.stage)},
                   {"digest", kept.digest},
                   {"graph", kept.graph_hash}};
  if (kept.code) out.push_back({"code", writer.code(*kept.code)});
  return out;
}

KeptCode read_code(const JsonView& v, ArtifactReader& reader) {
  KeptCode out;
  out.stage = static_cast<Stage>(v.field("stage").number_below(5));
  out.digest = v.field("digest").text();
  out.graph_hash = v.field("graph").text();
  if (auto code = v.optional_field("code")) out.code = reader.code(*code);
  return out;
}

}  // namespace

std::string write_entry(const CacheEntry& entry) {
  const Lowered& lowered = entry.staged.lowered;
  Sections sections(unchecked);
  ArtifactWriter writer(sections);
  const int64_t graph = writer.graph(*lowered.graph);
  std::set<DerivedOrigin> seen;
  Json::Array origins, conditions, codes;
  add_origins(*lowered.graph, seen, origins);
  for (const std::string& c : entry.conditions) conditions.emplace_back(c);
  for (const KeptCode& kept : entry.codes) codes.push_back(code_json(kept, writer));
  Json::Object top{{"kind", static_cast<int64_t>(entry.staged.kind)},
                   {"plan", plan_text(lowered)},
                   {"graph", graph},
                   {"constants", writer.constants()},
                   {"derived", origins},
                   {"conditions", conditions},
                   {"codes", codes}};
  if (entry.staged.kind == StagedGraph::Kind::training)
    top.push_back({"cut", cut_json(entry.staged)});
  sections.add_owned("entry", Json(std::move(top)).dump());
  return formats::tenon_file_bytes(sections.list());
}

CacheEntry read_entry(std::string bytes, const Graph& recorded) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  std::string name(subject);
  TenonFile file = TenonFile::from_bytes(
      formats::aligned({formats::as_byte_span(*owner), owner}, subject), name, unchecked);
  auto section = [&](const std::string& s) { return file.section(std::string(unchecked) + s); };
  formats::JsonDocument document = formats::parse_json(section("entry").span, name);
  JsonView top = document.view();
  derive_again(top.field("derived"));
  CacheEntry out;
  out.staged.kind = static_cast<StagedGraph::Kind>(top.field("kind").number_below(3));
  bool is_training = out.staged.kind == StagedGraph::Kind::training;
  ArtifactReader reader(section, top.field("constants"));
  out.staged.lowered = read_plan(top.field("plan").text(), reader.graph(top.field("graph")),
                                 recorded.inputs().size(), name);
  require(out.staged.lowered.outputs.size() == recorded.outputs().size(), ErrorCode::bad_file,
          "{}: {} outputs, the recorded graph has {}", name, out.staged.lowered.outputs.size(),
          recorded.outputs().size());
  check_inputs(out.staged.lowered, recorded);
  require(is_training == out.staged.lowered.derivative.has_value(), ErrorCode::bad_file,
          "{}: a derivative where none is expected, or none", name);
  if (is_training) read_cut(top.field("cut"), out.staged);
  for (const JsonView& c : top.field("conditions").items()) out.conditions.push_back(c.text());
  for (const JsonView& code : top.field("codes").items())
    out.codes.push_back(read_code(code, reader));
  return out;
}

}  // namespace tenon
