// Compiling and calling for checks.
#include "debug/plugin_kit/compiling.h"

#include "backend/abi/bridge.h"
#include "backend/compile/declined.h"
#include "backend/abi/status.h"
#include "compile/compile_graph.h"
#include "core/error.h"
#include "ops/op_table.h"

#include <algorithm>

namespace tenon::kit {

std::string full_name(Bench& bench, const std::string& backend) {
  return bench.found().manifest.name + "/" + backend;
}

const BackendManifest& manifest_of(const Bench& bench, const std::string& backend) {
  const BackendManifest* manifest = bench.found().manifest.find_backend(backend);
  ensure(manifest != nullptr, "a check names a backend that the manifest lacks");
  return *manifest;
}

namespace {

bool is_refusal(int32_t code) { return code == TN_DECLINED || code == TN_UNIMPLEMENTED; }

}  // namespace

std::shared_ptr<Artifact> compile_through_host(Bench& bench, const std::string& backend,
                                               const std::shared_ptr<Graph>& graph) {
  bench.load();
  DeclineObserver observer;
  CompileGraphOptions options;
  options.backend = full_name(bench, backend);
  options.dynamic = !graph->symbols.empty();
  options.use_cache = false;  // which would answer for the plugin
  std::shared_ptr<Artifact> artifact;
  try {
    artifact = compile_graph(graph, options);
  } catch (const BackendError& error) {
    if (is_refusal(error.status())) skip_check("declined: {}", error.what());
    throw;
  }
  size_t declined = 0;
  for (const DeclinedGraph& d : observer.declined()) declined += d.n_nodes;
  if (declined > 0 && declined >= graph->nodes().size())
    skip_check("declined: {}", observer.declined()[0].reason);
  return artifact;
}

std::vector<Tensor> call(Artifact& artifact, const GraphCase& c, std::span<const Tensor> inputs) {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.defined() ? t.head() : nullptr);
  std::vector<Tensor> outputs(c.graph->outputs().size());
  artifact.call(heads, c.symbols, outputs);
  return outputs;
}

// ---- straight at the tables

DirectBackend::DirectBackend(Bench& bench, const std::string& backend)
    : manifest_(manifest_of(bench, backend)), plugin_(bench.found().manifest.name) {
  const LoadedPlugin& plugin = bench.load();
  auto at = std::find_if(plugin.backends.begin(), plugin.backends.end(),
                         [&](const tn_backend& b) { return view_of(b.name) == backend; });
  expect(at != plugin.backends.end(), "its table lacks the backend {}", backend);
  table_ = &*at;
}

GraphCase DirectBackend::prepared(const GraphCase& c) const {
  GraphCase out;
  out.graph = graph_for_backend(c.graph, plugin_ + "/" + manifest_.name);
  out.inputs = c.inputs;
  out.symbols = c.symbols;
  bool same = out.graph->inputs().size() == c.inputs.size() &&
              out.graph->symbols.size() == c.symbols.size() &&
              out.graph->outputs().size() == c.graph->outputs().size();
  if (!same) skip_check("lowered, the graph has other inputs or outputs");
  return out;
}

CompileRequest DirectBackend::request(const GraphCase& prepared) const {
  CompileRequest request;
  request.graph = prepared.graph;
  request.stage = manifest_.stage == BackendStage::captured ? Stage::captured : Stage::inference;
  request.dynamic = !prepared.graph->symbols.empty();
  request.compile_id = "0/0";
  return request;
}

bool DirectBackend::takes(const CompileRequest& request) const {
  if (!table_->supports) return true;
  AbiRequest rq(manifest_, plugin_, request);
  std::vector<uint8_t> verdict(request.graph->nodes().size(), TN_SUPPORTED);
  if (tn_status* status = table_->supports(table_->self, &rq.abi, verdict.data()))
    fail_check("supports failed: {}", text_and_free(status));
  return std::find(verdict.begin(), verdict.end(), TN_NOT_SUPPORTED) == verdict.end();
}

tn_status* DirectBackend::compile(const CompileRequest& request, tn_artifact** out,
                                  const std::function<void(tn_compile_request&)>& change) const {
  AbiRequest rq(manifest_, plugin_, request);
  if (change) change(rq.abi);
  return table_->compile(table_->self, &rq.abi, out);
}

GraphCase DirectBackend::work_case(uint64_t seed) const {
  std::vector<std::string> names{"matmul_bias_relu", "pointwise_chain", "softmax_rows"};
  for (const EmbeddedFile& file : golden_graphs())
    names.emplace_back(file.path.substr(0, file.path.rfind('.')));
  for (const std::string& name : names) {
    GoldenGraph golden = golden_graph(name);
    if (golden.is_random || golden.is_unbacked || golden.writes) continue;
    try {
      GraphCase c = prepared(*make_static_case(golden, InputStyle::contiguous, seed));
      CompileRequest rq = request(c);
      tn_artifact* artifact = nullptr;
      if (!takes(rq)) continue;
      tn_status* status = compile(rq, &artifact);
      if (!status) {
        ArtifactHandle owner(artifact);
        return c;
      }
      bool refused = is_refusal(status->code);
      std::string text = text_and_free(status);
      expect(refused, "compiling {} failed: {}", name, text);
    } catch (const CheckSkipped&) {
      // Another graph may suit.
    }
  }
  skip_check("the backend takes none of the golden graphs");
}

ArtifactHandle compile_directly(const DirectBackend& backend, const CompileRequest& request) {
  tn_artifact* artifact = nullptr;
  if (tn_status* status = backend.compile(request, &artifact)) {
    bool refused = is_refusal(status->code);
    std::string text = text_and_free(status);
    if (refused) skip_check("declined: {}", text);
    fail_check("compile failed: {}", text);
  }
  expect(artifact && artifact->api && artifact->api->call && artifact->api->destroy,
         "compile reported success without an artifact that has call and destroy");
  return ArtifactHandle(artifact);
}

DirectResult::~DirectResult() { free_status(status); }
int32_t DirectResult::code() const { return status ? status->code : int32_t{TN_OK}; }
std::string DirectResult::text() const { return status ? status->text : "success"; }

DirectResult call_directly(tn_artifact* artifact, const GraphCase& c,
                           std::span<const Tensor> inputs) {
  std::vector<tn_tensor*> in, out(c.graph->outputs().size());
  for (const Tensor& t : inputs) in.push_back(t.defined() ? t.head() : nullptr);
  tn_call call{};
  call.struct_size = sizeof call;
  call.n_inputs = static_cast<uint32_t>(in.size());
  call.n_outputs = static_cast<uint32_t>(out.size());
  call.n_syms = static_cast<uint32_t>(c.symbols.size());
  call.inputs = in.data();
  call.outputs = out.data();
  call.syms = c.symbols.data();
  DirectResult result;
  result.status = artifact->api->call(artifact, &call);
  for (tn_tensor* t : out) result.outputs.push_back(take_tensor(t));
  return result;
}

std::string text_and_free(tn_status* status) {
  std::string text = status ? status->text : "success";
  free_status(status);
  return text;
}

}  // namespace tenon::kit
