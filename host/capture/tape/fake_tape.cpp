// What a body is told of the tape that its tensors will have: whether one is a leaf, and its node.
#include "autograd/grad_state.h"
#include "autograd/row_node.h"
#include "autograd/tape.h"
#include "autograd/tape_requests.h"
#include "capture/body_scope.h"
#include "capture/follow/follow.h"
#include "capture/tape/grad_effects.h"
#include "capture/trace.h"
#include "core/dispatch.h"
#include "graph/record.h"

namespace tenon {

namespace {

const Node* node_in(const Graph& graph, ValueId value) {
  const GraphValue& v = graph.value(value);
  return v.source == ValueSource::node ? &graph.node(v.source_index) : nullptr;
}

// Of an output of a segment, counted over all.
const Node* node_in_segments(const Recording& recording, uint32_t output) {
  for (const Segment& segment : recording.segments) {
    if (output < segment.n_outputs)
      return node_in(*segment.graph, segment.graph->outputs()[output]);
    output -= static_cast<uint32_t>(segment.n_outputs);
  }
  return nullptr;
}

const Node* maker_in_trace(Trace& trace, const Tensor& fake) {
  GraphRecorder* recorder = &recorder_of_thread();
  // A body sees the tensors around it, too.
  if (!recorder->owns(fake)) recorder = BodyScope::owner_of(fake);
  if (recorder)
    if (const Node* node = node_in(recorder->graph(), recorder->value_of(fake))) return node;
  const ValueOrigin* origin = trace.inputs().known_origin(fake);
  bool is_made = origin && origin->kind == ValueOrigin::Kind::graph;
  return is_made ? node_in_segments(trace.so_far(), origin->index) : nullptr;
}

const Node* maker_in_walk(const Walk& walk, const Tensor& fake) {
  auto made = walk.output_of_segment(fake);
  return made ? node_in(*made->first->graph, made->second) : nullptr;
}

/// What the thread's recording, or the one that it follows, knows of a fake.
struct Known {
  const Node* maker = nullptr;  ///< the operation of the body that made or wrote it last
  Tensor real;                  ///< what it stands for, where that is known
};

Known known_of(const Tensor& fake) {
  if (const Follower* follower = Follower::current())
    return {maker_in_walk(follower->walk(), fake), Tensor(follower->walk().real_of(fake))};
  Trace* trace = Trace::current();
  return trace ? Known{maker_in_trace(*trace, fake), concrete_of(fake)} : Known{};
}

// The real tensor may be that of before the operations that wait.
bool stands_for(const Tensor& real, const Tensor& fake) {
  PauseRecording pause;
  return real.defined() && real.requires_grad() == fake.requires_grad();
}

const bool installed_fake_tape = [] {
  autograd::is_leaf_slot = [](const Tensor& fake) {
    if (!fake.requires_grad()) return true;
    if (const Tensor* outside = BodyScope::around(fake))
      return outside->defined() && outside->is_leaf();
    Known known = known_of(fake);
    // What has no node on a tape of its own is a leaf.
    if (!stands_for(known.real, fake))
      return !known.maker || (is_on_own_tape() && !BodyScope::is_inside());
    PauseRecording pause;
    return known.real.is_leaf();
  };
  autograd::node_slot = [](const Tensor& fake) -> std::shared_ptr<autograd::Node> {
    if (fake.is_leaf()) return nullptr;
    Known known = known_of(fake);
    if (known.maker)
      return std::make_shared<autograd::ComingNode>(autograd::node_name(entry_of(known.maker->op)),
                                                    fake);
    PauseRecording pause;
    return known.real.defined() ? autograd::node_of(known.real) : nullptr;
  };
  return true;
}();

}  // namespace

}  // namespace tenon
