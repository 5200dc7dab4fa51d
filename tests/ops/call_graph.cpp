// Recording and running of single calls.
#include "call_graph.h"

#include "aot/lower.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/record.h"
#include "ops/decompose.h"

namespace tenon::testing {

std::vector<detail::TensorHead*> CallGraph::heads() const {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  return heads;
}

void lift_into(CallGraph& out, GraphRecorder& recorder) {
  recorder.lift = [&out, &recorder](const Tensor& real) {
    for (size_t i = 0; i < out.inputs.size(); ++i)
      if (out.inputs[i].is_same(real)) return recorder.input_fake(static_cast<uint32_t>(i));
    out.inputs.push_back(real);
    return recorder.add_input(meta_of(real), real.storage_offset());
  };
}

CallGraph graph_of_call(const OpEntry& op, const CallValues& call,
                        const std::function<bool(const OpEntry&)>& opens) {
  CallGraph out;
  GraphRecorder recorder(ShapeEnv::make());
  recorder.opens = opens;
  lift_into(out, recorder);
  RecordScope scope(recorder);
  OpResults results(op.n_returns);
  run_op(op, call, results);
  std::vector<Tensor> outputs;
  for (const Value& v : flattened(results)) outputs.push_back(tensor_in(v));
  out.graph = recorder.finish(outputs);
  return out;
}

CallGraph graph_of_parts(const OpEntry& op, const CallValues& call) {
  auto core = decomposition_set("core_aten", {});
  CallGraph out =
      graph_of_call(op, call, [&](const OpEntry& part) { return &part == &op || core(part); });
  for (const Node& node : out.graph->nodes()) {
    const OpEntry& part = entry_of(node.op);
    require(part.def->core || !can_decompose(part), "{} was not taken apart", part.name);
  }
  return out;
}

std::vector<Tensor> run_graph(const CallGraph& call) {
  std::vector<int64_t> symbols(call.graph->symbols.size());
  std::vector<Tensor> outputs(call.graph->outputs().size());
  std::vector<detail::TensorHead*> heads = call.heads();
  Interpreter(call.graph).run(heads, symbols, outputs, false);
  return outputs;
}

}  // namespace tenon::testing
