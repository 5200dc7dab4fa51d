// Backends that run the nodes of captured graphs one by one: by their ops, as nodes, as a program.
#include <tenon/plugin.hpp>
#include <tenon/plugin_program.hpp>

using namespace tenon::plugin;

namespace {

struct Nodes {
  std::vector<owned_node> nodes;
  std::vector<std::pair<uint32_t, tensor>> constants;
  std::vector<uint32_t> inputs, outputs;
  uint32_t n_values;
  bool by_op;

  Nodes(const tn_compile_request& request, bool ignores_modes) : by_op(ignores_modes) {
    graph g(request);
    n_values = g.values();
    for (uint32_t i = 0; i < g.size(); ++i)
      if (by_op)
        nodes.emplace_back(g.at(i));
      else
        nodes.emplace_back(g, i);
    for (uint32_t i = 0; i < n_values; ++i)
      if (g.value_at(i).source == TN_SRC_CONSTANT) constants.emplace_back(i, g.constant(i));
    inputs.assign(g.inputs().begin(), g.inputs().end());
    outputs.assign(g.outputs().begin(), g.outputs().end());
  }

  void call(tn_call& c) {
    std::vector<tensor> owned(n_values);
    std::vector<tn_tensor*> values(n_values);
    for (size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = c.inputs[i];
    for (const auto& [id, constant] : constants) values[id] = constant.get();
    for (const owned_node& n : nodes) {
      std::span<tn_tensor*> results(&values[n.first_result], n.n_results);
      if (by_op)
        run_op(n.op, n.args(), values.data(), results, c.stream);
      else
        run_op(n, n.args(), values.data(), results, c.stream);
      for (uint32_t r = n.first_result; r < n.first_result + n.n_results; ++r)
        owned[r] = tensor(values[r]);
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] != TN_NO_VALUE) c.outputs[i] = tensor::share(values[outputs[i]]).release();
  }
};

struct RunsNodes : Backend {
  explicit RunsNodes(std::string_view entry) : by_op(entry.starts_with("modes_by_op")) {}
  std::unique_ptr<Nodes> compile(const tn_compile_request& request) {
    return std::make_unique<Nodes>(request, by_op);
  }
  bool by_op;
};

struct Program {
  program steps;
  void call(tn_call& c) {
    steps.run(c, [](const step&, auto&& run) { run(); });
  }
};

struct RunsProgram : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    return std::make_unique<Program>(Program{program(request)});
  }
};

}  // namespace

TENON_PLUGIN(p) {
  for (const char* name : {"modes_by_op", "modes_by_op_alone", "modes_by_node"})
    p.backend<RunsNodes>(name);
  p.backend<RunsProgram>("modes_of_program");
}
