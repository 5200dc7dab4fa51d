// Running what did not fail.
#include "capture/rescue.h"

#include "capture/inputs.h"
#include "core/tensor/stand_in.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"

#include <algorithm>

namespace tenon {

namespace {

// Op by op, until one fails.
void compute_until_failure(const std::shared_ptr<Graph>& graph,
                           std::span<detail::TensorHead*> inputs, std::span<const int64_t> symbols,
                           std::span<Tensor> outputs) {
  std::ranges::fill(outputs, Tensor());
  if (has_effects(*graph, /*random=*/true, /*checks=*/false)) return;
  std::span<const ValueId> wanted = graph->outputs();
  Interpreter op_by_op(graph);
  op_by_op.on_results([&](const Node& node, std::span<const Tensor> results) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      ValueId result = wanted[i] - node.first_result;  // wraps where it comes before
      if (wanted[i] != no_value && result < results.size()) outputs[i] = results[result];
    }
  });
  std::vector<int64_t> words(symbols.begin(), symbols.end());
  words.resize(graph->symbols.size());
  std::vector<Tensor> all(wanted.size());
  try {
    op_by_op.run(inputs, words, all);
  } catch (const std::exception&) {
    return;  // the caller has this error already
  }
}

}  // namespace

bool is_refusal_in_flight() {
  try {
    throw;
  } catch (const UserError& error) {
    return error.code() == ErrorCode::graph_break || error.code() == ErrorCode::unsupported;
  } catch (...) {
    return false;
  }
}

std::exception_ptr run_or_rescue(FunctionRef<void()> code, const std::shared_ptr<Graph>& graph,
                                 std::span<detail::TensorHead*> inputs,
                                 std::span<const int64_t> symbols, std::span<Tensor> outputs) {
  try {
    code();
    return nullptr;
  } catch (...) {
    std::exception_ptr failure = std::current_exception();
    compute_until_failure(graph, inputs, symbols, outputs);
    return failure;
  }
}

void give_back_variables(const TraceInputs& inputs, const detail::Body& body,
                         std::span<const Tensor> lost) {
  for (const ImplicitInput& met : inputs.implicit) {
    if (!met.address) continue;
    auto* variable = const_cast<Tensor*>(met.address);
    // It may be known from another call, whose closure lay elsewhere.
    if (!locate(*variable, body, inputs.modules.all()).address) continue;
    auto is_held = [&](const Tensor& t) { return variable->defined() && same_head(t, *variable); };
    if (std::ranges::any_of(lost, is_held)) *variable = met.tensor;
  }
}

}  // namespace tenon
