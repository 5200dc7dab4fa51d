// Calls of compiled code that gradients must flow through.
#pragma once

#include "graph/artifact.h"

namespace tenon {

/// Whether a call with these inputs leaves gradients behind: they are on and an input needs one.
bool call_wants_gradients(std::span<detail::TensorHead* const> inputs);

/// `compiled`, but calls that want gradients run node by node on the tape, so that none is lost:
/// compiled code leaves none behind. Counted as `aot.eager_training_calls`.
std::shared_ptr<Artifact> with_eager_training(std::shared_ptr<const Graph> graph,
                                              std::shared_ptr<Artifact> compiled);
/// Goes on the tape only where a gradient is wanted.
std::shared_ptr<Artifact> on_tape_where_wanted(std::shared_ptr<Artifact> code);
/// Leaves nothing on the tape.
std::shared_ptr<Artifact> below_tape(std::shared_ptr<Artifact> code);

}  // namespace tenon
