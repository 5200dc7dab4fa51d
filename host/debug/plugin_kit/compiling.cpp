// Compiling and calling for checks.
#include "debug/plugin_kit/compiling.h"

#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "backend/compile/contract.h"
#include "backend/compile/verdicts.h"
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

bool TakenWatch::took_something(size_t n_nodes) const {
  if (!observer_.pieces().empty())
    return std::ranges::any_of(observer_.pieces(),
                               [&](const PlacedPiece& p) { return p.run_by == backend_; });
  return std::ranges::none_of(observer_.declined(),
                              [&](const DeclinedGraph& d) { return d.n_nodes >= n_nodes; });
}

std::string TakenWatch::reason() const {
  if (!observer_.declined().empty()) return "declined: " + observer_.declined()[0].reason;
  return "declined: all of it went to the fallback";
}

std::shared_ptr<Artifact> compile_through_host(Bench& bench, const std::string& backend,
                                               const std::shared_ptr<Graph>& graph) {
  bench.load();
  CompileGraphOptions options;
  options.backend = full_name(bench, backend);
  options.dynamic = !graph->symbols.empty();
  options.use_cache = false;  // which would answer for the plugin
  TakenWatch watch(backend);
  std::shared_ptr<Artifact> artifact;
  try {
    artifact = compile_graph(graph, options);
  } catch (const BackendError& error) {
    if (is_refusal(error.status())) skip_check("declined: {}", error.what());
    throw;
  }
  if (!watch.took_something(graph_for_backend(graph, options.backend)->nodes().size()))
    skip_check("{}", watch.reason());
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
  if (!outside_of_manifest(manifest_, request, true).empty()) return false;
  if (!judges_nodes(*table_)) return true;
  AbiRequest rq(manifest_, plugin_, request);
  size_t n = request.graph->nodes().size();
  std::vector<uint8_t> verdict(n, TN_NOT_SUPPORTED);
  std::vector<uint32_t> group(n);
  tn_verdicts verdicts{sizeof(tn_verdicts),
                       static_cast<uint32_t>(n),
                       verdict.data(),
                       group.data(),
                       nullptr,
                       [](tn_verdicts*, uint32_t, tn_str) {}};
  tn_status* status = table_->judge ? table_->judge(table_->self, &rq.abi, &verdicts)
                                    : table_->supports(table_->self, &rq.abi, verdict.data());
  if (status && status->code == TN_DECLINED) return free_status(status), false;
  if (status) fail_check("supports failed: {}", text_and_free(status));
  return std::find(verdict.begin(), verdict.end(), TN_NOT_SUPPORTED) == verdict.end();
}

tn_status* DirectBackend::compile(const CompileRequest& request, tn_artifact** out,
                                  const std::function<void(tn_compile_request&)>& change) const {
  AbiRequest rq(manifest_, plugin_, request);
  if (change) change(rq.abi);
  return table_->compile(table_->self, &rq.abi, out);
}

// The golden graph, if the backend takes all of it.
std::optional<GraphCase> DirectBackend::taken_case(const GoldenGraph& golden, uint64_t seed) const {
  if (golden.is_random || golden.is_unbacked || golden.writes) return std::nullopt;
  try {
    GraphCase c = prepared(*make_static_case(golden, InputStyle::contiguous, seed));
    c.graph->name = golden.name;
    CompileRequest rq = request(c);
    if (!takes(rq)) return std::nullopt;
    tn_artifact* artifact = nullptr;
    tn_status* status = compile(rq, &artifact);
    if (!status) {
      std::string problem = artifact_problem(artifact);
      expect(problem.empty(), "P23 {}", problem);
      ArtifactHandle owner(artifact);
      return c;
    }
    bool refused = is_refusal(status->code);
    std::string text = text_and_free(status);
    if (!refused) throw CheckFailed{message("compile failed: {}", text), golden.name};
  } catch (const CheckSkipped&) {
    // Another graph may suit.
  }
  return std::nullopt;
}

namespace {

// One of each kind first, so that a bounded number of them has seen most.
std::vector<std::string> graphs_by_kind() {
  std::vector<std::string> first{"matmul_bias_relu", "pointwise_chain",   "softmax_rows",
                                 "linear_residual",  "reduce_sum_rows",   "normalize_layer",
                                 "conv_2d",          "pointwise_integers"};
  std::vector<std::string> names = first;
  for (const EmbeddedFile& file : golden_graphs()) {
    std::string name(file.path.substr(0, file.path.rfind('.')));
    if (std::ranges::find(first, name) == first.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

void DirectBackend::for_each_work(Bench& bench, size_t most,
                                  const std::function<void(const GraphCase&)>& body) const {
  size_t done = 0;
  for (const std::string& name : graphs_by_kind()) {
    if (done == most) break;
    bench.note("graph " + name);
    std::optional<GraphCase> c = taken_case(golden_graph(name), bench.settings().seed);
    if (!c) continue;
    ++done;
    try {
      body(*c);
    } catch (CheckFailed& failed) {
      if (failed.graph.empty()) failed.graph = name;
      throw;
    }
  }
  if (done == 0) skip_check("the backend takes none of the golden graphs");
  bench.remark(message("{} graphs", done));
}

std::vector<GraphCase> DirectBackend::work_cases(Bench& bench, size_t most) const {
  std::vector<GraphCase> out;
  for_each_work(bench, most, [&](const GraphCase& c) { out.push_back(c); });
  return out;
}

ArtifactHandle compile_directly(const DirectBackend& backend, const CompileRequest& request) {
  tn_artifact* artifact = nullptr;
  if (tn_status* status = backend.compile(request, &artifact)) {
    bool refused = is_refusal(status->code);
    std::string text = text_and_free(status);
    if (refused) skip_check("declined: {}", text);
    fail_check("compile failed: {}", text);
  }
  std::string problem = artifact_problem(artifact);
  expect(problem.empty(), "P23 {}", problem);
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
