// Cutting candidates, and their files.
#include "debug/minify/candidate.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "formats/tensors.h"
#include "graph/passes/passes.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

namespace tenon {

bool Candidate::has_values() const {
  return std::ranges::any_of(inputs, [](const Tensor& t) { return t.defined(); });
}

CandidateCutter::CandidateCutter(Candidate whole, KnownValues known)
    : whole_(std::move(whole)), known_(std::move(known)), extractor_(*whole_.graph) {
  known_.resize(whole_.graph->values().size());
  std::span<const ValueId> inputs = whole_.graph->inputs();
  for (size_t i = 0; i < whole_.inputs.size(); ++i)
    if (whole_.inputs[i].defined()) known_[inputs[i]] = whole_.inputs[i];
}

std::optional<Candidate> CandidateCutter::cut(std::span<const NodeId> nodes,
                                              std::span<const ValueId> outputs) try {
  if (outputs.empty()) return std::nullopt;
  Extracted piece = extractor_.cut(nodes, {}, outputs);
  Candidate out{piece.graph, {}};
  for (ValueId v : piece.outer_inputs) out.inputs.push_back(v == no_value ? Tensor() : known_[v]);
  return out;
} catch (const Error&) {
  return std::nullopt;
}

std::optional<Candidate> CandidateCutter::cut(std::span<const NodeId> nodes) {
  const Graph& graph = *whole_.graph;
  std::vector<bool> is_read(graph.values().size());
  for (NodeId n : nodes) Graph::for_each_use(graph.node(n), [&](ValueId v) { is_read[v] = true; });
  for (ValueId v : graph.outputs())
    if (v != no_value) is_read[v] = false;
  std::vector<ValueId> outputs;
  for (NodeId n : nodes)
    for (uint32_t r = 0; r < graph.node(n).n_results; ++r) {
      ValueId v = graph.node(n).first_result + r;
      if (!is_read[v] && graph.value(v).kind == ValueKind::tensor) outputs.push_back(v);
    }
  return cut(nodes, outputs);
}

std::optional<Candidate> tidied(const Candidate& candidate) {
  std::shared_ptr<Graph> live = clone(*candidate.graph);
  remove_dead_code(*live);
  std::vector<NodeId> nodes(live->nodes().size());
  std::iota(nodes.begin(), nodes.end(), NodeId{0});
  std::vector<ValueId> outputs(live->outputs().begin(), live->outputs().end());
  return CandidateCutter({live, candidate.inputs}).cut(nodes, outputs);
}

std::string whole_text(const Graph& graph) {
  return to_text(graph, {.inline_elements = std::numeric_limits<size_t>::max()});
}

std::shared_ptr<Graph> independent_copy(const Graph& graph) {
  std::shared_ptr<Graph> copy = parse_graph(whole_text(graph));
  if (!copy->shape_env) copy->shape_env = ShapeEnv::make();
  return copy;
}

void write_candidate(const Candidate& candidate, const std::string& folder) {
  std::filesystem::path path(folder);
  std::ofstream text(path / "graph.tng", std::ios::binary);
  text << whole_text(*candidate.graph);
  text.close();
  require(static_cast<bool>(text), ErrorCode::bad_file, "{}/graph.tng cannot be written", folder);
  std::error_code ignored;
  std::filesystem::remove(path / "inputs.safetensors", ignored);
  formats::NamedTensors values;
  for (size_t i = 0; i < candidate.inputs.size(); ++i)
    if (candidate.inputs[i].defined()) values.tensors[message("in.{}", i)] = candidate.inputs[i];
  if (!values.tensors.empty())
    formats::write_tensors((path / "inputs.safetensors").string(), values);
}

}  // namespace tenon
