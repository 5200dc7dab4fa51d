// The values of a run by eager ops, kept in a file for those who cut the graph.
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "debug/graph_runner.h"
#include "debug/minify/judge.h"
#include "formats/tensors.h"
#include "graph/interpret.h"

#include <tenon/autograd.h>

namespace tenon {

namespace {

constexpr int64_t most_bytes = int64_t{1} << 30;

class Keeper {
 public:
  void keep(std::string name, const Tensor& t) {
    if (!t.defined()) return;
    bytes_ += t.numel().guard_int() * itemsize(t.dtype());
    if (bytes_ <= most_bytes) kept_.tensors[std::move(name)] = t.clone();  // others may write it
  }
  void write(const std::string& path) const { formats::write_tensors(path, kept_); }

 private:
  formats::NamedTensors kept_;
  int64_t bytes_ = 0;
};

std::string name_of_result(NodeId node, size_t result) { return message("{}.{}", node, result); }

}  // namespace

void write_known_values(const std::shared_ptr<Graph>& graph, std::vector<Tensor> inputs,
                        const std::string& path) {
  NoGradGuard no_history;
  inputs = complete_inputs(graph, std::move(inputs));
  Keeper keeper;
  std::vector<detail::TensorHead*> heads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool is_tensor = graph->value(graph->inputs()[i]).kind == ValueKind::tensor;
    keeper.keep(message("in.{}", i), inputs[i]);
    heads.push_back(is_tensor ? inputs[i].head() : nullptr);
  }
  Interpreter interpreter(graph);
  interpreter.on_results([&](const Node& node, std::span<const Tensor> results) {
    auto n = static_cast<NodeId>(&node - graph->nodes().data());
    for (size_t r = 0; r < results.size(); ++r) keeper.keep(name_of_result(n, r), results[r]);
  });
  std::vector<Tensor> outputs(graph->outputs().size());
  GraphRunner reader(graph, {"eager", "", "", false});
  interpreter.run(heads, reader.symbols_of(inputs), outputs);
  keeper.write(path);
}

std::vector<Tensor> read_known_values(const Graph& graph, const std::string& path) {
  std::map<std::string, Tensor> kept = formats::read_tensors(path).tensors;
  std::vector<Tensor> out(graph.values().size());
  auto take = [&](ValueId v, const std::string& name) {
    if (auto found = kept.find(name); found != kept.end()) out[v] = found->second;
  };
  for (size_t i = 0; i < graph.inputs().size(); ++i) take(graph.inputs()[i], message("in.{}", i));
  for (NodeId n = 0; n < graph.nodes().size(); ++n)
    for (uint32_t r = 0; r < graph.node(n).n_results; ++r)
      take(graph.node(n).first_result + r, name_of_result(n, r));
  return out;
}

}  // namespace tenon
