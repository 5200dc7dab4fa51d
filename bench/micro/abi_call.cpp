// One call of a compiled graph over the plugin ABI, against a virtual call of C++ that does the
// same: four tensors in, one out. What is between the two is what the border costs.
#include "backend/abi/bridge.h"
#include "backend/backend.h"
#include "backend/compile/call_backend.h"
#include "backend/compile/plugin_artifact.h"
#include "backend/find/discover.h"
#include "backend/life/load.h"
#include "core/tensor/tensor_impl.h"
#include "graph/text/parse.h"

#include <benchmark/benchmark.h>

using namespace tenon;

namespace {

constexpr std::string_view four_inputs = R"(tng 1
graph @f {
  input %a: f32[4]
  input %b: f32[4]
  input %c: f32[4]
  input %d: f32[4]
  output %a
}
)";

/// Reads the head of each input and gives the first one back: the same on both sides.
inline tn_tensor* first_of(tn_tensor* const* inputs, size_t n) {
  int64_t numel = 0;
  for (size_t i = 0; i < n; ++i) numel += inputs[i]->numel;
  benchmark::DoNotOptimize(numel);
  return inputs[0];
}

class Direct final : public Artifact {
 public:
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t>,
            std::span<Tensor> outputs, bool) override {
    outputs[0] =
        share_tensor(first_of(reinterpret_cast<tn_tensor* const*>(inputs.data()), inputs.size()));
  }
  std::string describe(int32_t) const override { return ""; }
};

tn_status* call_through_table(tn_artifact*, tn_call* c) {
  c->outputs[0] = give(share_tensor(first_of(c->inputs, c->n_inputs)));
  return nullptr;
}

const tn_artifact_api table = {.struct_size = sizeof(tn_artifact_api),
                               .call = call_through_table,
                               .destroy = [](tn_artifact*) {}};
tn_artifact in_table = {&table, nullptr};

std::shared_ptr<Artifact> through_plugin() {
  prepare_gate();  // as loading a plugin does
  static const LoadedPlugin plugin(std::make_shared<FoundPlugin>());
  static const BackendManifest manifest;
  static const tn_backend functions{};
  CompileRequest request;
  request.graph = parse_graph(four_inputs);
  return plugin_artifact(&in_table, {plugin, manifest, functions}, {.backend = "bench"}, request);
}

void run(benchmark::State& state, Artifact& artifact) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i)
    tensors.push_back(make_tensor(IntList{std::vector<int64_t>{4}}, Dtype::f32));
  std::vector<detail::TensorHead*> inputs;
  for (const Tensor& t : tensors) inputs.push_back(t.head());
  std::vector<Tensor> outputs(1);
  Artifact* hidden = &artifact;
  benchmark::DoNotOptimize(hidden);  // so that the call stays virtual
  for (auto _ : state) hidden->call(inputs, {}, outputs);
}

void direct(benchmark::State& state) {
  Direct artifact;
  run(state, artifact);
}
BENCHMARK(direct)->Name("virtual_call_4_tensors");

/// The table alone: no net, no contract, as one plugin calls the artifact of another.
class Table final : public Artifact {
 public:
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool) override {
    tn_tensor* out[1] = {};
    tn_call c = {sizeof c,
                 0,
                 static_cast<uint32_t>(inputs.size()),
                 1,
                 static_cast<uint32_t>(syms.size()),
                 0,
                 reinterpret_cast<tn_tensor**>(inputs.data()),
                 out,
                 syms.data(),
                 nullptr};
    if (artifact_->api->call(artifact_, &c)) return;
    outputs[0] = take_tensor(out[0]);
  }
  std::string describe(int32_t) const override { return ""; }

 private:
  tn_artifact* artifact_ = &in_table;
};

void through_table(benchmark::State& state) {
  Table artifact;
  run(state, artifact);
}
BENCHMARK(through_table)->Name("table_call_4_tensors");

void over_the_abi(benchmark::State& state) {
  std::shared_ptr<Artifact> artifact = through_plugin();
  run(state, *artifact);
}
BENCHMARK(over_the_abi)->Name("plugin_call_4_tensors");

}  // namespace
