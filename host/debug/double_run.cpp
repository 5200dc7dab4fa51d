// Running .pt2 models in double precision.
#include "debug/double_run.h"

#include "core/tensor_impl.h"
#include "formats/pt2_call.h"
#include "graph/interpret.h"
#include "graph/passes/passes.h"
#include "model_runner.h"

#include <tenon/autograd.h>
#include <tenon/ops.h>

namespace tenon {

using formats::BoundCall;
using formats::ImportedModel;
using formats::ModelInput;

namespace {

Tensor widened(const Tensor& t) {
  if (!t.defined()) return t;
  return is_narrow_floating(t.dtype()) ? t.to(Dtype::f64) : t.clone();
}

// Views of one storage stay views of one storage.
void widen_weights(ImportedModel& model) {
  std::map<uint64_t, Tensor> bases;
  for (ModelInput& input : model.inputs) {
    if (!input.tensor.defined()) continue;
    const Tensor& t = input.tensor;
    Storage* storage = impl_of(t)->storage_ref.get();
    Tensor& base = bases[storage->id];
    int64_t n = static_cast<int64_t>(storage->bytes) / itemsize(t.dtype());
    if (!base.defined()) base = widened(make_view(t, IntList{n}, IntList{1}, 0));
    input.tensor = make_view(base, t.sizes(), t.strides(), t.storage_offset());
  }
}

}  // namespace

DoubleRun run_in_double(const formats::Pt2Program& program, std::span<const Tensor> leaves,
                        bool training) {
  EnableGradGuard as_wanted(training);
  ImportedModel model = import_pt2(program);
  widen_casts(*model.graph);
  widen_weights(model);
  if (training) want_gradients(model);
  DoubleRun out;
  for (const Tensor& leaf : leaves) out.leaves.push_back(widened(leaf));
  BoundCall call = bind_call_any_precision(model, out.leaves);
  std::vector<Tensor> results(model.graph->outputs().size());
  Interpreter(model.graph).run(call.inputs, call.symbols, results);
  out.outputs = apply_plan(model, call, results, out.gradients);
  if (training) out.gradients = gradients_of(model, out.outputs);
  for (const ModelInput& input : model.inputs)
    for (const std::string& name : input.names) out.weights[name] = input.tensor;
  return out;
}

std::vector<Tensor> run_graph_in_double(const Graph& graph, std::span<const Tensor> inputs,
                                        std::span<const int64_t> symbols) {
  NoGradGuard no_gradients;
  std::shared_ptr<Graph> wide = clone(graph);
  widen_casts(*wide);
  std::vector<ValueId> constants(wide->constants().begin(), wide->constants().end());
  for (ValueId id : constants) wide->replace_constant(id, widened(wide->constant(id)));
  std::vector<Tensor> held;
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) {
    held.push_back(widened(t));
    heads.push_back(held.back().defined() ? held.back().head() : nullptr);
  }
  std::vector<Tensor> outputs(wide->outputs().size());
  Interpreter(wide).run(heads, symbols, outputs);
  return outputs;
}

}  // namespace tenon
