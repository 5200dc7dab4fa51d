// From verdicts on nodes to one artifact.
#include "backend/compile/compile_regions.h"

#include "backend/abi/status.h"
#include "backend/compile/declined.h"
#include "backend/compile/fallback.h"
#include "backend/compile/stitched.h"
#include "backend/compile/verdicts.h"
#include "core/joined.h"
#include "ops/op_table.h"
#include "report/events.h"
#include "report/log.h"

#include <atomic>
#include <limits>
#include <set>

namespace tenon {

namespace {

std::atomic<int64_t> most_regions = std::numeric_limits<int64_t>::max(), n_regions = 0;

bool takes_region() {
  return n_regions.fetch_add(1, std::memory_order_relaxed) <
         most_regions.load(std::memory_order_relaxed);
}

/// The ops of nodes that the backend refuses; all left ones when it refuses none.
std::set<std::string> refused_ops(const Graph& graph, const GraphPieces& cut) {
  std::set<std::string> refused, left;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    const std::string& op = name_of(graph.node(n).op);
    if (cut.reasons[n] == PlaceReason::unsupported) refused.insert(op);
    if (cut.reasons[n] != PlaceReason::supported) left.insert(op);
  }
  return refused.empty() ? left : refused;
}

/// One compile of a graph in pieces.
class PieceCompiler {
 public:
  PieceCompiler(const PluginBackend& backend, AbiRequest& request)
      : backend_(backend),
        request_(request),
        outer_(*request.ctx.request),
        graph_(*outer_.graph),
        name_(backend.manifest.name),
        is_static_(graph_.values().size()) {
    for (uint32_t i : outer_.static_inputs) is_static_[graph_.inputs()[i]] = true;
  }

  std::shared_ptr<Artifact> run(Verdicts verdicts) {
    verdicts_ = std::move(verdicts);
    if (verdicts_.declined) return decline_all(verdicts_.declined);
    auto min_ops = static_cast<size_t>(std::max<int64_t>(backend_.manifest.min_region_ops, 1));
    cut_ = cut_by(graph_, verdicts_, min_ops);
    if (!backend_.manifest.fallback.empty()) keep_to_limit();
    if (cut_.pieces.size() == 1 && cut_.pieces[0].is_region)
      return compile_whole(backend_, request_);
    if (backend_.manifest.fallback.empty()) refuse();
    if (cut_.pieces.size() == 1) return leave_all();
    return compile_pieces();
  }

 private:
  void keep_to_limit();
  std::shared_ptr<Artifact> decline_all(tn_status* status);
  std::shared_ptr<Artifact> leave_all();
  [[noreturn]] void refuse();
  std::shared_ptr<Artifact> compile_pieces();
  CompiledPiece compile_piece(Extractor& extractor, const GraphPiece& piece, size_t index);
  std::string why_left() const;
  std::string why_placed(NodeId node) const;
  void note(const GraphPiece& piece, const std::string& run_by, const std::string& why);

