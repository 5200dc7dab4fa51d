// What must hold when a graph from outside runs.
#pragma once

#include <string_view>

namespace tenon::fuzz {

/// What the gate lets through is lowered and compiled by every backend that is there, and gives what
/// the interpreter gives for random inputs, or is refused by both. Graphs beyond a few nodes and a
/// few thousand elements are left out. Numbers that rounding blows up are compared by shape only.
/// TENON_FUZZ_PRINT=1 shows each graph that is run.
void check_runs(std::string_view graph_text);

}  // namespace tenon::fuzz
