// The verifier: what every graph must satisfy, checked after passes and on graphs from outside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/dispatch.h"
#include "graph/graph.h"

namespace tenon {

/// What is wrong with the structure: ids, order, arguments against schemas, numbers of results,
/// outputs, symbols, alias groups, constants. Empty when all is well; each entry names its node.
std::vector<std::string> problems_of(const Graph& graph);
/// Throws InternalError with the first problems, if there are any.
void verify(const Graph& graph);

/// Runs every node's meta function on fakes and compares dtype, device, sizes, strides and offset
/// of its results with what the graph says. Results that only run time knows are compared by rank.
std::vector<std::string> meta_problems_of(const Graph& graph);
/// The gate for graphs from files: whoever lowers, compiles or runs a graph believes its form, the
/// number of results of each node, and their dtypes, ranks and sizes. Throws UserError bad_file
/// (or unsupported, if an op refuses a dtype or layout) that begins with `file` and names the node.
/// Strides are not compared, as lowering computes them anew. Where a result that depends on data is
/// described with other sizes than its op gives, the description is put right, with all that
/// follows from it: PyTorch writes such files.
void admit_graph(Graph& graph, std::string_view file);
/// `verify`, then throws InternalError with the first differences of metadata.
void verify_meta(const Graph& graph);

}  // namespace tenon
