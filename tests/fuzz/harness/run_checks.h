// What must hold when a graph from outside runs.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::fuzz {

/// Whether a graph is small, and two runs of it must agree.
bool is_worth_running(const Graph& graph);

/// Why `body` did not run through: an error that the user can be shown, or a lack of memory; empty
/// where it did. An InternalError is a finding, named by `what`. TENON_FUZZ_PRINT=1 shows it.
std::string refusal_of(std::string_view what, const std::function<void()>& body);

/// Whether a plugin of this build has it.
bool has_backend(const std::string& name);

/// What the gate lets through is lowered and compiled by every backend that is there, and gives
/// what the interpreter gives for random inputs, or is refused by both. Graphs beyond a few nodes
/// and a few thousand elements are left out. Numbers that rounding blows up are compared by shape
/// only.
/// TENON_FUZZ_PRINT=1 shows each graph that is run.
void check_runs(std::string_view graph_text);

/// The same for one graph of these inputs.
void check_runs_with(std::string_view graph_text, const std::vector<Tensor>& inputs);

}  // namespace tenon::fuzz
