// New values of inputs: copies into them, which stand at the end of a graph.
#pragma once

#include <string_view>

namespace loopir {

/// Whether the op copies its second argument into its first.
inline bool copies_into_first(std::string_view op_name) { return op_name == "aten.copy_.default"; }

}  // namespace loopir
