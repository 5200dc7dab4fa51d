// Graphs that a backend declined, for whoever wants to tell why code was compiled by another one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

struct DeclinedGraph {
  std::string backend, fallback;  ///< who declined, and who took it
  std::string reason;             ///< in the words of the backend
  size_t n_nodes = 0;
};

/// Collects what backends decline on this thread while it lives. Observers nest: all of them see
/// it.
class DeclineObserver {
 public:
  DeclineObserver();
  ~DeclineObserver();
  DeclineObserver(const DeclineObserver&) = delete;
  DeclineObserver& operator=(const DeclineObserver&) = delete;
  const std::vector<DeclinedGraph>& declined() const { return declined_; }

 private:
  friend void note_declined(const DeclinedGraph& graph);
  DeclineObserver* outer_;
  std::vector<DeclinedGraph> declined_;
};

void note_declined(const DeclinedGraph& graph);

}  // namespace tenon
