// Which nodes become steps of the program, and which the host runs.
#pragma once

#include <tenon/plugin.hpp>

#include <set>

/// The nodes that the host runs: those that are neither a formula nor a view, a copy, a product, a
/// convolution or a layer that a library has. The host's kernels of reductions, norms, poolings and
/// the like are as good as blocks, and better for short rows. `fuses` = false: formulas that no
/// view or copy feeds are the host's, too.
std::set<uint32_t> nodes_for_host(const tn_compile_request& request);
