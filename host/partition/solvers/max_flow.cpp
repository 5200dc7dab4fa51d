// Minimum cuts by Dinic's algorithm on flat arrays.
//
// Problem: the least total capacity of arcs whose removal separates source and sink, and the cut
// nearest to the sink among those of that capacity.
// Model: each arc lies in the array of its start vertex beside an opposite arc of capacity 0;
// `rest` of both always sums up to the capacity given. Method: levels by a search from the sink
// backwards, so that dead ends are never entered; then paths along falling levels with one cursor a
// vertex, each vertex left for good once it is exhausted; again until the source has no level. The
// vertices that can reach the sink in the rest network are the sink side. Cost: O(V^2 E) at worst;
// on networks of joint graphs a few dozen rounds of O(E). Source: E. A. Dinic, Soviet Mathematics
// Doklady 11 (1970) 1277-1280.
#include "partition/solvers/max_flow.h"

#include "core/error.h"

#include <algorithm>

namespace tenon::partition {

constexpr uint32_t no_level = ~uint32_t{0};  // plus one: 0, the level of the sink alone

void FlowNetwork::add_arc(Vertex from, Vertex to, int64_t capacity) {
  given_.push_back({from, to, capacity});
}

void FlowNetwork::index_arcs() {
  first_.assign(n_ + 1, 0);
  for (const Given& arc : given_) {
    ++first_[arc.from + 1];
    ++first_[arc.to + 1];
  }
  for (uint32_t v = 0; v < n_; ++v) first_[v + 1] += first_[v];
  arcs_.resize(2 * given_.size());
  std::vector<uint32_t> at(first_.begin(), first_.end() - 1);
  for (const Given& arc : given_) {
    uint32_t forth = at[arc.from]++, back = at[arc.to]++;
    arcs_[forth] = {arc.to, back, arc.capacity};
    arcs_[back] = {arc.from, forth, 0};
  }
}

std::vector<FlowNetwork::Vertex> FlowNetwork::infinite_path(Vertex source, Vertex sink) {
  if (arcs_.empty()) index_arcs();
  std::vector<Vertex> from(n_, no_level);
  from[source] = source;
  queue_.assign(1, source);
  for (size_t i = 0; i < queue_.size() && from[sink] == no_level; ++i)
    for (uint32_t a = first_[queue_[i]]; a < first_[queue_[i] + 1]; ++a)
      if (arcs_[a].rest == infinite && from[arcs_[a].to] == no_level) {
        from[arcs_[a].to] = queue_[i];
        queue_.push_back(arcs_[a].to);
      }
  if (from[sink] == no_level) return {};
  std::vector<Vertex> path{sink};
  while (path.back() != source) path.push_back(from[path.back()]);
  std::reverse(path.begin(), path.end());
  return path;
}

// Steps to the sink along arcs that can still carry something.
bool FlowNetwork::find_levels(Vertex source, Vertex sink) {
  level_.assign(n_, no_level);
  level_[sink] = 0;
  queue_.assign(1, sink);
  for (size_t i = 0; i < queue_.size(); ++i)
    for (uint32_t a = first_[queue_[i]]; a < first_[queue_[i] + 1]; ++a) {
      Vertex to = arcs_[a].to;
      if (level_[to] != no_level || arcs_[arcs_[a].back].rest == 0) continue;
      level_[to] = level_[queue_[i]] + 1;
      queue_.push_back(to);
    }
  return level_[source] != no_level;
}

// All paths of this round. The path is kept as arcs, so that long chains need no deep calls.
int64_t FlowNetwork::block_paths(Vertex source, Vertex sink) {
  next_.assign(first_.begin(), first_.end() - 1);
  std::vector<uint32_t>& path = queue_;
  path.clear();
  int64_t total = 0;
  for (Vertex v = source;;) {
    if (v == sink) {
      int64_t least = infinite;
      for (uint32_t a : path) least = std::min(least, arcs_[a].rest);
      size_t full = path.size();
      for (size_t i = path.size(); i-- > 0;) {
        arcs_[path[i]].rest -= least;
        arcs_[arcs_[path[i]].back].rest += least;
        if (arcs_[path[i]].rest == 0) full = i;
      }
      total += least;
      // Go on from the start of the first arc that is full now.
      v = arcs_[arcs_[path[full]].back].to;
      path.resize(full);
      continue;
    }
    uint32_t& a = next_[v];
    while (a < first_[v + 1] && (arcs_[a].rest == 0 || level_[arcs_[a].to] + 1 != level_[v])) ++a;
    if (a < first_[v + 1]) {
      path.push_back(a);
      v = arcs_[a].to;
    } else if (path.empty()) {
      return total;
    } else {
      level_[v] = no_level;
      v = arcs_[arcs_[path.back()].back].to;
      path.pop_back();
    }
  }
}

void FlowNetwork::mark_sink_side(Vertex sink) {
  sink_side_.assign(n_, 0);
  for (Vertex v = 0; v < n_; ++v) sink_side_[v] = level_[v] != no_level;
  ensure(sink_side_[sink], "the sink reaches itself");
}

int64_t FlowNetwork::solve(Vertex source, Vertex sink) {
  if (arcs_.empty()) index_arcs();
  int64_t total = 0;
  while (find_levels(source, sink)) total += block_paths(source, sink);
  // The last search, which did not find the source, saw what can reach the sink.
  mark_sink_side(sink);
  return total;
}

}  // namespace tenon::partition
