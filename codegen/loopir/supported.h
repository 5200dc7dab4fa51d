// Which nodes of a graph become code, so that the host runs the others and no more.
#pragma once

#include <tenon/plugin.hpp>

namespace loopir {

/// One verdict a node: no for control flow, for ops whose sizes or values only the run knows, for
/// numbers that are not integers, and for whatever mentions a size that is one of these. Under
/// fallback = "error" all are taken, so that compiling says what is wrong.
void support_nodes(const tn_compile_request& request, bool takes_all, std::span<uint8_t> verdicts);

}  // namespace loopir
