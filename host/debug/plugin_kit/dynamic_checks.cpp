// Level 2: symbolic sizes and guards, aliases, stolen inputs, constants that are exchanged.
#include "core/error.h"
#include "core/random.h"
#include "core/sym/sym_eval.h"
#include "core/tensor/allocator.h"
#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/guarded_memory.h"
#include "debug/plugin_kit/watched_host.h"
#include "ops/kernel_loops.h"

#include <tenon/ops/copy.h>

#include <algorithm>
#include <cstdlib>

namespace tenon::kit {

namespace {

// ---- symbolic sizes

constexpr int64_t tried_sizes[] = {5, 0, 1, 7, 33};

/// Code for a symbolic graph, and the conditions under which it may be used.
class DynamicCode {
 public:
  DynamicCode(Bench& bench, const std::string& backend, const GoldenGraph& golden)
      : graph_(*golden.graph) {
    int64_t asked = host_counts().guards;
    artifact_ = compile_through_host(bench, backend, golden.graph);
    asked = host_counts().guards - asked;
    expect(asked == 0 || !artifact_->guards.empty(),
           "it asked for {} guards while compiling, none was recorded", asked);
  }

  bool serves(std::span<const int64_t> symbols) const {
    return std::all_of(artifact_->guards.begin(), artifact_->guards.end(), [&](const Expr* guard) {
      auto holds = evaluate(guard, [&](const Expr* symbol) -> std::optional<SymValue> {
        for (size_t i = 0; i < graph_.symbols.size(); ++i)
          if (graph_.symbols[i].symbol == symbol) return SymValue{symbol->kind, symbols[i]};
        return std::nullopt;
      });
      return holds && holds->word;
    });
  }
  Artifact& artifact() { return *artifact_; }

