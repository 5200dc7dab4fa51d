// Which values are saved whatever a cut says.
//
// Calls that run once: a random op recomputed in the backward would draw other numbers than the
// forward did, so its results are saved, also where a checkpointed region or a budget asks for
// recomputation. The same holds for effects of the forward, for collectives, and for calls that
// find out sizes from the data, whatever their op: the backward names these sizes from its first
// call on, in an order in which the call may come late.
#include "partition/work_graph.h"

#include <algorithm>

namespace tenon::partition {
namespace {

using Recompute = JointNode::Recompute;
using NodeTag = JointNode::Tag;

// Results of a call, read through tuples.
void save_results(WorkGraph& graph, JointId id, Recompute tuple_tag) {
  graph.set_recompute(id, tuple_tag);
  for (JointId user : graph.users(id))
    if (graph.classes(user) & class_getitem) save_results(graph, user, Recompute::free);
}

void settle_calls_that_run_once(WorkGraph& graph, const PartitionOptions& options) {
  for (JointId id : graph.order()) {
    const JointNode& node = graph.node(id);
    bool collective = (graph.classes(id) & class_collective) &&
                      !options.unsafe_allow_optimization_of_collectives &&
                      !graph.must_recompute(id);
    bool tied = node.tag == NodeTag::must_be_in_forward || node.tag == NodeTag::must_be_in_backward;
    bool seeded = graph.classes(id) & class_seeded;
    if (!collective && !node.effect && !node.binds_symbol && !tied && !seeded) continue;
    graph.set_runs_once(id);
    if (graph.of_backward(id)) continue;
    if (seeded && !graph.must_recompute(id)) continue;  // banned by a rule of its own
    save_results(graph, id, Recompute::must_save);
  }
}

// A write to an input in both halves: the value of the forward's is what the backward begins with.
void save_sources_of_writes(WorkGraph& graph) {
  auto is_write = [&](JointId id, NodeTag tag) {
    return (graph.classes(id) & class_copy) && graph.node(id).tag == tag &&
           graph.inputs(id).size() >= 2;
  };
  for (JointId id : graph.order()) {
    if (!is_write(id, NodeTag::must_be_in_forward)) continue;
    JointId target = graph.inputs(id)[0];
    auto users = graph.users(target);
    bool again = std::any_of(users.begin(), users.end(), [&](JointId user) {
      return is_write(user, NodeTag::must_be_in_backward) && graph.inputs(user)[0] == target;
    });
    if (again) graph.set_recompute(graph.inputs(id)[1], Recompute::must_save);
  }
}

void settle_regions(WorkGraph& graph, bool default_cut) {
  for (JointId id : graph.order()) {
    auto users = graph.users(id);
    bool read_again = std::any_of(users.begin(), users.end(),
                                  [&](JointId user) { return graph.must_recompute(user); });
    if (graph.must_recompute(id)) {
      int32_t region = graph.node(id).region;
      bool read_later = std::any_of(users.begin(), users.end(), [&](JointId user) {
        return graph.must_recompute(user) && region >= 0 && graph.node(user).region > region;
      });
      if (read_later || (graph.node(id).backward_hook && !read_again))
        graph.set_recompute(id, Recompute::must_save);
    } else if (default_cut && graph.node(id).region < 0 && read_again && !graph.is_input(id) &&
               graph.recompute(id) == Recompute::free) {
      graph.set_recompute(id, Recompute::must_save);
    }
  }
}

}  // namespace

void settle_tags(WorkGraph& graph, const PartitionOptions& options, bool default_cut) {
  settle_regions(graph, default_cut);
  settle_calls_that_run_once(graph, options);
  save_sources_of_writes(graph);
}

}  // namespace tenon::partition
