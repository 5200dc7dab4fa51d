// One walk over a tape in the order of the engine: the key of the pass, and what code for it takes.
//
// Problem: before each pass it must be known whether code for such a tape is there; that has to be
// cheaper than the pass. Method: nodes are found depth first and numbered so; then the engine's
// heap is run on sequence numbers alone, and each node writes into the collector when its turn
// comes. Buffers stay with the thread. Cost: below 0.1 us a node.
#pragma once

#include "autograd/collector.h"
#include "autograd/engine.h"
#include "autograd/leaf_update.h"

#include <span>
#include <vector>

namespace tenon::tape {

using autograd::Edge;
using autograd::Node;

inline constexpr uint32_t no_visit = ~0u;

/// A node on the way of a pass.
struct Visit {
  Node* node = nullptr;
  uint32_t waiting_for = 0;   ///< edges that have not brought their gradient
  uint32_t first_target = 0;  ///< of TapeWalk::targets, one for each edge
  uint32_t first_number = 0;  ///< the sizes of its inputs
  uint32_t first_word = 0;    ///< where its part of the key ends
  uint32_t first_packed = 0;  ///< of Collector::packed_places
  uint32_t n_packed = 0;
  bool needed = true;                            ///< leads to a wanted edge
  const autograd::LeafUpdate* update = nullptr;  ///< that follows in the code
  bool runs = true;                              ///< its function is called
  bool is_leaf = false;                          ///< an AccumulateGrad
  bool opaque = false;                           ///< its function can only be called
  bool entered = false, left = false;            ///< by the search for what is needed
};

/// Of the node of a leaf.
const Tensor& leaf_of(const Node& node);
/// The update that alone follows the gradient of a leaf, which has none yet; null where there is
/// more to do, or none.
const autograd::LeafUpdate* only_update_of(const Node& node);

class TapeWalk {
 public:
  /// `root_key`: what code depends on besides the tape. With `keeps_places` for a recording.
  void run(const autograd::PassRequest& request, std::span<const uint64_t> root_key,
           bool keeps_places);

  std::vector<Visit> visits;      ///< in the order in which they are found
  std::vector<uint32_t> targets;  ///< by edge: the visit that it leads to, or no_visit
  std::vector<uint32_t> order;    ///< of the engine
  autograd::Collector collected;
  size_t root_words = 0;  ///< of the key, before the first node
  uint64_t hash() const;

 private:
  struct Ready {
    uint64_t sequence;
    uint32_t visit;
  };
  uint32_t visit_of(Node* node);
  void find_nodes(const std::vector<Edge>& roots);
  void find_needed(const autograd::PassRequest& request);
  void write_roots(const autograd::PassRequest& request, std::span<const uint64_t> root_key);
  void run_order(const std::vector<Edge>& roots);
  void write_node(Visit& visit);
  void write_hooks(Visit& visit);
  void write_update(Visit& visit, const Tensor& leaf);
  void make_ready(uint32_t visit);

  autograd::PointerTable numbers_, updated_;
  std::vector<uint32_t> open_;
  std::vector<Ready> ready_;
};

}  // namespace tenon::tape
