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

/// The operation of the body that made or wrote a tensor last.
struct Maker {
  const Node* node = nullptr;
  bool gives_history = false;  ///< else a write to another view of the memory has
};

Maker node_in(const Graph& graph, ValueId value) {
  const GraphValue& v = graph.value(value);
  if (v.source != ValueSource::node) return {};
  return {&graph.node(v.source_index), v.flags.requires_grad};
}

// Of an output of a segment, counted over all.
Maker node_in_segments(const Recording& recording, uint32_t output) {
  for (const Segment& segment : recording.segments) {
    if (output < segment.n_outputs)
      return node_in(*segment.graph, segment.graph->outputs()[output]);
    output -= static_cast<uint32_t>(segment.n_outputs);
  }
  return {};
}

Maker maker_in_trace(Trace& trace, const Tensor& fake) {
  GraphRecorder* recorder = &recorder_of_thread();
  // A body sees the tensors around it, too.
  if (!recorder->owns(fake)) recorder = BodyScope::owner_of(fake);
  if (recorder)
    if (Maker maker = node_in(recorder->graph(), recorder->value_of(fake)); maker.node)
      return maker;
  const ValueOrigin* origin = trace.inputs().known_origin(fake);
  bool is_made = origin && origin->kind == ValueOrigin::Kind::graph;
  return is_made ? node_in_segments(trace.so_far(), origin->index) : Maker{};
}

Maker maker_in_walk(const Walk& walk, const Tensor& fake) {
  auto made = walk.output_of_segment(fake);
  return made ? node_in(*made->first->graph, made->second) : Maker{};
}

/// What the thread's recording, or the one that it follows, knows of a fake.
struct Known {
  Maker maker;
  Tensor real;  ///< what it stands for, where that is known
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
    // What has no node on a tape of its own is a leaf. What is no other than the body has made of it
    // gets one.
    if (!stands_for(known.real, fake)) {
      if (is_on_own_tape() && !BodyScope::is_inside()) return true;
      return !known.maker.node && !known.real.defined();
    }
    PauseRecording pause;
    return known.real.is_leaf();
  };
  autograd::node_slot = [](const Tensor& fake) -> std::shared_ptr<autograd::Node> {
    if (fake.is_leaf()) return nullptr;
    Known known = known_of(fake);
    if (known.maker.gives_history)
      return std::make_shared<autograd::ComingNode>(
          autograd::node_name(entry_of(known.maker.node->op)), fake);
    if (known.real.defined()) {
      PauseRecording pause;
      if (std::shared_ptr<autograd::Node> node = autograd::node_of(known.real)) return node;
    }
    return std::make_shared<autograd::ComingNode>("CopySlices", fake);
  };
  return true;
}();

}  // namespace

}  // namespace tenon
