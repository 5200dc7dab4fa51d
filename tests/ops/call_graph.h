// A call of an op as a graph whose inputs are its tensors.
#pragma once

#include "debug/op_compare.h"
#include "graph/graph.h"

#include <functional>
#include <memory>
#include <vector>

namespace tenon {
class GraphRecorder;
}

namespace tenon::testing {

struct CallGraph {
  std::shared_ptr<Graph> graph;
  std::vector<Tensor> inputs;

  std::vector<detail::TensorHead*> heads() const;
};

/// Real tensors that the recorder meets become inputs of the graph, each once; `out` outlives it.
void lift_into(CallGraph& out, GraphRecorder& recorder);

/// `opens` says which ops are recorded as their parts; numbers given for tensors stay constants.
CallGraph graph_of_call(const OpEntry& op, const CallValues& call,
                        const std::function<bool(const OpEntry&)>& opens);

/// The call in terms of core ops, the op itself also where it is core. Throws UserError where a
/// part is not taken apart.
CallGraph graph_of_parts(const OpEntry& op, const CallValues& call);

/// What the graph gives, op by op; its inputs are written where it writes them.
std::vector<Tensor> run_graph(const CallGraph& call);

}  // namespace tenon::testing
