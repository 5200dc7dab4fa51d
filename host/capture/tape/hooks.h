// What a body asks of the tape, while it is recorded or followed: hooks and functions.
#pragma once

#include "autograd/tape_requests.h"
#include "graph/record.h"

namespace tenon {

class Trace;

/// Registers a hook on a tensor that has a tape.
autograd::HookHandle attach_now(const autograd::HookWish& wish, const Tensor& real);
/// The hook waits for the code that makes a value. Throws UserError for one that is for leaves.
autograd::HookHandle wait_with(const autograd::HookWish& wish, ValueId value,
                               autograd::TapeRequests& requests);
/// Whether it is a leaf that needs a gradient, or may once need one: its hooks are its own, whatever a
/// body writes to it.
bool takes_at_once(const Tensor& real, const autograd::HookWish& wish);
/// A tensor that is not the result of an operation that is still to run has no node to come.
void require_node_to_come(const autograd::HookWish& wish);
/// Throws UserError where an output of a segment may have gradients that do not pass its tensor.
/// `may_get_gradient`: somebody has, or has used, another output of the segment.
void require_whole_gradient(const autograd::HookWish& wish, const Graph& graph, ValueId output,
                            FunctionRef<bool(size_t output)> may_get_gradient);
/// Marks the outputs of a segment that it has computed others from, for a body that asks for gradients
/// between its segments.
void keep_whole_gradients(Graph& segment);
/// Whether an operation behind the value, and before `end`, writes its memory by another name: then its
/// hook ends the segment.
bool is_written_through_views(const Graph& graph, ValueId value, NodeId end = ~NodeId{0});

/// The function, whose forward is recorded up to here, becomes a part of the graph; false where it
/// cannot.
bool put_into_graph(Trace& trace, const std::shared_ptr<const autograd::WaitingFunction>& function,
                    const autograd::FunctionTensors& tensors);

}  // namespace tenon
