// The modes of nodes, as the recorder noted them beside that of the whole graph.
#include "backend/compile/grad_modes.h"

#include "graph/passes/view_root.h"

#include <algorithm>

namespace tenon {

namespace {

bool is_off(const Node& node) { return !is_grad_enabled_at(node, true); }

bool any_is_off(const CompileRequest& request) {
  return request.stage == Stage::captured && request.grad_enabled &&
         std::ranges::any_of(request.graph->nodes(), is_off);
}

}  // namespace

bool runs_with_gradients_off(const CompileRequest& request) {
  return any_is_off(request) && std::ranges::all_of(request.graph->nodes(), is_off);
}

bool has_both_modes(const CompileRequest& request) {
  return any_is_off(request) && !std::ranges::all_of(request.graph->nodes(), is_off);
}

}  // namespace tenon
