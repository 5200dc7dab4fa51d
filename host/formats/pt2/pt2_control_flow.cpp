// Control flow of .pt2 programs: sub-graphs become bodies, the nodes calls of `higher_order` ops.
//
// A sub-graph of an archive names its own values only; what it uses comes in by position. So each
// becomes a graph of its own, over the symbols of the program.
#include "formats/pt2/pt2_import_parts.h"
#include "graph/body.h"
#include "graph/control_flow.h"

#include <algorithm>

namespace tenon::formats {

namespace {

// By PyTorch's names.
constexpr std::pair<std::string_view, ControlFlow> kinds[] = {
    {"cond", ControlFlow::cond},
    {"while_loop", ControlFlow::while_loop},
    {"map_impl", ControlFlow::map},
    {"scan", ControlFlow::scan},
    {"associative_scan", ControlFlow::associative_scan}};

void collect(const Pt2Argument& output, std::vector<const Pt2Argument*>& out) {
  if (output.kind != Pt2Kind::list) return out.push_back(&output);
  for (const Pt2Argument& part : output.items) collect(part, out);
}

// Whether a result has one dimension more than the body's.
bool is_stacked(ControlFlow kind, size_t result, size_t n_carried) {
  switch (kind) {
    case ControlFlow::map:
    case ControlFlow::associative_scan:
      return true;
    case ControlFlow::scan:
      return result >= n_carried;
    default:
      return false;
  }
}

}  // namespace

const OpEntry* control_flow_op(const Pt2Node& node) {
  if (node.kind != Pt2TargetKind::higher_order) return nullptr;
  auto known = std::ranges::find_if(kinds, [&](const auto& k) { return k.first == node.op; });
  if (known == std::end(kinds)) return nullptr;
  bool by_number = known->second == ControlFlow::cond && !node.inputs.empty() &&
                   (node.inputs[0].value.kind == Pt2Kind::boolean ||
                    node.inputs[0].value.kind == Pt2Kind::symbol);
  return &op_of(known->second, by_number);
}

std::shared_ptr<Graph> Pt2Nodes::body(const Pt2Graph& source, const std::string& name) {
  auto body = std::make_shared<Graph>();
  body->shape_env = graph_.shape_env;
  body->name = name;
  Pt2Nodes nodes(*body, symbols_, device_);
  nodes.grad_mode_ = grad_mode_;
  nodes.autocast_ = autocast_;
  nodes.exported_on_ = exported_on_;
  Pt2Scope scope;
  for (const Pt2Argument& input : source.inputs) {
    require(input.kind == Pt2Kind::tensor, ErrorCode::unsupported,
            "an operand of {} is not a tensor; numbers as operands are not supported", name);
    GraphValue value = nodes.tensor_value(source, input.text);
    value.offset = 0;  // one at export, over symbols that nothing in here binds
    scope[input.text] = {body->add_input(std::move(value)), ValueKind::tensor, {}};
  }
  bind_shown_symbols(*body);
  for (const SymbolBinding& b : body->symbols) nodes.mark_bound(b.symbol);
  for (const Expr* known : bound_) nodes.mark_bound(known);
  nodes.add_all(source, scope);
  std::vector<ValueId> outputs;
  for (const Pt2Argument& output : source.outputs) {
    auto found = scope.find(output.text);
    bool is_tensor = output.kind == Pt2Kind::tensor && found != scope.end();
    require(is_tensor, ErrorCode::unsupported,
            "a result of {} is not a tensor; numbers as results are not supported", name);
    outputs.push_back(found->second.id);
  }
  body->set_outputs(std::move(outputs));
  isolate_outputs(*body);
  return body;
}

Value Pt2Nodes::operands(const Pt2Node& node, const Pt2Argument& list, const Pt2Scope& scope) {
  require(list.kind == Pt2Kind::list, ErrorCode::bad_file, "{}: expected a list of operands",
          node.target);
  std::vector<ValueId> ids;
  for (const Pt2Argument& item : list.items) {
    require(item.kind == Pt2Kind::tensor, ErrorCode::unsupported,
            "an operand of {} is not a tensor; numbers as operands are not supported", node.target);
    auto found = scope.find(item.text);
    require(found != scope.end() && found->second.kind == ValueKind::tensor, ErrorCode::bad_file,
            "operand {} of {} is not a value", item.text, node.target);
    ids.push_back(found->second.id);
  }
  return graph_.intern_refs(ids);
}

// The predicate of cond: a tensor, a symbol or a plain bool.
Value Pt2Nodes::predicate(const Pt2Node& node, const Pt2Argument& given, const Pt2Scope& scope) {
  if (given.kind == Pt2Kind::boolean) return Value::of(given.boolean);
  auto found = scope.find(given.text);
  require(found != scope.end(), ErrorCode::bad_file, "the predicate of {} is not a value",
          node.target);
  const NamedValue& named = found->second;
  require(named.kind == ValueKind::tensor || named.kind == ValueKind::sym_bool, ErrorCode::bad_file,
          "the predicate of {} is neither a tensor nor a bool", node.target);
  return Value::ref(named.id);
}

// Sizes are those of the archive, which names those that only the run knows; how results lie is
// what the op promises.
std::vector<GraphValue> Pt2Nodes::control_results(const Pt2Graph& source, const Pt2Node& node,
                                                  const ControlCall& call,
                                                  std::vector<std::string>& result_names) {
  std::vector<const Pt2Argument*> outputs;
  for (const Pt2Argument& output : node.outputs) collect(output, outputs);
  const Graph& body = *call.bodies.back();
  require(outputs.size() == body.outputs().size(), ErrorCode::bad_file,
          "{} has {} results, its sub-graph gives {}", node.target, outputs.size(),
          body.outputs().size());
  bool carries = call.kind == ControlFlow::scan;
  size_t n_carried = carries ? node.inputs[1].value.items.size() : 0;
  std::vector<GraphValue> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    require(outputs[i]->kind == Pt2Kind::tensor, ErrorCode::bad_file,
            "a result of {} is not a tensor", node.target);
    GraphValue value = tensor_value(source, outputs[i]->text);
    const TensorMeta& given = body.value(body.outputs()[i]).meta;
    size_t rank = given.sizes.size() + is_stacked(call.kind, i, n_carried);
    require(value.meta.dtype == given.dtype && value.meta.sizes.size() == rank, ErrorCode::bad_file,
            "result {} of {} is {}, its sub-graph gives {} with {} dimensions", i, node.target,
            to_text(value), given.dtype, rank);
    bool as_given = call.kind == ControlFlow::cond && same_layout(*call.bodies[0], body, i);
    value.meta.strides = as_given ? given.strides : contiguous_strides(list_of(value.meta.sizes));
    value.offset = 0;
    result_names.push_back(outputs[i]->text);
    values.push_back(std::move(value));
  }
  return values;
}

