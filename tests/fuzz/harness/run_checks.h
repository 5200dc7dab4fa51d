// What must hold when a graph from outside runs.
#pragma once

#include "graph/graph.h"

#include <functional>
#include <string>
#include <string_view>

namespace tenon::fuzz {

/// Whether a graph is small, and two runs of it must agree.
bool is_worth_running(const Graph& graph);

/// Why `body` did not run through: an error that the user can be shown, or a lack of memory; empty
/// where it did. An InternalError is a finding, named by `what`. TENON_FUZZ_PRINT=1 shows it.
std::string refusal_of(std::string_view what, const std::function<void()>& body);

/// What the gate lets through is lowered and compiled by every backend that is there, and gives
/// what the interpreter gives for random inputs, or is refused by both. Graphs beyond a few nodes
/// and a few thousand elements are left out. Numbers that rounding blows up are compared by shape
/// only.
/// TENON_FUZZ_PRINT=1 shows each graph that is run.
void check_runs(std::string_view graph_text);

}  // namespace tenon::fuzz
