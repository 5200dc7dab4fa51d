// From verdicts on nodes to one artifact.
#include "backend/compile/compile_regions.h"

#include "backend/abi/status.h"
#include "backend/compile/declined.h"
#include "backend/compile/fallback.h"
#include "backend/compile/stitched.h"
#include "core/joined.h"
#include "graph/regions.h"
#include "ops/op_table.h"
#include "report/events.h"
#include "report/log.h"

#include <set>

namespace tenon {

namespace {

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

  std::shared_ptr<Artifact> run() {
    std::vector<Support> verdicts(graph_.nodes().size());
    if (tn_status* declined = ask(verdicts)) return decline_all(declined);
    auto min_ops = static_cast<size_t>(std::max<int64_t>(backend_.manifest.min_region_ops, 1));
    cut_ = cut_into_regions(graph_, Dependencies(graph_), verdicts, min_ops);
    if (cut_.pieces.size() == 1 && cut_.pieces[0].is_region)
      return compile_whole(backend_, request_);
    if (backend_.manifest.fallback.empty()) refuse();
    if (cut_.pieces.size() == 1) return leave_all();
    return compile_pieces();
  }

 private:
  tn_status* ask(std::vector<Support>& verdicts);
  std::shared_ptr<Artifact> decline_all(tn_status* status);
  std::shared_ptr<Artifact> leave_all();
  [[noreturn]] void refuse();
  std::shared_ptr<Artifact> compile_pieces();
  CompiledPiece compile_piece(Extractor& extractor, const GraphPiece& piece, size_t index);
  void note(const GraphPiece& piece, const std::string& run_by, const std::string& why);

  const PluginBackend& backend_;
  AbiRequest& request_;
  const CompileRequest& outer_;
  const Graph& graph_;
  const std::string& name_;
  GraphPieces cut_;
  std::vector<bool> is_static_;  // by value
  std::vector<std::string> node_names_;
  std::vector<PlacedPiece> placed_;
};

// The status when the backend declines the graph as a whole.
tn_status* PieceCompiler::ask(std::vector<Support>& verdicts) {
  std::vector<uint8_t> bytes(verdicts.size(), TN_NOT_SUPPORTED);
  tn_status* status = nullptr;
  {
    auto lock = backend_.lock();
    status = call_plugin(backend_.plugin.net, message("supports of backend {}", name_), [&] {
      return backend_.table.supports(backend_.table.self, &request_.abi, bytes.data());
    });
  }
  if (status && status->code == TN_DECLINED) return status;
  if (status)
    throw_status(status, ErrorCode::backend_compiler_failed,
                 message("backend {}: supports", name_));
  for (size_t n = 0; n < bytes.size(); ++n) {
    if (bytes[n] > TN_SUPPORTED_IF_FUSED)
      throw BackendError(
          ErrorCode::backend_compiler_failed, TN_INTERNAL,
          message("backend {}: supports said {} of node {} ({}); expected 0 (no), 1 (yes) or 2 (if "
                  "fused)",
                  name_, static_cast<int>(bytes[n]), n, name_of(graph_.node(n).op)));
    verdicts[n] = static_cast<Support>(bytes[n]);
  }
  return nullptr;
}

std::shared_ptr<Artifact> PieceCompiler::decline_all(tn_status* status) {
  if (backend_.manifest.fallback.empty())
    throw_status(status, ErrorCode::backend_compiler_failed, message("backend {}", name_));
  std::string reason = status->text;
  free_status(status);
  note_declined({name_, backend_.manifest.fallback, reason, graph_.nodes().size()});
  return compile_with_fallback(backend_.manifest, outer_, reason);
}

std::shared_ptr<Artifact> PieceCompiler::leave_all() {
  std::string reason =
      message("no region of it is supported; left are {}", joined(refused_ops(graph_, cut_)));
  note_declined({name_, backend_.manifest.fallback, reason, graph_.nodes().size()});
  return compile_with_fallback(backend_.manifest, outer_, reason);
}

void PieceCompiler::refuse() {
  throw BackendError(
      ErrorCode::unsupported, TN_UNIMPLEMENTED,
      message("backend {} does not support {}, and has no fallback; use another backend", name_,
              joined(refused_ops(graph_, cut_))));
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
    DeclineObserver observer;
    out.artifact = compile_whole(backend_, rq);
    if (observer.declined().empty())
      run_by = name_;
    else
      why = message("the backend declined its region: {}", observer.declined()[0].reason);
  } else {
    out.artifact =
        compile_with_fallback(backend_.manifest, request, joined(op_names(*out.part.graph)));
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
  for (NodeId n : piece.nodes)
    placed.nodes.push_back({node_names_[n], name_of(graph_.node(n).op),
                            why.empty() ? std::string(text_of(cut_.reasons[n])) : why});
}

}  // namespace

std::shared_ptr<Artifact> compile_in_regions(const PluginBackend& backend, AbiRequest& request) {
  return PieceCompiler(backend, request).run();
}

}  // namespace tenon
