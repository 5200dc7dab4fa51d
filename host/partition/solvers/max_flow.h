// Maximum flow and minimum cut of a directed network with integer capacities.
//
// Threads: one network a thread.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon::partition {

class FlowNetwork {
 public:
  using Vertex = uint32_t;
  /// More than any finite cut: capacities that sum up to 2^60 or less are safe beside it.
  static constexpr int64_t infinite = int64_t{1} << 62;

  explicit FlowNetwork(uint32_t n_vertices) : n_(n_vertices) {}
  void add_arc(Vertex from, Vertex to, int64_t capacity);

  /// A path of infinite arcs from source to sink, empty if there is none: then every cut through it
  /// would be infinite. O(arcs).
  std::vector<Vertex> infinite_path(Vertex source, Vertex sink);

  /// The value of a minimum cut; there must be no infinite path. Call once.
  int64_t solve(Vertex source, Vertex sink);

  /// After solve(): whether the vertex can still reach the sink, which is the smallest sink side of
  /// all minimum cuts and does not depend on the order of the arcs.
  const std::vector<char>& sink_side() const { return sink_side_; }

 private:
  void index_arcs();
  bool find_levels(Vertex source, Vertex sink);
  int64_t block_paths(Vertex source, Vertex sink);
  void mark_sink_side(Vertex sink);

  struct Given {
    Vertex from, to;
    int64_t capacity;
  };
  uint32_t n_;
  std::vector<Given> given_;
  // By vertex: its arcs lie in arcs_[first_[v] .. first_[v + 1]).
  struct Arc {
    Vertex to;
    uint32_t back;  // index of the opposite arc
    int64_t rest;   // what can still flow
  };
  std::vector<uint32_t> first_;
  std::vector<Arc> arcs_;
  std::vector<uint32_t> level_, next_, queue_;
  std::vector<char> sink_side_;
};

}  // namespace tenon::partition
