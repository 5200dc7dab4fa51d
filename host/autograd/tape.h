// Recording: what the autograd key does with a call.
#pragma once

#include "autograd/node.h"
#include "autograd/vjp_plan.h"
#include "core/function_ref.h"
#include "ops/op_table.h"

namespace tenon::autograd {

/// Runs the op and records it where an argument needs a gradient and gradients are on.
void record_call(const CallArgs& call);

/// Records a call with rules that has run before, and has written nothing that its node keeps.
std::shared_ptr<Node> record_after(const CallArgs& call, const VjpPlan& plan);

/// Remembers where a node was made, in anomaly mode.
void note_origin(Node& node, const std::string& op);

/// A node for results whose gradient cannot be had; passing through it throws `why`.
std::shared_ptr<Node> make_refusing_node(std::string name, std::string why, Edges edges);
/// A gradient that goes through what the call has written and does not give back is refused: of these
/// tensors, or of those among them that needed one before, no rule tells.
enum class Written : uint8_t { all, with_history };
void refuse_writes(const CallArgs& call, const Edges& edges, Written which);
/// Whether it is one that tells of no edges: it may hide a way to any input.
bool hides_edges(const Node& node);

/// While a recorder runs: the gradient of a leaf is about to be read, or to be replaced without
/// being read. capture/tape/grad_effects.cpp.
extern void (*gradient_touched_slot)(const Tensor& leaf, bool reads);
/// While a recorder runs: whether a tensor needs a gradient is about to change.
extern void (*requires_grad_slot)(const Tensor& t, bool value, std::source_location where);
/// While a recorder runs: real tensors take the places of fakes in `tensors`, and recording is
/// suspended until the token is given to resume_recording_slot. Null, with nothing changed, where
/// ops go through the tape as they are recorded. A pass is to give the whole gradients of `sought`.
/// capture/tape/grad_effects.cpp.
extern void* (*leave_recording_slot)(const char* what, std::source_location where,
                                     std::vector<Tensor>& tensors, std::span<const Tensor> sought);
extern void (*resume_recording_slot)(void* token);
/// While a recorder runs: the tensor that a fake stands for, if it is known and has the gradient.
extern Tensor (*behind_fake_slot)(const Tensor& fake);
/// While a recorder runs whose ops go through the tape: the captured tensor that a fake stands for, by
/// which the tape knows it; undefined for others. capture/tape/grad_effects.cpp.
extern Tensor (*captured_slot)(const Tensor& fake);
/// While a recorder runs: whether a fake that has no node is a leaf of a plain run.
/// capture/tape/fake_tape.cpp.
extern bool (*is_leaf_slot)(const Tensor& fake);

}  // namespace tenon::autograd
