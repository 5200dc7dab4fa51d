// A model inside of a body that is recorded: node by node.
//
// Code of the model cannot run there: tensors of the body are fakes, and sizes may be symbolic. So
// the nodes of the imported graph are called one after the other and become part of what is
// recorded, or followed, with the body's gradients and sizes. The weights are captured tensors.
#pragma once

#include "formats/pt2/pt2_call.h"

#include <vector>

namespace tenon {

/// Whether run_in_body() can: control flow with symbolic sizes cannot be taken over.
bool can_run_in_body(const Graph& graph);

/// The results of the model's graph. Inputs that it writes are written.
std::vector<Tensor> run_in_body(const Graph& graph, const formats::BoundCallInBody& call);

}  // namespace tenon
