// What became of graphs whose backend did not take all of them, for whoever wants to tell.
#pragma once

#include "backend/backend.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

struct DeclinedGraph {
  std::string backend, fallback;  ///< who declined, and who took it
  std::string reason;             ///< in the words of the backend
  size_t n_nodes = 0;
  Stage stage = Stage::captured;  ///< of the graph
};

/// A node of a graph that was cut, and why it is where it is.
struct PlacedNode {
  std::string name, op, why;
  NodeId node = 0;  ///< in the graph that was cut
};
/// One piece of a graph that was cut, in the order in which they run.
struct PlacedPiece {
  std::string backend;  ///< that the graph was compiled with
  std::string run_by;   ///< the backend or its fallback
  bool is_region = false;
  std::vector<PlacedNode> nodes;
  Stage stage = Stage::captured;  ///< of the graph
};

/// Collects what backends decline, and how graphs are cut, on this thread while it lives. Observers
/// nest: all of them see it.
class DeclineObserver {
 public:
  DeclineObserver();
  ~DeclineObserver();
  DeclineObserver(const DeclineObserver&) = delete;
  DeclineObserver& operator=(const DeclineObserver&) = delete;
  const std::vector<DeclinedGraph>& declined() const { return declined_; }
  const std::vector<PlacedPiece>& pieces() const { return pieces_; }

 private:
  friend void note_declined(const DeclinedGraph& graph);
  friend void note_placed(const std::vector<PlacedPiece>& pieces);
  DeclineObserver* outer_;
  std::vector<DeclinedGraph> declined_;
  std::vector<PlacedPiece> pieces_;
};

void note_declined(const DeclinedGraph& graph);
void note_placed(const std::vector<PlacedPiece>& pieces);

/// By node of a graph that `backend` was given: who runs it, empty for the backend itself.
std::vector<std::string> runners_of(const Graph& graph, const std::string& backend,
                                    const DeclineObserver& observer);

}  // namespace tenon
