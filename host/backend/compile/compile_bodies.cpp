// One compile for each body of a graph.
#include "backend/compile/compile_bodies.h"

#include "backend/compile/artifact_stats.h"
#include "core/sym/sym_expr.h"
#include "graph/control_flow.h"
#include "graph/symbol_use.h"
#include "report/events.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon {

namespace {

// Inner bodies that show their own symbols bind them again; those are shown all the same.
bool shows_its_symbols(const Graph& body) {
  return std::ranges::all_of(mentioned_symbols(body), [&](const Expr* symbol) {
    return std::ranges::any_of(body.symbols,
                               [&](const SymbolBinding& b) { return b.symbol == symbol; });
  });
}

std::vector<std::shared_ptr<Graph>> bodies_of(const Graph& graph) {
  std::vector<std::shared_ptr<Graph>> out;
  for (const Node& node : graph.nodes()) {
    if (!is_control_flow(entry_of(node.op))) continue;
    for (const Value& arg : node.args)
      for (const std::shared_ptr<Graph>& body : graph.subgraphs)
        if (arg.tag == Tag::graph && arg.as<Graph>() == body.get()) out.push_back(body);
  }
  return out;
}

/// The interpreter, with the statistics of the code that it runs.
class OverBodies final : public Artifact {
 public:
  OverBodies(std::shared_ptr<const Graph> graph, BodyCode code)
      : graph_(std::move(graph)),
        code_(std::move(code)),
        interpreter_(interpreter_artifact(graph_, code_)) {
    for (const auto& [body, compiled] : code_)
      guards.insert(guards.end(), compiled->guards.begin(), compiled->guards.end());
  }
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    interpreter_->call(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t what) const override {
    if (what != TN_DESC_STATS_JSON) return interpreter_->describe(what);
    ArtifactStats all = ArtifactStats::parse(interpreter_->describe(what));
    for (const auto& [body, compiled] : code_)
      all.add(ArtifactStats::parse(compiled->describe(what)));
    return all.to_json();
  }
  SavedArtifact save() const override {
    SavedArtifact out{.kind = SavedArtifact::Kind::bodies, .graph = graph_};
    for (uint32_t i = 0; i < graph_->subgraphs.size(); ++i) {
      auto compiled = code_.find(graph_->subgraphs[i].get());
      if (compiled != code_.end())
        out.parts.push_back({.code = compiled->second->save(), .body = i});
    }
    return out;
  }

 private:
  std::shared_ptr<const Graph> graph_;
  BodyCode code_;
  std::shared_ptr<Artifact> interpreter_;
};

}  // namespace

std::shared_ptr<Artifact> interpreter_over_bodies(const std::string& name,
                                                  const CompileRequest& request) {
  BodyCode code;
  for (const std::shared_ptr<Graph>& body : bodies_of(*request.graph)) {
    if (code.contains(body.get()) || !shows_its_symbols(*body)) continue;
    CompileRequest inner = request_for_piece(request, body);
    inner.stage = Stage::inference;
    inner.compile_id += message(".body{}", code.size());
    if (!inner.chain.empty()) inner.chain.pop_back();  // `name` itself, which begins anew
    code.emplace(body.get(), compile_with_backend(name, inner));
    report::counter("backend.bodies").add();
  }
  return interpreter_over_bodies(request.graph, std::move(code));
}

std::shared_ptr<Artifact> interpreter_over_bodies(std::shared_ptr<const Graph> graph,
                                                  BodyCode code) {
  if (code.empty()) return interpreter_artifact(std::move(graph));
  return std::make_shared<OverBodies>(std::move(graph), std::move(code));
}

}  // namespace tenon
