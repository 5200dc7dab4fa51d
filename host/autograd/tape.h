// Recording: what the autograd key does with a call.
#pragma once

#include "autograd/node.h"
#include "ops/op_table.h"

namespace tenon::autograd {

/// Runs the op and records it where an argument needs a gradient and gradients are on.
void record_call(const CallArgs& call);

/// Remembers where a node was made, in anomaly mode.
void note_origin(Node& node, const std::string& op);

/// A node for results whose gradient cannot be had; passing through it throws `why`.
std::shared_ptr<Node> make_refusing_node(std::string name, std::string why,
                                         Edges edges);

}  // namespace tenon::autograd