 private:
  const Graph& graph_;
  std::shared_ptr<Artifact> artifact_;
};

// Sizes that the guards of the code leave out are none of its business: the host compiles anew.
void check_sizes(Bench& bench, const std::string& backend, const GoldenGraph& golden) {
  DynamicCode code(bench, backend, golden);
  for (int64_t size : tried_sizes) {
    std::vector<int64_t> symbols = with_sizes(*golden.graph, size);
    if (!admits(*golden.graph, symbols) || !code.serves(symbols)) continue;
    bench.note(message("graph {}, sizes {}", golden.name, size));
    GraphCase c = make_symbolic_case(golden, symbols, bench.settings().seed);
    std::vector<Tensor> inputs = c.copy_of_inputs(), after;
    manual_seed(bench.settings().seed);
    std::vector<Tensor> expected = run_reference(c, &after);
    std::vector<Tensor> found = call(code.artifact(), c, inputs);
    for (size_t i = 0; i < inputs.size(); ++i)
      expect(same_bits(inputs[i], after[i]),
             "P23 input {} is not what it should be after the call; s0 is {}", i, size);
    std::string wrong = meta_difference(c, found);
    if (wrong.empty() && !golden.is_random) wrong = difference(c, found, expected);
    expect(wrong.empty(), "{}; s0 is {}", wrong, size);
  }
}

// What only the run knows: the same code for several numbers of rows.
void check_unbacked(Bench& bench, const std::string& backend, const GoldenGraph& golden) {
  DynamicCode code(bench, backend, golden);
  std::vector<int64_t> symbols = symbol_hints(*golden.graph);
  for (uint64_t seed : {0, 1, 2}) {
    GraphCase c = make_symbolic_case(golden, symbols, bench.settings().seed + seed);
    std::vector<Tensor> expected = run_reference(c), found = call(code.artifact(), c, c.inputs);
    std::string wrong = difference(c, found, expected);
    expect(wrong.empty(), "{}", wrong);
  }
}

void check_dynamic_graph(Bench& bench, const std::string& backend, const EmbeddedFile& file) {
  GoldenGraph golden = golden_graph(file);
  bench.note("graph " + golden.name);
  try {
    golden.is_unbacked ? check_unbacked(bench, backend, golden)
                       : check_sizes(bench, backend, golden);
  } catch (CheckFailed& failed) {
    failed.graph = golden.name;
    throw;
  } catch (const Error& error) {
    throw CheckFailed{error.what(), golden.name};
  }
}

// ---- aliases

// A functional graph asks for results of its own.
void check_aliases(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  direct.for_each_work(bench, [&](const GraphCase& c) {
    ArtifactHandle artifact = compile_directly(direct, direct.request(c));
    DirectResult result = call_directly(artifact.get(), c, c.inputs);
    expect(!result.status, "the call failed: {}", result.text());
    for (size_t i = 0; i < result.outputs.size(); ++i)
      for (size_t k = 0; k < c.inputs.size(); ++k)
        expect(!result.outputs[i].defined() || !shares_storage(result.outputs[i], c.inputs[k]),
               "P23 out.{} shares the memory of input {}, which aliased_outputs does not say", i,
               k);
  });
}

// ---- stolen inputs

struct StolenRun {
  int64_t peak_bytes = 0;
  std::vector<Tensor> outputs;
};

StolenRun run_measured(tn_artifact* artifact, const GraphCase& c, bool steal) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : c.inputs) inputs.push_back(t.clone());
  std::vector<tn_tensor*> in, out(c.graph->outputs().size());
  for (Tensor& t : inputs) in.push_back(steal ? t.release() : t.head());
  tn_call call{};
  call.struct_size = sizeof call;
  call.flags = steal ? TN_CALL_STEAL_INPUTS : 0;
  call.n_inputs = static_cast<uint32_t>(in.size());
  call.n_outputs = static_cast<uint32_t>(out.size());
  call.inputs = in.data();
  call.outputs = out.data();
  reset_allocator_peak();
  int64_t before = allocator_stats().current_bytes;
  tn_status* status = artifact->api->call(artifact, &call);
  StolenRun run{allocator_stats().peak_bytes - before, {}};
  for (tn_tensor* t : out)
    run.outputs.push_back(Tensor::adopt(static_cast<detail::TensorHead*>(t)));
  for (tn_tensor* left : in)
    if (steal && left) Tensor::adopt(static_cast<detail::TensorHead*>(left));
  if (status) fail_check("the call failed: {}", text_and_free(status));
  return run;
}

// What is stolen and then released by nobody, or more than once, shows in references held beside,
// of which there are enough that the tensor outlives it.
void expect_each_released_once(tn_artifact* artifact, const GraphCase& c) {
  std::vector<Tensor> kept = c.copy_of_inputs();
  constexpr int32_t n_held = 16;
  std::vector<std::vector<Tensor>> beside(n_held - 1, kept);
  std::vector<tn_tensor*> in, out(c.graph->outputs().size());
  for (const Tensor& t : kept) in.push_back(Tensor(t).release());
  tn_call call{};
  call.struct_size = sizeof call;
  call.flags = TN_CALL_STEAL_INPUTS;
  call.n_inputs = static_cast<uint32_t>(in.size());
  call.n_outputs = static_cast<uint32_t>(out.size());
  call.inputs = in.data();
  call.outputs = out.data();
  tn_status* status = artifact->api->call(artifact, &call);
  for (auto* list : {&in, &out})
    for (tn_tensor* t : *list)
      if (t) Tensor::adopt(static_cast<detail::TensorHead*>(t));
  if (status) fail_check("the call failed: {}", text_and_free(status));
  for (size_t i = 0; i < kept.size(); ++i) {
    int32_t more = impl_of(kept[i])->references - n_held;
    if (more < 0) impl_of(kept[i])->references = n_held;  // ours go when this ends
    expect(more == 0, "P22 stolen input {} has {} references too {}", i, std::abs(more),
           more > 0 ? "many" : "few");
  }
}