  const PluginBackend& backend_;
  AbiRequest& request_;
  const CompileRequest& outer_;
  const Graph& graph_;
  const std::string& name_;
  Verdicts verdicts_;
  GraphPieces cut_;
  std::vector<bool> is_static_;  // by value
  std::vector<std::string> node_names_;
  std::vector<PlacedPiece> placed_;
};

void PieceCompiler::keep_to_limit() {
  for (GraphPiece& piece : cut_.pieces)
    if (piece.is_region) piece.is_region = takes_region();
}

std::shared_ptr<Artifact> PieceCompiler::decline_all(tn_status* status) {
  if (backend_.manifest.fallback.empty()) refuse_declined(backend_.manifest, graph_, status);
  std::string reason = status->text;
  free_status(status);
  note_declined({name_, backend_.manifest.fallback, reason, graph_.nodes().size(), outer_.stage});
  return compile_with_fallback(backend_.manifest, outer_, reason);
}

// The ops that are left, and the first reason that the backend gave.
std::string PieceCompiler::why_left() const {
  std::string out = joined(refused_ops(graph_, cut_));
  for (NodeId n = 0; n < verdicts_.reasons.size(); ++n)
    if (verdicts_.support[n] == Support::no && !verdicts_.reasons[n].empty())
      return message("{} ({}: {})", out, name_of(graph_.node(n).op), verdicts_.reasons[n]);
  return out;
}

std::string PieceCompiler::why_placed(NodeId node) const {
  bool is_region = cut_.reasons[node] == PlaceReason::supported;
  const std::string& reason = verdicts_.reasons[node];
  return is_region || reason.empty() ? std::string(text_of(cut_.reasons[node])) : reason;
}

std::shared_ptr<Artifact> PieceCompiler::leave_all() {
  std::string reason = message("no region of it is supported; left are {}", why_left());
  note_declined({name_, backend_.manifest.fallback, reason, graph_.nodes().size(), outer_.stage});
  return compile_with_fallback(backend_.manifest, outer_, reason);
}

void PieceCompiler::refuse() {
  throw BackendError(
      ErrorCode::unsupported, TN_UNIMPLEMENTED,
      message("backend {} does not support {}, and has no fallback; use another backend", name_,
              why_left()));
}

std::shared_ptr<Artifact> PieceCompiler::compile_pieces() {
  node_names_ = names_of_nodes(graph_);
  Extractor extractor(graph_);
  std::vector<CompiledPiece> pieces;
  for (const GraphPiece& piece : cut_.pieces)
    pieces.push_back(compile_piece(extractor, piece, pieces.size()));
  note_placed(placed_);
  return stitch(outer_.graph, std::move(pieces));
}

CompiledPiece PieceCompiler::compile_piece(Extractor& extractor, const GraphPiece& piece,
                                           size_t index) {
  CompiledPiece out{piece.nodes, extractor.cut(piece.nodes), nullptr, "", piece.is_region};
  for (size_t k = 0; k < out.part.outer_inputs.size(); ++k) {
    ValueId v = out.part.outer_inputs[k];
    if (v != no_value && is_static_[v])
      out.part.graph->value(out.part.graph->inputs()[k]).flags.static_address = true;
  }
  CompileRequest request = request_for_piece(outer_, out.part.graph);
  request.compile_id += message(".{}", index);
  std::string run_by = backend_.manifest.fallback, why;
  if (piece.is_region) {
    report::counter("backend.regions").add();
    report::counter("backend.region_nodes").add(static_cast<int64_t>(piece.nodes.size()));
    AbiRequest rq(backend_.manifest, backend_.plugin.name, request, backend_.cache);
    rq.ctx.flags_read = request_.ctx.flags_read;  // decided which nodes are here
    DeclineObserver observer;
    out.artifact = compile_whole(backend_, rq);
    if (observer.declined().empty())
      run_by = name_;
    else
      why = message("the backend declined its region: {}", observer.declined()[0].reason);
  } else {
    out.artifact =
        compile_with_fallback(backend_.manifest, request, joined(names_of_ops(*out.part.graph)));
  }
  out.title = message("{} {}, {} nodes by {}", piece.is_region ? "region" : "piece", index,
                      piece.nodes.size(), run_by);
  out.is_region = run_by == name_;
  note(piece, run_by, why);
  return out;
}

void PieceCompiler::note(const GraphPiece& piece, const std::string& run_by,
                         const std::string& why) {
  PlacedPiece& placed = placed_.emplace_back();
  placed.backend = name_;
  placed.run_by = run_by;
  placed.is_region = piece.is_region;
  placed.stage = outer_.stage;
  for (NodeId n : piece.nodes)
    placed.nodes.push_back(
        {node_names_[n], name_of(graph_.node(n).op), why.empty() ? why_placed(n) : why, n});
}

}  // namespace

void limit_regions(int64_t count) {
  most_regions = count;
  n_regions = 0;
}
int64_t regions_since_limit() { return n_regions; }

std::shared_ptr<Artifact> compile_in_regions(const PluginBackend& backend, AbiRequest& request) {
  return PieceCompiler(backend, request).run(verdicts_on(backend, request));
}

std::shared_ptr<Artifact> compile_in_caller_mode(const PluginBackend& backend,
                                                 AbiRequest& request) {
  return PieceCompiler(backend, request).run(verdicts_by_mode(*request.ctx.request->graph));
}

}  // namespace tenon
