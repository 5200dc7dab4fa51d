// From what the graph of a model gives to what its caller gets.
#include "model/apply_plan.h"

#include "core/tensor/tensor_impl.h"
#include "model/model_tree.h"

#include <tenon/autograd.h>
#include <tenon/ops/copy.h>

namespace tenon {

using formats::BoundCall;
using formats::ImportedModel;
using formats::ModelOutput;
using formats::ModelOutputKind;

namespace {

Tensor constant_output(const formats::Pt2Argument& value) {
  switch (value.kind) {
    case formats::Pt2Kind::integer:
      return number_leaf(value.integer);
    case formats::Pt2Kind::boolean:
      return number_leaf(value.boolean);
    case formats::Pt2Kind::real:
      return number_leaf(value.real);
    default:
      return Tensor();
  }
}

// What was written back and is a result, too, is the argument. Where gradients are wanted, only the
// result knows how it was computed.
void give_written_inputs(const ImportedModel& model, const BoundCall& call,
                         const std::vector<Tensor>& results, std::vector<Tensor>& outputs) {
  std::span<const ValueId> values = model.graph->outputs();
  for (const ModelOutput& written : model.outputs) {
    if (written.kind != ModelOutputKind::write_back || results[written.index].requires_grad())
      continue;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ModelOutput& output = model.outputs[i];
      if (output.kind == ModelOutputKind::result && values[output.index] == values[written.index])
        outputs[i] = share(call.inputs[written.input]);
    }
  }
}

}  // namespace

std::vector<Tensor> apply_plan(const ImportedModel& model, const BoundCall& call,
                               const std::vector<Tensor>& results,
                               std::map<std::string, Tensor>& gradients) {
  std::vector<Tensor> outputs;
  for (const ModelOutput& plan : model.outputs) {
    switch (plan.kind) {
      case ModelOutputKind::result:
        outputs.push_back(results[plan.index]);
        break;
      case ModelOutputKind::constant:
        outputs.push_back(constant_output(plan.constant));
        break;
      case ModelOutputKind::gradient:
        gradients[plan.name] = results[plan.index];
        break;
      case ModelOutputKind::write_back: {
        NoGradGuard effect;  // a buffer keeps the value, not how it was computed
        copy_(share(call.inputs[plan.input]), results[plan.index]);
        break;
      }
    }
  }
  give_written_inputs(model, call, results, outputs);
  return outputs;
}

}  // namespace tenon
