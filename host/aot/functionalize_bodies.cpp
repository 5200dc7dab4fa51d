// Control flow in functional graphs: each body is lowered for itself, on the operands that it will
// get.
#include "aot/functionalizer.h"
#include "autograd/node.h"
#include "core/error.h"
#include "graph/body.h"
#include "graph/control_flow.h"

namespace tenon {

// A body as it was recorded may write what it makes itself, and its operands may lie otherwise now.
std::shared_ptr<Graph> Functionalizer::pure_body(const Graph& body,
                                                 std::span<const TensorMeta> inputs) {
  std::shared_ptr<Graph> given = clone(body);
  for (size_t i = 0; i < inputs.size(); ++i) {
    GraphValue& value = given->value(given->inputs()[i]);
    value.meta = inputs[i];
    value.offset = 0;
    value.flags = {};
  }
  isolate_outputs(*given);
  LowerOptions options = options_;
  options.is_body_of_training = options.is_differentiated();
  options.training = options.keep_input_mutations = false;
  Lowered lowered = Functionalizer(*given, options, values_.symbols()).run();
  ensure(lowered.write_backs.empty() && lowered.kept.size() == inputs.size(),
         "a body of control flow writes its inputs");
  std::vector<ValueId> outputs;
  for (const OutputRecipe& recipe : lowered.outputs) {
    bool is_same = recipe.kind == OutputRecipe::Kind::output;
    ensure(is_same || recipe.kind == OutputRecipe::Kind::result,
           "a result of a body shares memory after it was made to own it");
    outputs.push_back(is_same ? outputs[recipe.index] : lowered.graph->outputs()[recipe.index]);
  }
  lowered.graph->set_outputs(std::move(outputs));
  std::erase_if(lowered.graph->symbols, [&](const SymbolBinding& b) {
    return lowered.graph->value(b.value).source == ValueSource::input;
  });
  bind_shown_symbols(*lowered.graph);
  simplify_lowered(*lowered.graph, options);
  return lowered.graph;
}

// Of operands whose size the data decide, a body of cond may have been made for one of its own.
std::vector<TensorMeta> Functionalizer::inputs_of_body(const Graph& body,
                                                       std::vector<TensorMeta> given,
                                                       std::span<const TensorMeta> before) const {
  for (size_t i = 0; i < given.size(); ++i) {
    const TensorMeta& own = body.value(body.inputs()[i]).meta;
    if (autograd::same_sizes(list_of(own.sizes), list_of(before[i].sizes))) continue;
    Dims sizes;
    for (SymInt size : own.sizes) sizes.push_back(values_.symbols().renewed(size));
    given[i] = contiguous_meta(list_of(sizes), given[i].dtype, given[i].device);
  }
  return given;
}

void Functionalizer::lower_control_flow(const Node& node, const OpEntry& op,
                                        std::vector<Value> args) {
  ControlCall given = control_call(op, args.data(), static_cast<uint32_t>(args.size()));
  std::vector<std::vector<TensorMeta>> metas, before;
  for (const std::vector<Tensor>& list : given.operands) {
    metas.emplace_back();
    for (const Tensor& t : list) metas.back().push_back(meta_of(t));
  }
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (!op.schema.args[i].type.is_list) continue;
    before.emplace_back();
    for_each_value(node.args[i], [&](ValueId v) { before.back().push_back(graph_.value(v).meta); });
  }
  size_t index = 0;
  for (Value& a : args) {
    if (a.tag != Tag::graph) continue;
    const Graph& body = *a.as<Graph>();
    std::vector<TensorMeta> inputs = inputs_of_body(body, body_inputs(given.kind, index, metas),
                                                    body_inputs(given.kind, index, before));
    ++index;
    a = keep_body(recorder_.graph(), pure_body(body, inputs));
  }
  call(op, node, args, no_value);
}

}  // namespace tenon
