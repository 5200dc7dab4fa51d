// Records the derivative of a functional graph behind it.
#include "aot/joint.h"

#include "aot/backward_autocast.h"
#include "autograd/engine.h"
#include "autograd/grad_state.h"
#include "config/flags.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "graph/symbol_use.h"

#include <tenon/autograd.h>
#include <tenon/ops/create.h>

#include <set>

namespace tenon {

namespace {

// The gradient of a result is taken to be laid out like it where that is known and shows each
// element once, else row by row.
TensorMeta tangent_meta(const Tensor& result) {
  TensorMeta meta = meta_of(result);
  bool like_result = config::flags().functorch.guess_tangent_strides_as_outputs &&
                     !result.sizes().is_symbolic() && !result.strides().is_symbolic() &&
                     !has_internal_overlap(result);
  return like_result ? meta : contiguous_meta(list_of(meta.sizes), meta.dtype, meta.device);
}

// Data-dependent numbers that the forward computes, for a backward that may need them.
void tell_symbols(const Graph& forward, std::vector<Tensor>& results, Derivative& derivative) {
  std::vector<const Expr*> made;
  for (const SymbolBinding& b : forward.symbols) made.push_back(b.symbol);
  for (const Expr* symbol : made) {
    derivative.symbols.emplace_back(symbol, static_cast<uint32_t>(results.size()));
    results.push_back(tensor_of_number(number_over(symbol)));
  }
}

// Where a rule gives zeros whatever the tangent is, as that of sign, the graph does not show that
// the tape led there.
std::set<const autograd::Node*> nodes_from(const autograd::Edge& root) {
  std::set<const autograd::Node*> found{root.node.get()};
  std::vector<const autograd::Node*> left{root.node.get()};
  while (!left.empty()) {
    const autograd::Node* node = left.back();
    left.pop_back();
    for (const autograd::Edge& edge : node->next)
      if (edge && found.insert(edge.node.get()).second) left.push_back(edge.node.get());
  }
  return found;
}

// Positions among the defined ones of `gradients`.
std::vector<uint32_t> reached_among(const std::set<const autograd::Node*>& nodes,
                                    const std::vector<autograd::Edge>& wanted,
                                    const std::vector<Tensor>& gradients) {
  std::vector<uint32_t> reached;
  uint32_t position = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!gradients[i].defined()) continue;
    if (nodes.contains(wanted[i].node.get())) reached.push_back(position);
    ++position;
  }
  return reached;
}

}  // namespace

std::optional<Derivative> differentiate(GraphRecorder& recorder, std::vector<Tensor>& results,
                                        const AutocastState& backward_autocast) {
  Derivative derivative;
  derivative.n_primals = static_cast<uint32_t>(recorder.graph().inputs().size());
  derivative.n_results = static_cast<uint32_t>(results.size());
  tell_symbols(recorder.graph(), results, derivative);
  recorder.is_backward = true;
  recorder.region = -1;
  recorder.where = {};
  recorder.module_path.clear();
  std::vector<autograd::Edge> roots, wanted;
  std::vector<Tensor> tangents;
  for (uint32_t i = 0; i < derivative.n_results; ++i) {
    if (!results[i].requires_grad()) continue;
    derivative.tangents.push_back(i);
    roots.push_back(autograd::edge_of(results[i]));
    GraphValue value;
    value.name = message("tangents_{}", derivative.tangents.size());
    value.flags.tangent = true;
    tangents.push_back(recorder.add_input(tangent_meta(results[i]), 0, std::move(value)));
  }
  if (roots.empty()) return std::nullopt;
  for (uint32_t i = 0; i < derivative.n_primals; ++i) {
    const Tensor& fake = recorder.input_fake(i);
    if (!fake.defined() || !fake.requires_grad()) continue;
    derivative.gradients.push_back(i);
    wanted.push_back(autograd::edge_of(fake));
  }
  std::vector<std::set<const autograd::Node*>> nodes;
  for (const autograd::Edge& root : roots) nodes.push_back(nodes_from(root));
  AutocastScope autocast(backward_autocast);
  std::vector<Tensor> gradients =
      autograd::run_engine(roots, std::move(tangents), wanted, {.accumulate = false});
  for (const auto& from_tangent : nodes)
    derivative.reached.push_back(reached_among(from_tangent, wanted, gradients));
  std::vector<uint32_t> inputs;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    inputs.push_back(derivative.gradients[i]);
    results.push_back(gradients[i]);
  }
  derivative.gradients = std::move(inputs);
  return derivative;
}

}  // namespace tenon
