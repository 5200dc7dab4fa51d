// Dividing a graph for recording.
//
// Problem: most nodes launch kernels, which a recording repeats; some cannot be recorded, and
// numbers on the CPU are computed by the host at each call.
// Model: the nodes in their order, each of one class: host (its operands are numbers that are known
// before anything has run on the device), recorded, direct.
// Method: one walk gives classes; runs of equal class are the pieces. A value crosses from a piece
// to another, or to the caller, where somebody outside of it reads it.
// Cost: linear in nodes, operands and values.
#include "pieces.h"

#include <algorithm>

namespace recordings {

using tenon::plugin::graph;
using tenon::plugin::node;
using tenon::plugin::value;

size_t Pieces::n_recorded() const {
  return static_cast<size_t>(std::ranges::count_if(list, &Piece::is_recorded));
}

namespace {

class Divider {
 public:
  Divider(const graph& g, int32_t device, const DrawsThere& draws_there)
      : g_(g), device_(device), draws_there_(draws_there), early_(g.values()) {
    for (uint32_t id = 0; id < g.values(); ++id) early_[id] = g.value_at(id).source != TN_SRC_NODE;
  }

  void place(uint32_t i) {
    node n = g_.at(i);
    bool is_host = is_host_node(g_, n);
    if (is_host && is_early(n)) {
      for (uint32_t r = 0; r < n.n_results; ++r) early_[n.first_result + r] = true;
      return out.host_nodes.push_back(i);
    }
    // Numbers of the host that hang on what runs directly, such as on an item.
    if (is_host) return add(i, false);
    std::optional<Skip> why = why_not(g_, i, device_, draws_there_);
    add(i, !why);
    if (why) out.skips.push_back(*std::move(why));
  }

  Pieces out;

 private:
  bool is_early(const node& n) const {
    bool all = true;
    for_each_operand(n, [&](uint32_t id) { all = all && early_[id]; });
    return all;
  }
  void add(uint32_t i, bool is_recorded) {
    if (out.list.empty() || out.list.back().is_recorded != is_recorded)
      out.list.push_back({is_recorded, {}, {}, {}});
    out.list.back().nodes.push_back(i);
  }

  const graph& g_;
  int32_t device_;
  const DrawsThere& draws_there_;
  std::vector<bool> early_;  // by value: known before anything runs on the device
};

/// Who makes and who reads each value.
class Borders {
 public:
  Borders(const graph& g, const Pieces& pieces) : g_(g), piece_of_(g.size(), nobody) {
    for (uint32_t p = 0; p < pieces.list.size(); ++p)
      for (uint32_t i : pieces.list[p].nodes) piece_of_[i] = p;
    is_output_.resize(g.values());
    for (uint32_t id : g.outputs())
      if (id != TN_NO_VALUE) is_output_[id] = true;
  }

  void find(Piece& piece, uint32_t p) const {
    std::vector<bool> seen(g_.values());
    for (uint32_t i : piece.nodes) {
      node n = g_.at(i);
      for_each_operand(n, [&](uint32_t id) {
        if (!seen[id] && comes_from_outside(id, p)) piece.inputs.push_back(id);
        seen[id] = true;
      });
      for (uint32_t r = 0; r < n.n_results; ++r)
        if (is_wanted(n.first_result + r, p)) piece.outputs.push_back(n.first_result + r);
    }
  }

 private:
  static constexpr uint32_t nobody = TN_NO_VALUE;

  // Constants of the CPU are the same in each call.
  bool comes_from_outside(uint32_t id, uint32_t p) const {
    value v = g_.value_at(id);
    if (v.source == TN_SRC_NODE && piece_of_[v.source_index] == p) return false;
    Place place = place_of(v);
    return place == Place::device || (place == Place::host_number && v.source != TN_SRC_CONSTANT);
  }
  bool is_wanted(uint32_t id, uint32_t p) const {
    if (place_of(g_.value_at(id)) != Place::device) return false;
    if (is_output_[id]) return true;
    return std::ranges::any_of(g_.users(id), [&](uint32_t user) { return piece_of_[user] != p; });
  }

  const graph& g_;
  std::vector<uint32_t> piece_of_;  // by node
  std::vector<bool> is_output_;
};

// What is too small joins what runs directly around it.
void leave_small_ones(Pieces& pieces, uint32_t min_nodes) {
  std::vector<Piece> kept;
  for (Piece& piece : pieces.list) {
    piece.is_recorded = piece.is_recorded && piece.nodes.size() >= min_nodes;
    if (kept.empty() || kept.back().is_recorded || piece.is_recorded)
      kept.push_back(std::move(piece));
    else
      kept.back().nodes.insert(kept.back().nodes.end(), piece.nodes.begin(), piece.nodes.end());
  }
  pieces.list = std::move(kept);
}

}  // namespace

Pieces divided(const graph& g, int32_t device, uint32_t min_nodes, const DrawsThere& draws_there) {
  Divider divider(g, device, draws_there);
  for (uint32_t i = 0; i < g.size(); ++i) divider.place(i);
  Pieces out = std::move(divider.out);
  leave_small_ones(out, min_nodes);
  Borders borders(g, out);
  for (uint32_t p = 0; p < out.list.size(); ++p)
    if (out.list[p].is_recorded) borders.find(out.list[p], p);
  return out;
}

}  // namespace recordings
