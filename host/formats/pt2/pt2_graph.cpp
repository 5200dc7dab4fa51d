// Nodes and graphs of models/MODEL.json.
#include <algorithm>

#include "formats/pt2/pt2_parts.h"

namespace tenon::formats::pt2 {

namespace {

constexpr std::string_view scalar_functions[] = {
    "_operator.add", "_operator.sub",    "_operator.mul",     "_operator.floordiv",
    "_operator.mod", "_operator.pow",    "_operator.truediv", "_operator.neg",
    "_operator.pos", "_operator.eq",     "_operator.ne",      "_operator.lt",
    "_operator.le",  "_operator.gt",     "_operator.ge",      "_operator.and_",
    "_operator.or_", "_operator.lshift", "_operator.rshift",  "math.trunc",
    "torch.sym_int", "torch.sym_float",  "torch.sym_ite",     "torch.sym_max",
    "torch.sym_min", "torch.sym_not",    "torch.sym_sqrt",
};

void classify(Pt2Node& node) {
  constexpr std::string_view ops = "torch.ops.";
  constexpr std::string_view higher_order = "torch.ops.higher_order.";
  std::string_view target = node.target;
  node.kind = Pt2TargetKind::unknown;
  node.op = node.target;
  if (target.starts_with(higher_order)) {
    node.kind = Pt2TargetKind::higher_order;
    node.op = target.substr(higher_order.size());
  } else if (target.starts_with(ops) && std::ranges::count(target.substr(ops.size()), '.') == 2) {
    node.kind = Pt2TargetKind::op;
    node.op = target.substr(ops.size());
  } else if (std::ranges::find(scalar_functions, target) != std::end(scalar_functions)) {
    node.kind = Pt2TargetKind::scalar_function;
    node.op = target.substr(target.find('.') + 1);
  }
}

Pt2NamedArgument read_input(const JsonView& view, Pt2Expressions& expressions) {
  constexpr int64_t positional = 1;
  constexpr int64_t keyword = 2;
  Pt2NamedArgument input{.name = read_name(view.field("name")),
                         .value = read_argument(view.field("arg"), expressions)};
  if (auto kind = view.optional_field("kind")) {
    check(kind->integer() >= 0 && kind->integer() <= keyword,
          "{}: expected {} (positional) or {} (keyword), found {}", *kind, positional, keyword,
          kind->integer());
    input.is_keyword = kind->integer() == keyword;
  }
  return input;
}

std::string optional_text(const JsonView& view, std::string_view name) {
  auto field = view.optional_field(name);
  return field ? field->text() : std::string();
}

Pt2Node read_node(const JsonView& view, Pt2Expressions& expressions) {
  Pt2Node node;
  set_target(node, read_name(view.field("target")));
  for (const JsonView& input : view.field("inputs").items())
    node.inputs.push_back(read_input(input, expressions));
  for (const JsonView& output : view.field("outputs").items())
    node.outputs.push_back(read_argument(output, expressions));
  if (auto name = view.optional_field("name")) node.name = read_name(*name);
  if (auto single = view.optional_field("is_hop_single_tensor_return"))
    node.hop_single_tensor_return = single->boolean();
  if (auto metadata = view.optional_field("metadata")) {
    node.stack_trace = optional_text(*metadata, "stack_trace");
    node.nn_module_stack = optional_text(*metadata, "nn_module_stack");
  }
  return node;
}

// torch.tensor([x.shape[0], x.shape[1]]) asks for the common dtype of the elements. The trace keeps
// the call and not its answer, which stands as a plain dtype where it is used.
bool is_idle_question(const Pt2Node& node) {
  return node.op == "aten.promote_types.default" &&
         std::ranges::all_of(
             node.outputs, [](const Pt2Argument& output) { return output.kind == Pt2Kind::none; });
}

// Values of one type, by name; a name that another type has already is an error.
void read_symbols(const JsonView& view, std::string_view field, Pt2Expressions& expressions,
                  Pt2Graph& graph) {
  auto values = view.optional_field(field);
  if (!values) return;
  for (const auto& [name, value] : values->members()) {
    Pt2Sym sym = read_sym(value, expressions);
    bool is_new = graph.symbols.emplace(name, std::move(sym)).second;
    check(is_new && !graph.tensors.contains(std::string(name)), "{}: the name {} is used twice",
          value, printable(name));
  }
}

}  // namespace

void set_target(Pt2Node& node, std::string target) {
  node.target = std::move(target);
  classify(node);
}

Pt2Graph read_graph(const JsonView& view, Pt2Expressions& expressions) {
  Pt2Graph graph;
  for (const JsonView& input : view.field("inputs").items())
    graph.inputs.push_back(read_argument(input, expressions));
  for (const JsonView& output : view.field("outputs").items())
    graph.outputs.push_back(read_argument(output, expressions));
  const std::vector<JsonView> nodes = view.field("nodes").items();
  graph.nodes.reserve(nodes.size());
  for (const JsonView& view_of_node : nodes) {
    Pt2Node node = read_node(view_of_node, expressions);
    if (!is_idle_question(node)) graph.nodes.push_back(std::move(node));
  }
  for (const auto& [name, meta] : view.field("tensor_values").members()) {
    check(name.find('\0') == name.npos, "{}: the name has a NUL inside", meta);
    graph.tensors.emplace(name, read_tensor_meta(meta, expressions));
  }
  read_symbols(view, "sym_int_values", expressions, graph);
  read_symbols(view, "sym_bool_values", expressions, graph);
  read_symbols(view, "sym_float_values", expressions, graph);
  if (auto single = view.optional_field("is_single_tensor_return"))
    graph.is_single_tensor_return = single->boolean();
  return graph;
}

}  // namespace tenon::formats::pt2
