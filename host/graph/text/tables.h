// Graphs as tables for people: operations, and sizes of values.
#pragma once

#include "graph/graph.h"

#include <string>

namespace tenon {

/// A line for each input, constant and node: what it is, what it gives, what it takes.
std::string operation_table(const Graph& graph);
/// A line for each value with sizes. Where these are symbolic, those of the example stand behind
/// them.
std::string size_table(const Graph& graph);

}  // namespace tenon
