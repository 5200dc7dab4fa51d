// Budgets of activation memory that a body sets while it is recorded: the fact `memory_budget`.
#pragma once

#include "graph/graph.h"

#include <optional>

namespace tenon {

/// What the thread has set; read before each call of a compiled function.
extern constinit thread_local std::optional<double> current_memory_budget;

/// Writes the fact for a node that is recorded now, where a budget is set.
void note_memory_budget(Node& node);

/// The one budget of a recorded graph; none where no node has one. Throws UserError where only some
/// nodes have one, or where there are several.
std::optional<double> memory_budget_of(const Graph& graph);

}  // namespace tenon