void check_stolen(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  GoldenGraph golden = golden_graph("matmul_three_layers");
  GraphCase c = direct.prepared(
      make_sized_case(golden, with_sizes(*golden.graph, 2048), bench.settings().seed));
  CompileRequest request = direct.request(c);
  if (!direct.takes(request)) skip_check("declined: supports rejects a node");
  ArtifactHandle artifact = compile_directly(direct, request);
  if (!(artifact->flags & TN_AF_STEALS_INPUTS)) {
    expect(!direct.manifest().boxed,
           "the manifest says boxed = true, its artifacts lack TN_AF_STEALS_INPUTS");
    skip_check("its artifacts steal no inputs");
  }
  expect_each_released_once(artifact.get(), c);
  StolenRun kept = run_measured(artifact.get(), c, false);
  StolenRun stolen = run_measured(artifact.get(), c, true);
  std::string wrong = difference(c, stolen.outputs, run_reference(c));
  expect(wrong.empty(), "with stolen inputs {}", wrong);
  auto largest = static_cast<int64_t>(c.inputs[0].head()->storage_bytes);
  expect(stolen.peak_bytes <= kept.peak_bytes - largest / 2,
         "stolen inputs save no memory: a call takes {} more bytes at its peak, and {} when the "
         "inputs are kept",
         stolen.peak_bytes, kept.peak_bytes);
}

// ---- constants

void check_constants(Bench& bench, const std::string& backend) {
  DirectBackend direct(bench, backend);
  GoldenGraph golden = golden_graph("constant_scale");
  GraphCase c = direct.prepared(*make_static_case(golden, InputStyle::contiguous, 0));
  CompileRequest request = direct.request(c);
  if (!direct.takes(request)) skip_check("declined: supports rejects a node");
  ArtifactHandle artifact = compile_directly(direct, request);
  bool offered =
      artifact->struct_size > offsetof(tn_artifact_api, set_constants) && artifact->set_constants;
  if (!offered) skip_check("set_constants is not offered: the host compiles anew");
  ValueId id = c.graph->constants()[0];
  Tensor other = c.graph->constant(id) * 3.0;
  tn_tensor* head = other.head();
  if (tn_status* status = artifact->set_constants(artifact.get(), &id, &head, 1))
    fail_check("set_constants failed: {}", text_and_free(status));
  DirectResult found = call_directly(artifact.get(), c, c.inputs);
  GraphCase changed{clone(*c.graph), c.inputs, c.symbols};
  changed.graph->replace_constant(id, other);
  std::string wrong = difference(changed, found.outputs, run_reference(changed));
  expect(!found.status && wrong.empty(), "after set_constants {}", wrong);
}

}  // namespace

void add_dynamic_checks(std::vector<Check>& checks, const BackendManifest& backend) {
  std::string name = backend.name, phase = "dynamic " + name;
  if (!backend.dynamic_shapes)
    checks.push_back({"dynamic.sizes", name, 2, "9", phase,
                      [](Bench&) { skip_check("the manifest says dynamic_shapes = false"); }});
  for (const EmbeddedFile& file : golden_graphs())
    if (backend.dynamic_shapes && file.text.find("\n  symbol ") != std::string_view::npos)
      checks.push_back({message("dynamic.sizes.{}", file.path.substr(0, file.path.rfind('.'))),
                        name, 2, "9", phase,
                        [&file, name](Bench& b) { check_dynamic_graph(b, name, file); }});
  auto add = [&](const char* check, const char* section, auto run) {
    checks.push_back({message("dynamic.{}", check), name, 2, section, phase,
                      [run, name](Bench& b) { run(b, name); }});
  };
  if (backend.stage == BackendStage::aot) add("aliases", "12", check_aliases);
  add("stolen_inputs", "12", check_stolen);
  add("constants", "12", check_constants);
}

}  // namespace tenon::kit
