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

}  // namespace tenon
