// Running .pt2 models in double precision.
#include "debug/double_run.h"

#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_call.h"
#include "graph/interpret.h"
#include "graph/passes/passes.h"
#include "model/apply_plan.h"
#include "model/model_runner.h"

#include <tenon/autograd.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/view.h>

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

/// A model whose weights are doubles.
class DoubleModel {
 public:
  DoubleModel(const formats::Pt2Program& program, bool training)
      : training_(training), model_(import_pt2(program)) {
    EnableGradGuard as_wanted(training_);
    widen_casts(*model_.graph);
    widen_weights(model_);
    if (training) want_gradients(model_);
  }
  const ImportedModel& model() const { return model_; }

  DoubleRun run(std::span<const Tensor> leaves) {
    EnableGradGuard as_wanted(training_);
    DoubleRun out;
    for (const Tensor& leaf : leaves) out.leaves.push_back(widened(leaf));
    BoundCall call = bind_call_any_precision(model_, out.leaves);
    std::vector<Tensor> results(model_.graph->outputs().size());
    Interpreter(model_.graph).run(call.inputs, call.symbols, results);
    out.outputs = apply_plan(model_, call, results, out.gradients);
    if (training_) out.gradients = gradients_of(model_, out.outputs);
    return out;
  }

 private:
  bool training_;
  ImportedModel model_;
};

}  // namespace

DoubleRun run_in_double(const formats::Pt2Program& program, std::span<const Tensor> leaves,
                        bool training) {
  DoubleModel model(program, training);
  DoubleRun out = model.run(leaves);
  for (const ModelInput& input : model.model().inputs)
    for (const std::string& name : input.names) out.weights[name] = input.tensor;
  return out;
}

Tensor losses_in_double(const formats::Pt2Program& program, std::span<const Tensor> leaves,
                        double rate, int64_t steps) {
  DoubleModel model(program, true);
  std::vector<Tensor> losses;
  for (int64_t step = 0; step < steps; ++step) {
    losses.push_back(model.run(leaves).outputs[0].reshape({}));
    sgd_step(model.model(), rate);
  }
  return stack(losses);
}

DoubleRun run_graph_in_double(const Graph& graph, std::span<const Tensor> inputs,
                              std::span<const int64_t> symbols, bool training) {
  NoGradGuard no_gradients;
  std::shared_ptr<Graph> wide = clone(graph);
  widen_casts(*wide);
  std::vector<ValueId> constants(wide->constants().begin(), wide->constants().end());
  for (ValueId id : constants) wide->replace_constant(id, widened(wide->constant(id)));
  DoubleRun out;
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) {
    Tensor leaf = widened(t);
    if (training && t.defined() && t.requires_grad()) leaf.requires_grad_();
    heads.push_back(leaf.defined() ? leaf.head() : nullptr);
    out.leaves.push_back(std::move(leaf));
  }
  out.outputs.resize(wide->outputs().size());
  EnableGradGuard as_wanted(training);
  Interpreter(wide).run(heads, symbols, out.outputs);
  return out;
}

}  // namespace tenon
