// Control flow: ops whose arguments are graphs, the bodies.
//
//   cond(pred, true_graph, false_graph, operands)     one of two bodies
//   while_loop(cond_graph, body_graph, carried, extra) body(carried..., extra...) while cond holds
//   map(body_graph, xs, extra)                         body(slice..., extra...), stacked
//   scan(combine_graph, init, xs, extra)               combine(carry..., slice..., extra...) gives
//                                                      the new carry, then outputs to be stacked
//   associative_scan(combine_graph, xs, extra)         combine(left..., right..., extra...)
//
// Bodies are functions of tensors: they see their operands by position, write none of them, and
// share the symbols of the graph around them. Slices are those of dimension 0. Results are fresh
// memory: a result that is an operand, or shares memory with another, is a copy.
#pragma once

#include "graph/graph.h"
#include "ops/op_table.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

enum class ControlFlow : uint8_t { none, cond, while_loop, map, scan, associative_scan };

/// What the op is; `none` for ops without bodies, and for those of which nothing is known.
ControlFlow control_flow_of(const OpEntry& op);
/// The op of a kind; `by_number`: the form of cond whose condition is a number.
const OpEntry& op_of(ControlFlow kind, bool by_number = false);
inline bool is_control_flow(const OpEntry& op) { return control_flow_of(op) != ControlFlow::none; }

/// The parts of a call. Lists of operands are as in the schema: carried before extra ones.
struct ControlCall {
  ControlFlow kind = ControlFlow::none;
  std::vector<const Graph*> bodies;
  std::vector<std::vector<Tensor>> operands;
};
ControlCall control_call(const OpEntry& op, const Value* args, uint32_t n_args);

/// How the inputs of body `index` look: what the operands say, slices without dimension 0, carried
/// values and slices row by row.
std::vector<TensorMeta> body_inputs(ControlFlow kind, size_t index,
                                    std::span<const std::vector<TensorMeta>> operands);

/// What is wrong with bodies and operands, or empty. `operands` as in ControlCall.
std::string control_flow_problem(ControlFlow kind, std::span<const Graph* const> bodies,
                                 std::span<const std::vector<TensorMeta>> operands);

/// The results that bodies promise. Sizes in which the bodies of cond differ are fresh symbols that
/// only the run knows. Throws UserError where control_flow_problem finds one.
std::vector<TensorMeta> control_flow_metas(ControlFlow kind, std::span<const Graph* const> bodies,
                                           std::span<const std::vector<TensorMeta>> operands);

/// Which results of the call need a gradient, by whether its operands do: the union over the
/// branches of cond, and over all iterations of loops.
std::vector<bool> results_that_need_gradients(const CallArgs& call);

/// Whether both bodies of cond lay result `index` out alike; otherwise it is row by row.
bool same_layout(const Graph& a, const Graph& b, size_t index);

}  // namespace tenon
