// SPDX-License-Identifier: Apache-2.0
// tiny_eager: a node-by-node interpreter as a third-party backend.
#include <tenon/plugin.hpp>

using namespace tenon::plugin;

TN_MANIFEST(R"(
manifest = 1
plugin = { name = "tiny_eager", version = "0.1.0", abi = "1.0" }
[[backend]]
name = "tiny_eager"
description = "runs each node through the host's eager kernels"
stage = "captured"
devices = ["*"]
dynamic_shapes = false
)");

namespace {

struct Program {
  std::vector<owned_node> nodes;
  std::vector<std::pair<uint32_t, tensor>> constants;
  std::vector<uint32_t> inputs, outputs;
  uint32_t n_values = 0;

  void call(tn_call& c) {
    std::vector<tensor> owned(n_values);
    std::vector<tn_tensor*> values(n_values);
    for (size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = c.inputs[i];
    for (const auto& [id, constant] : constants) values[id] = constant.get();
    for (const owned_node& n : nodes) {
      std::span<tn_tensor*> results(&values[n.first_result], n.n_results);
      run_op(n, n.args(), values.data(), results, c.stream);
      for (uint32_t r = n.first_result; r < n.first_result + n.n_results; ++r)
        owned[r] = tensor(values[r]);
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] != TN_NO_VALUE) c.outputs[i] = tensor::share(values[outputs[i]]).release();
  }
};

struct TinyEager : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    graph g(request);
    auto program = std::make_unique<Program>();
    program->n_values = g.values();
    for (uint32_t i = 0; i < g.size(); ++i) program->nodes.emplace_back(g, i);
    for (uint32_t i = 0; i < g.values(); ++i)
      if (g.value_at(i).source == TN_SRC_CONSTANT)
        program->constants.emplace_back(i, g.constant(i));
    program->inputs.assign(g.inputs().begin(), g.inputs().end());
    program->outputs.assign(g.outputs().begin(), g.outputs().end());
    return program;
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((TinyEager, "tiny_eager"))