void Pt2Nodes::add_control_flow(const Pt2Graph& source, const Pt2Node& node, const OpEntry& op,
                                Pt2Scope& scope) {
  require(node.inputs.size() == op.n_args, ErrorCode::bad_file, "{} has {} arguments, expected {}",
          node.target, node.inputs.size(), op.n_args);
  ControlCall call{control_flow_of(op), {}, {}};
  std::vector<Value> args;
  std::vector<std::vector<TensorMeta>> metas;
  for (size_t i = 0; i < op.n_args; ++i) {
    const Pt2Argument& given = node.inputs[i].value;
    if (op.schema.args[i].type.base == BaseType::graph) {
      require(given.kind == Pt2Kind::graph, ErrorCode::bad_file, "{}: argument {} is not a graph",
              node.target, i);
      args.push_back(keep_body(graph_, body(*given.graph, given.text)));
      call.bodies.push_back(args.back().as<Graph>());
    } else if (!op.schema.args[i].type.is_list) {
      args.push_back(predicate(node, given, scope));
    } else {
      args.push_back(operands(node, given, scope));
      metas.emplace_back();
      for (uint32_t k = 0; k < args.back().count; ++k)
        metas.back().push_back(graph_.value(args.back().as<ValueId>()[k]).meta);
    }
  }
  std::string problem = control_flow_problem(call.kind, call.bodies, metas);
  require(problem.empty(), ErrorCode::bad_file, "{}", problem);
  std::vector<std::string> result_names;
  std::vector<GraphValue> values = control_results(source, node, call, result_names);
  append(node, op, args, std::move(values), result_names, scope);
}

}  // namespace tenon::formats
