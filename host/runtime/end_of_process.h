// Calls of compiled code while the process ends.
#pragma once

#include "graph/artifact.h"

#include <memory>
#include <span>

namespace tenon {

/// Calls the code of `graph`. Where plugins are shut down since the process ends, the operations run one
/// by one: threads that are left, and what runs at exit, find what they have computed.
void call_to_the_end(Artifact& code, const std::shared_ptr<Graph>& graph,
                     std::span<detail::TensorHead*> inputs, std::span<const int64_t> symbols,
                     std::span<Tensor> outputs);

}  // namespace tenon
