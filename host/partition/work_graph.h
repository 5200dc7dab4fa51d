// A joint graph made ready to be cut: dead calls dropped, equal calls merged, tags cleaned up.
//
// Nodes keep their ids. Threads: plain data.
#pragma once

#include "partition/op_classes.h"
#include "partition/partition.h"

#include <span>

namespace tenon::partition {

class WorkGraph {
 public:
  using Recompute = JointNode::Recompute;

  /// `graph` must outlive the result. `merge_equal` asks for common subexpressions to be merged.
  /// Throws InternalError if the graph is malformed.
  WorkGraph(const JointGraph& graph, bool merge_equal);

  const JointGraph& joint() const { return *joint_; }
  size_t size() const { return joint_->nodes.size(); }
  const JointNode& node(JointId id) const { return joint_->nodes[id]; }
  uint16_t classes(JointId id) const { return classes_[id]; }

  /// The nodes that are left, in the order of the graph.
  const std::vector<JointId>& order() const { return order_; }
  /// Arguments, with repeats, after merging.
  std::span<const JointId> inputs(JointId id) const { return part(inputs_, first_input_, id); }
  /// Each node that reads `id` once, in the order of the graph.
  std::span<const JointId> users(JointId id) const { return part(users_, first_user_, id); }
  /// Whether the graph itself gives `id` to somebody.
  bool is_output(JointId id) const { return is_output_[id]; }
  /// Outputs after merging; no_node where there is no gradient.
  std::span<const JointId> forward_outputs() const;
  std::span<const JointId> gradients() const;
  const std::vector<JointId>& stands_for() const { return stands_for_; }

  Recompute recompute(JointId id) const { return recompute_[id]; }
  void set_recompute(JointId id, Recompute tag) { recompute_[id] = tag; }
  bool must_recompute(JointId id) const {
    return recompute_[id] == Recompute::must_recompute ||
           recompute_[id] == Recompute::prefer_recompute;
  }

  /// Traced after the gradients were asked for.
  bool of_backward(JointId id) const {
    return node(id).tag == JointNode::Tag::backward ||
           node(id).tag == JointNode::Tag::must_be_in_backward;
  }
  /// A number instead of a tensor.
  bool is_number(JointId id) const {
    JointNode::Type type = node(id).type;
    return type == JointNode::Type::sym_int || type == JointNode::Type::sym_float ||
           type == JointNode::Type::sym_bool;
  }
  bool is_view(JointId id) const { return classes_[id] & class_view; }
  bool is_input(JointId id) const { return node(id).kind != JointNode::Kind::call; }
  /// Arguments of the forward: primals and seeds.
  bool is_forward_input(JointId id) const {
    return node(id).kind == JointNode::Kind::primal ||
           node(id).kind == JointNode::Kind::forward_seed;
  }
  /// A call that must not run in both halves: it draws random numbers, has effects, talks to other
  /// processes, binds a symbol of the data or is tied to one half. It runs in the half that it was
  /// traced in.
  bool runs_once(JointId id) const { return runs_once_[id]; }
  void set_runs_once(JointId id) { runs_once_[id] = 1; }

 private:
  void check() const;
  void drop_dead();
  void merge_equal_calls();
  void index_edges();
  std::span<const JointId> part(const std::vector<JointId>& ids, const std::vector<uint32_t>& first,
                                JointId id) const {
    return std::span(ids).subspan(first[id], first[id + 1] - first[id]);
  }

  const JointGraph* joint_;
  std::vector<uint16_t> classes_;
  std::vector<JointId> order_, stands_for_, outputs_;
  std::vector<JointId> inputs_, users_;
  std::vector<uint32_t> first_input_, first_user_;
  std::vector<char> live_, is_output_, runs_once_;
  std::vector<Recompute> recompute_;
};

/// Settles which values must be saved whatever the cut says: results of calls that run once, and
/// values that leave a checkpointed region for a later one.
void settle_tags(WorkGraph& graph, const PartitionOptions& options, bool default_cut);

}  // namespace tenon::partition
