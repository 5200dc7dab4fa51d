// Entries of the cache of compiled graphs as bytes and back.
#include "compile/graph_cache_entry.h"

#include "aot/saved_plan.h"
#include "autograd/vjp_plan.h"
#include "core/error.h"
#include "formats/json.h"
#include "formats/tenon_file.h"
#include "ops/op_table.h"
#include "saved/saved_graphs.h"

#include <set>

namespace tenon {

using formats::Json;
using formats::JsonView;
using formats::TenonFile;

namespace {

constexpr std::string_view subject = "an entry of the cache";
// Before each name: sections need no digests of their own, since the whole entry has one.
constexpr std::string_view unchecked = "sealed/";

template <class T>
Json numbers(const std::vector<T>& list) {
  Json::Array out;
  for (T n : list) out.emplace_back(static_cast<int64_t>(n));
  return out;
}

size_t number_below(const JsonView& v, size_t limit) {
  int64_t n = v.integer();
  require(n >= 0 && static_cast<size_t>(n) < limit, ErrorCode::bad_file,
          "{}: expected a number below {}, found {}", v, limit, n);
  return static_cast<size_t>(n);
}

// ---- derived ops: a text may name one only where it was derived before

void add_origins(const Graph& graph, std::set<DerivedOrigin>& seen, Json::Array& out) {
  // What a derived op was derived from comes before it.
  auto add = [&](auto& self, const OpEntry& op) -> void {
    std::optional<DerivedOrigin> origin = origin_of_derived(op);
    if (!origin || !seen.insert(*origin).second) return;
    if (const OpEntry* from = find_op(origin->op)) self(self, *from);
    out.emplace_back(Json::Object{{"op", origin->op},
                                  {"formula", int64_t{origin->formula}},
                                  {"args", numbers(origin->args)}});
  };
  for (const Node& node : graph.nodes()) add(add, entry_of(node.op));
  for (const auto& sub : graph.subgraphs) add_origins(*sub, seen, out);
}

void derive_again(const JsonView& origins) {
  for (const JsonView& o : origins.items()) {
    DerivedOrigin origin{o.field("op").text(), static_cast<int>(o.field("formula").integer()), {}};
    for (const JsonView& arg : o.field("args").items())
      origin.args.push_back(static_cast<uint8_t>(number_below(arg, 256)));
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
  switch (static_cast<ValueSource>(number_below(parts[0], 3))) {
    case ValueSource::input:
      return graph.inputs()[number_below(parts[1], graph.inputs().size())];
    case ValueSource::constant: {
      size_t number = number_below(parts[1], graph.constants().size());
      for (ValueId c : graph.constants())
        if (graph.value(c).source_index == number) return c;
      break;
    }
    case ValueSource::node: {
      const Node& node =
          graph.node(static_cast<NodeId>(number_below(parts[1], graph.nodes().size())));
      return node.first_result + static_cast<ValueId>(number_below(parts[2], node.n_results));
    }
  }
  fail(ErrorCode::bad_file, "{}: no such value", place);
}

std::vector<NodeId> nodes_at(const Graph& graph, const JsonView& list) {
  std::vector<NodeId> out;
  for (const JsonView& n : list.items())
    out.push_back(static_cast<NodeId>(number_below(n, graph.nodes().size())));
  return out;
}

Json cut_json(const StagedGraph& staged) {
  const Graph& joint = *staged.lowered.graph;
  Json::Array saved;
  std::vector<NodeId> backward;
  for (ValueId v : staged.cut.saved) saved.push_back(value_place(joint, v));
  for (NodeId n = 0; n < joint.nodes().size(); ++n)
    if (joint.node(n).is_backward) backward.push_back(n);
  return Json::Object{{"forward", numbers(staged.cut.forward)},
                      {"backward", numbers(staged.cut.backward)},
                      {"saved", saved},
                      {"is_backward", numbers(backward)}};
}

void read_cut(const JsonView& v, StagedGraph& staged) {
  Graph& joint = *staged.lowered.graph;
  staged.cut.forward = nodes_at(joint, v.field("forward"));
  staged.cut.backward = nodes_at(joint, v.field("backward"));
  for (const JsonView& s : v.field("saved").items()) staged.cut.saved.push_back(value_at(joint, s));
  for (NodeId n : nodes_at(joint, v.field("is_backward"))) joint.node(n).is_backward = true;
}

// ---- code

Json code_json(const KeptCode& code, size_t index, Sections& sections) {
  if (!code.bytes.empty())
    sections.add(message("{}code/{}", unchecked, index), formats::as_byte_span(code.bytes));
  return Json::Object{{"stage", static_cast<int64_t>(code.stage)},
                      {"kind", static_cast<int64_t>(code.kind)},
                      {"backend", code.backend},
                      {"digest", code.digest}};
}

KeptCode read_code(const JsonView& v, size_t index, const TenonFile& file) {
  KeptCode out;
  out.stage = static_cast<Stage>(number_below(v.field("stage"), 5));
  out.kind = static_cast<KeptCode::Kind>(number_below(v.field("kind"), 3));
  out.backend = v.field("backend").text();
  out.digest = v.field("digest").text();
  if (out.kind == KeptCode::Kind::plugin && out.digest.empty())
    out.bytes = formats::as_text(file.section(message("{}code/{}", unchecked, index)).span);
  return out;
}

}  // namespace

std::string write_entry(const CacheEntry& entry) {
  const Lowered& lowered = entry.staged.lowered;
  Sections graphs, sections;
  Json constants = add_graph(graphs, "graph", *lowered.graph);
  for (const auto& [name, bytes] : graphs.list())
    sections.add(std::string(unchecked) + name, bytes);
  std::set<DerivedOrigin> seen;
  Json::Array origins, conditions, codes;
  add_origins(*lowered.graph, seen, origins);
  for (const std::string& c : entry.conditions) conditions.emplace_back(c);
  for (size_t i = 0; i < entry.codes.size(); ++i)
    codes.push_back(code_json(entry.codes[i], i, sections));
  Json::Object top{{"kind", static_cast<int64_t>(entry.staged.kind)},
                   {"plan", plan_text(lowered)},
                   {"constants", constants},
                   {"derived", origins},
                   {"conditions", conditions},
                   {"codes", codes}};
  if (entry.staged.kind == StagedGraph::Kind::training)
    top.push_back({"cut", cut_json(entry.staged)});
  sections.add_owned(std::string(unchecked) + "entry", Json(std::move(top)).dump());
  return formats::tenon_file_bytes(sections.list());
}

CacheEntry read_entry(std::string bytes, size_t n_inputs) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  std::string name(subject);
  TenonFile file = TenonFile::from_bytes(
      formats::aligned({formats::as_byte_span(*owner), owner}, subject), name, unchecked);
  auto section = [&](const std::string& s) { return file.section(std::string(unchecked) + s); };
  formats::JsonDocument document = formats::parse_json(section("entry").span, name);
  JsonView top = document.view();
  derive_again(top.field("derived"));
  CacheEntry out;
  out.staged.kind = static_cast<StagedGraph::Kind>(number_below(top.field("kind"), 3));
  bool is_training = out.staged.kind == StagedGraph::Kind::training;
  out.staged.lowered =
      read_plan(top.field("plan").text(), read_graph(section, "graph", top.field("constants")),
                n_inputs, name);
  require(is_training == out.staged.lowered.derivative.has_value(), ErrorCode::bad_file,
          "{}: a derivative where none is expected, or none", name);
  if (is_training) read_cut(top.field("cut"), out.staged);
  for (const JsonView& c : top.field("conditions").items()) out.conditions.push_back(c.text());
  std::vector<JsonView> codes = top.field("codes").items();
  for (size_t i = 0; i < codes.size(); ++i) out.codes.push_back(read_code(codes[i], i, file));
  return out;
}

}  // namespace tenon
