// Which nodes become kernels, and which the host runs.
#pragma once

#include <tenon/plugin.hpp>

#include <set>

namespace blocks {

/// The nodes that the host runs: ops that look up or write single elements (resampling, scatter,
/// padding by reflection, running sums), which blocks do one element at a time.
std::set<uint32_t> nodes_for_host(const tn_compile_request& request);

}  // namespace blocks
