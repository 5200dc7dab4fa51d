// Calls of compiled code that gradients must flow through.
#pragma once

#include "graph/artifact.h"

namespace tenon {

/// `compiled`, or, where gradients are on and an input of `graph` needs one, an artifact that runs
/// such calls node by node on the tape, so that no gradient is lost: compiled code leaves none
/// behind. Counted as `aot.eager_training_calls`.
std::shared_ptr<Artifact> with_eager_training(std::shared_ptr<const Graph> graph,
                                              std::shared_ptr<Artifact> compiled);

}  // namespace tenon
