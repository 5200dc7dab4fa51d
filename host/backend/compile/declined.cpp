// The observers of a thread, innermost first.
#include "backend/compile/declined.h"

#include <utility>

namespace tenon {

static constinit thread_local DeclineObserver* innermost = nullptr;

DeclineObserver::DeclineObserver() : outer_(std::exchange(innermost, this)) {}
DeclineObserver::~DeclineObserver() { innermost = outer_; }

void note_declined(const DeclinedGraph& graph) {
  for (DeclineObserver* at = innermost; at != nullptr; at = at->outer_)
    at->declined_.push_back(graph);
}

void note_placed(const std::vector<PlacedPiece>& pieces) {
  for (DeclineObserver* at = innermost; at != nullptr; at = at->outer_)
    at->pieces_.insert(at->pieces_.end(), pieces.begin(), pieces.end());
}

// Pieces of what a fallback has cut again are of other graphs.
std::vector<std::string> runners_of(const Graph& graph, const std::string& backend,
                                    const DeclineObserver& observer) {
  std::vector<std::string> out(graph.nodes().size());
  for (const PlacedPiece& piece : observer.pieces()) {
    if (piece.backend != backend || piece.run_by == backend) continue;
    for (const PlacedNode& node : piece.nodes)
      if (node.node < out.size()) out[node.node] = piece.run_by;
  }
  for (const DeclinedGraph& d : observer.declined())
    if (d.backend == backend && d.n_nodes == out.size()) out.assign(out.size(), d.fallback);
  return out;
}

}  // namespace tenon
