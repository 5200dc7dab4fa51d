// Finding the operation that has failed, by running them again.
#include "capture/errors/before_failure.h"

#include "capture/follow/path.h"
#include "core/arguments.h"
#include "core/random.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"
#include "ops/op_table.h"

#include <memory>
#include <optional>
#include <vector>

namespace tenon {

std::vector<bool> leave_out_writes(Graph& graph) {
  AliasClasses classes(graph);
  std::vector<bool> dead(graph.nodes().size());
  std::vector<ValueId> replacement(graph.values().size(), no_value);
  for (NodeId n = 0; n < dead.size(); ++n) {
    const Node& node = graph.node(n);
    int8_t given_back = entry_of(node.op).returned_arg;
    if (!written_args(node) || given_back < 0 || node.args[given_back].tag != Tag::ref) continue;
    auto target = static_cast<ValueId>(node.args[given_back].payload);
    if (!classes.is_external(target)) continue;
    dead[n] = true;
    ValueId before = replacement[target];
    replacement[node.first_result] = before == no_value ? target : before;
  }
  replace_values(graph, replacement);
  graph.erase_nodes(dead);
  return dead;
}

namespace {

// Lists of tensors are written by operations that give nothing.
bool only_writes(const Node& node, const AliasClasses& classes) {
  bool writes = false;
  uint64_t written = written_args(node);
  for (uint32_t i = 0; i < node.args.size(); ++i)
    if (written >> i & 1)
      for_each_value(node.args[i], [&](ValueId v) { writes = writes || classes.is_external(v); });
  return writes && node.n_results == 0;
}

// The first `most` operations of the graph, without what they write outside.
struct Beginning {
  Beginning(const Graph& whole, uint32_t most) : graph(clone(whole)) {
    graph->set_outputs({});
    AliasClasses classes(*graph);
    std::vector<bool> dead(graph->nodes().size());
    uint32_t n = 0;
    for (NodeId id = 0; id < dead.size(); ++id) {
      const Node& node = graph->node(id);
      dead[id] = n >= most || only_writes(node, classes);
      if (!dead[id]) numbers.push_back(n);
      n += !is_assertion(node);
    }
    graph->erase_nodes(dead);
    dead = leave_out_writes(*graph);
    std::erase_if(numbers, [&, id = NodeId{0}](uint32_t) mutable { return dead[id++]; });
  }
  std::shared_ptr<Graph> graph;
  std::vector<uint32_t> numbers;  // of the operations, by node
};

// The first node that throws, by its place in the graph; all of them, where none does.
NodeId first_failure(const std::shared_ptr<Graph>& graph, std::span<detail::TensorHead*> inputs,
                     std::span<const int64_t> symbols) {
  std::vector<int64_t> words(symbols.begin(), symbols.end());
  words.resize(graph->symbols.size());
  Interpreter interpreter(graph);
  NodeId n = 0;
  interpreter.on_results([&n](const Node&, std::span<const Tensor>) { ++n; });
  try {
    interpreter.run(inputs, words, {});
  } catch (const std::exception&) {
  }
  return n;
}

}  // namespace

uint32_t operations_before_failure(const Graph& graph, uint32_t most,
                                   std::span<detail::TensorHead*> inputs,
                                   std::span<const int64_t> symbols) {
  if (most == 0) return most;
  Beginning begin(graph, most);
  if (has_effects(*begin.graph, /*random=*/false, /*checks=*/false)) return most;
  std::optional<RngState> random;
  if (draws_numbers(*begin.graph)) random = current_rng_state();
  NodeId failed = first_failure(begin.graph, inputs, symbols);
  if (random) restore_rng_state(*random);
  return failed < begin.numbers.size() ? begin.numbers[failed] : most;
}

}  // namespace tenon
