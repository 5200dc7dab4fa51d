// The ways in which a failing graph is made smaller: one function a file, all of them on a search.
#pragma once

#include "debug/minify/search.h"

namespace tenon {

/// Leaves out nodes: what the others read of them are inputs, with the values that are known. Gives
/// the nodes of the graph as it was that are left.
std::vector<NodeId> shrink_nodes(Search& search, KnownValues known = {});
/// Leaves out outputs, with all that only they need.
void shrink_outputs(Search& search);
/// Takes bodies of control flow in the place of the control flow, and leaves out nodes of those that
/// stay.
void shrink_bodies(Search& search);
/// Takes one input for several, and made-up values for those that are given.
void shrink_inputs(Search& search);
/// Smaller sizes: other examples for symbols, which stay symbols, and other numbers.
void shrink_sizes(Search& search);

}  // namespace tenon
