// An artifact that is compared with the interpreter at its first call.
//
// Flags: dynamo.verify_correctness and dynamo.repro_level = 4 compare the results (same.h);
// functorch.fake_tensor_crossref compares what each operation gives with what the graph says.
#pragma once

#include "graph/artifact.h"
#include "runtime/repro.h"

#include <memory>

namespace tenon {

/// `artifact`, or a wrapper that checks it against `graph` where the flags ask for that and the
/// graph neither draws random numbers nor has operations with side effects. The wrapper throws BackendError for wrong results.
std::shared_ptr<Artifact> checked_artifact(std::shared_ptr<Graph> graph,
                                           std::shared_ptr<Artifact> artifact,
                                           const ReproCompile& compile);

}  // namespace tenon
