// The joint graph: a functional graph whose recording goes on with its derivative.
#pragma once

#include "aot/lower.h"
#include "graph/record.h"

namespace tenon {

/// Sends tangents, further inputs of the graph, through the tape that `results` were recorded on,
/// and adds the gradients to them; nothing where no result needs one.
std::optional<Derivative> differentiate(GraphRecorder& recorder, std::vector<Tensor>& results,
                                        const AutocastState& backward_autocast);

}  // namespace tenon
