// Which ops with a lowering rule are left to the host all the same: its kernels are faster.
#pragma once

#include <tenon/plugin.hpp>

#include <set>

namespace inductor {

/// By number of the node. Images that are enlarged by weights, or take 16 elements for one, are read
/// by loads of single lanes, each with the arithmetic of its place, where the host reads whole rows
/// and knows the places before; so are gradients of such weights. What is made of parameters only
/// stays: it is computed once.
std::set<uint32_t> nodes_for_host(const tn_compile_request& request);

}  // namespace inductor
