// How a backend is asked for code: what flags put around the question, and what the answer is
// worth.
#pragma once

#include "compile/staged_graph.h"
#include "runtime/repro.h"

#include <memory>
#include <string>

namespace tenon {

std::shared_ptr<Artifact> ask_backend(const std::string& name, const CompileRequest& request);

/// Asks for the code of staged graphs: seeds are inputs where functorch.functionalize_rng_ops says
/// so, and a failure leaves a repro behind. The backward is asked for long after this.
MakeCode code_maker(const std::string& backend, const ReproCompile& repro);

/// Compiles; what lowering and the backend ask about the sizes of the graph meanwhile becomes
/// conditions of the code, like the backend's own.
std::shared_ptr<Artifact> with_conditions(const Graph& graph,
                                          FunctionRef<std::shared_ptr<Artifact>()> compile);

}  // namespace tenon
