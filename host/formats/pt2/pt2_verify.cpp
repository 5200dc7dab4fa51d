// Whether a program is consistent in itself.
//
// Problem. Nodes name what they use, the signature names inputs, outputs and weights, and
// descriptions stand in a table beside the nodes. A hostile or damaged file may contradict itself
// in any of them, and code that comes later should not have to ask.
//
// Method. One walk over each graph in the order of execution with the set of names defined so far;
// a sub-graph has a set of its own. Then the signature is laid beside inputs, outputs and weights.
// Cost: linear in the size of the program.
#include <algorithm>
#include <span>
#include <unordered_set>

#include "formats/pt2/pt2_parts.h"

namespace tenon::formats::pt2 {

namespace {

class GraphVerifier {
 public:
  GraphVerifier(const Pt2Graph& graph, const std::string& place) : graph_(graph), place_(place) {}

  void verify() {
    for (const Pt2Argument& input : graph_.inputs) define(input, "an input");
    for (const Pt2Node& node : graph_.nodes) {
      for (const Pt2NamedArgument& input : node.inputs) use(input.value, node.target);
      for (const Pt2Argument& output : node.outputs) define(output, node.target);
      if (node.kind == Pt2TargetKind::higher_order) verify_arity(node);
    }
    for (const Pt2Argument& output : graph_.outputs) use(output, "the outputs");
  }

 private:
  void check_described(const Pt2Argument& value) {
    const bool is_tensor = value.kind == Pt2Kind::tensor;
    const bool found =
        is_tensor ? graph_.tensors.contains(value.text) : graph_.symbols.contains(value.text);
    check(found, "{}: the {} {} is missing in {}", place_, is_tensor ? "tensor" : "symbol",
          printable(value.text), is_tensor ? "tensor_values" : "sym_int_values and its siblings");
  }

  void define(const Pt2Argument& value, std::string_view by) {
    if (value.kind == Pt2Kind::list)
      for (const Pt2Argument& item : value.items) define(item, by);
    if (value.kind != Pt2Kind::tensor && value.kind != Pt2Kind::symbol) return;
    check(defined_.insert(value.text).second, "{}: the name {} is defined twice, again by {}",
          place_, printable(value.text), by);
    check_described(value);
  }

  void use(const Pt2Argument& value, std::string_view by) {
    for (const Pt2Argument& item : value.items) use(item, by);
    if (value.kind == Pt2Kind::graph)
      verify_graph(*value.graph, place_ + ": " + printable(value.text));
    if (value.kind != Pt2Kind::tensor && value.kind != Pt2Kind::symbol) return;
    check(defined_.contains(value.text), "{}: {} uses the name {} before it is defined", place_, by,
          printable(value.text));
    check_described(value);
  }

  // The operands that a higher-order op passes to its sub-graphs, counted by what the op's
  // arguments are. Ops that the importer does not know are its to refuse.
  void verify_arity(const Pt2Node& node) {
    struct Row {
      std::string_view op;
      size_t graphs;  // sub-graphs come first, after `before` arguments
      size_t before;
      size_t lists;        // then lists of operands; 0: the rest, one by one
      bool twice = false;  // the first list is taken twice: left and right
    };
    static constexpr Row rows[] = {{"cond", 2, 1, 1},
                                   {"while_loop", 2, 0, 2},
                                   {"map_impl", 1, 0, 2},
                                   {"scan", 1, 0, 3},
                                   {"associative_scan", 1, 0, 2, true},
                                   {"wrap_with_set_grad_enabled", 1, 1, 0},
                                   {"wrap_with_autocast", 1, 4, 0}};
    const Row* row = std::ranges::find(rows, std::string_view(node.op), &Row::op);
    if (row == std::end(rows)) return;
    const size_t first = row->before + row->graphs;
    check(node.inputs.size() >= first + row->lists, "{}: {} has only {} arguments", place_,
          node.target, node.inputs.size());
    for (size_t i = row->before; i < first; ++i)
      check(node.inputs[i].value.kind == Pt2Kind::graph, "{}: {}: expected a graph as argument {}",
            place_, node.target, i);
    size_t operands = node.inputs.size() - first;
    if (row->lists > 0) {
      operands = 0;
      for (const Pt2NamedArgument& list : std::span(node.inputs).subspan(first, row->lists)) {
        check(list.value.kind == Pt2Kind::list, "{}: {}: expected lists of operands", place_,
              node.target);
        operands += list.value.items.size();
      }
      if (row->twice) operands += node.inputs[first].value.items.size();
    }
    for (size_t i = row->before; i < first; ++i)
      check(node.inputs[i].value.graph->inputs.size() == operands,
            "{}: {}: its graph {} takes {} inputs, but gets {} operands", place_, node.target,
            printable(node.inputs[i].value.text), node.inputs[i].value.graph->inputs.size(),
            operands);
  }

