// Whether a backend gives the results of a graph: compared with eager ops and with double precision.
//
// Outputs, inputs after the call and, where wanted, gradients are wrong where they differ from a run
// in double precision by more than rounding although eager ops do not, as those that draw numbers
// always do. Outputs must lie as eager ops lay them. Inputs end where memory ends (edge_memory.h),
// so that reading beyond one is a crash. A graph with symbols runs for a second set of sizes, too:
// code that is good for one size only must have said so.
#pragma once

#include "debug/minify/backend_part.h"
#include "graph/graph.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// What `tell` hears of regions before their number, once the first call is judged.
inline constexpr std::string_view told_regions = "regions ";

struct JudgeOptions {
  std::string backend, mode;
  bool grad = false;  ///< also the gradients with respect to parameters, or to all floating inputs
  BackendPart part;   ///< of the backend that is at work
};

/// Makes up what is undefined among the inputs, of which there is one for each of the graph, or none:
/// normal numbers and, in integers, 0 or 1, which are positions in almost every table.
std::vector<Tensor> complete_inputs(const std::shared_ptr<Graph>& graph, std::vector<Tensor> given);

/// What is wrong, or empty: "output 0: max abs 1.5, max rel 0.3". `inputs` as complete_inputs()
/// takes them. `tell` hears what begins: "compile", "call". Throws what the
/// backend throws.
std::string judge_graph(const std::shared_ptr<Graph>& graph, std::vector<Tensor> inputs,
                        const JudgeOptions& options,
                        const std::function<void(std::string_view)>& tell);

/// What values of the graph are in a run by eager ops, under `in.N` and `NODE.RESULT`, into a file.
/// Beyond a gigabyte nothing more is kept.
void write_known_values(const std::shared_ptr<Graph>& graph, std::vector<Tensor> inputs,
                        const std::string& path);
/// Reads them back for the same graph.
std::vector<Tensor> read_known_values(const Graph& graph, const std::string& path);

}  // namespace tenon