  const Pt2Graph& graph_;
  const std::string& place_;
  std::unordered_set<std::string_view> defined_;
};

bool same_value(const Pt2Argument& a, const Pt2Argument& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Pt2Kind::tensor || a.kind == Pt2Kind::symbol) return a.text == b.text;
  return true;
}

bool is_bound_to_weight(const Pt2Input& input) {
  return input.kind != Pt2InputKind::user_input && input.kind != Pt2InputKind::constant_input;
}

// A weight and the description of the graph input that it is bound to.
void verify_weight(const Pt2Program& program, const Pt2Input& input) {
  const Pt2Weight* weight = program.find_weight(input);
  check(weight != nullptr, "{}: input {}: nothing in the archive is called {}", program.file,
        printable(input.name), printable(input.target));
  const Pt2TensorMeta& meta = program.graph.tensors.at(input.name);
  check(meta.dtype == weight->dtype, "{}: {}: stored as {}, but the graph says {}", program.file,
        printable(input.target), weight->dtype, meta.dtype);
  bool same = meta.sizes.size() == weight->sizes.size();
  for (size_t i = 0; same && i < meta.sizes.size(); ++i)
    same = meta.sizes[i].expr && meta.sizes[i].expr->is_integer(weight->sizes[i]);
  check(same, "{}: {}: its sizes differ from those of the graph input {}", program.file,
        printable(input.target), printable(input.name));
}

void verify_input(const Pt2Program& program, size_t i) {
  const Pt2Argument& value = program.graph.inputs[i];
  const Pt2Input& input = program.inputs[i];
  if (!is_bound_to_weight(input)) {
    check(same_value(input.value, value), "{}: input {}: signature and graph disagree on {}",
          program.file, i, printable(input.name));
    return;
  }
  check(value.kind == Pt2Kind::tensor && value.text == input.name,
        "{}: input {}: the signature says {}, the graph says {}", program.file, i,
        printable(input.name), printable(value.text));
  verify_weight(program, input);
}

// What outputs may refer to: FQNs of buffers and parameters, names of user inputs.
class Targets {
 public:
  explicit Targets(const Pt2Program& program) {
    for (const Pt2Input& input : program.inputs)
      if (input.kind == Pt2InputKind::user_input)
        user_inputs_.insert(input.name);
      else
        (input.kind == Pt2InputKind::parameter ? parameters_ : buffers_).insert(input.target);
  }

  bool contains(const Pt2Output& output) const {
    switch (output.kind) {
      case Pt2OutputKind::buffer_mutation:
        return buffers_.contains(output.target);
      case Pt2OutputKind::parameter_mutation:
      case Pt2OutputKind::gradient_to_parameter:
        return parameters_.contains(output.target);
      case Pt2OutputKind::user_input_mutation:
      case Pt2OutputKind::gradient_to_user_input:
        return user_inputs_.contains(output.target);
      default:
        return true;
    }
  }

 private:
  std::unordered_set<std::string_view> parameters_;
  std::unordered_set<std::string_view> buffers_;
  std::unordered_set<std::string_view> user_inputs_;
};

void verify_output(const Pt2Program& program, const Targets& targets, size_t i) {
  const Pt2Output& output = program.outputs[i];
  check(same_value(output.value, program.graph.outputs[i]),
        "{}: output {}: signature and graph disagree on {}", program.file, i,
        printable(output.value.text));
  check(targets.contains(output), "{}: output {}: no input is called {}", program.file, i,
        printable(output.target));
}

void verify_trees(const Pt2Program& program) {
  auto is_users = [](const Pt2Input& input) { return !is_bound_to_weight(input); };
  auto inputs = static_cast<size_t>(std::ranges::count_if(program.inputs, is_users));
  auto is_result = [](const Pt2Output& output) {
    return output.kind == Pt2OutputKind::user_output || output.kind == Pt2OutputKind::loss_output;
  };
  auto outputs = static_cast<size_t>(std::ranges::count_if(program.outputs, is_result));
  if (program.in_tree)
    check(program.in_tree->leaf_count() == inputs,
          "{}: in_spec has {} leaves, but the signature has {} inputs from the caller",
          program.file, program.in_tree->leaf_count(), inputs);
  if (program.out_tree)
    check(program.out_tree->leaf_count() == outputs,
          "{}: out_spec has {} leaves, but the signature has {} results", program.file,
          program.out_tree->leaf_count(), outputs);
}

}  // namespace

void verify_graph(const Pt2Graph& graph, const std::string& place) {
  GraphVerifier(graph, place).verify();
}

void verify_signature(const Pt2Program& program) {
  check(program.inputs.size() == program.graph.inputs.size(),
        "{}: the signature has {} inputs, the graph {}", program.file, program.inputs.size(),
        program.graph.inputs.size());
  check(program.outputs.size() == program.graph.outputs.size(),
        "{}: the signature has {} outputs, the graph {}", program.file, program.outputs.size(),
        program.graph.outputs.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) verify_input(program, i);
  const Targets targets(program);
  for (size_t i = 0; i < program.outputs.size(); ++i) verify_output(program, targets, i);
  verify_trees(program);
}

}  // namespace tenon::formats::pt2
