// Level 1: each golden graph against the host's interpreter.
#include "backend/compile/verdicts.h"
#include "compile/compile_graph.h"
#include "core/error.h"
#include "core/random.h"
#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/guarded_memory.h"
#include "debug/plugin_kit/watched_host.h"
#include "ops/kernel_loops.h"

#include <algorithm>
#include <cstring>

namespace tenon::kit {

namespace {

// Inputs that the graph does not write have the bits of before; nothing lies beside them.
void expect_inputs_kept(const GraphCase& c, std::span<const Tensor> given,
                        std::span<const Tensor> expected) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    expect(same_bits(given[i], expected[i]),
           "P23 input {} ({}) is not what it should be after the call", i,
           display_name(*c.graph, c.graph->inputs()[i]));
    std::string damage = damage_around(given[i]);
    expect(damage.empty(), "input {}: {}", i, damage);
  }
}

void expect_references_back(std::span<const Tensor> given, std::string_view when) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    int32_t references = impl_of(given[i])->references;
    expect(references == 1, "P22 input {} still has {} references {}", i, references - 1, when);
  }
}

// What a call borrowed is not there in the next one: its elements are spoilt, then it is gone.
void expect_nothing_kept(Artifact& artifact, const GraphCase& c, std::vector<Tensor> lent,
                         std::span<const Tensor> expected) {
  constexpr int spoilt = 0xFF;  // NaN, -1, true
  for (const Tensor& t : lent)
    if (t.defined() && t.dtype() != Dtype::bool_)
      std::memset(t.head()->storage, spoilt, static_cast<size_t>(t.head()->storage_bytes));
  lent.clear();
  std::vector<Tensor> inputs = c.copy_of_inputs();
  std::string wrong = difference(c, call(artifact, c, inputs), expected);
  expect(wrong.empty(), "a second call, whose inputs lie elsewhere, goes wrong: {}", wrong);
}

// The numbers of a random graph are its own, but follow the seed.
void expect_seeded(Artifact& artifact, const GraphCase& c, std::span<const Tensor> first,
                   uint64_t seed) {
  std::vector<Tensor> inputs = c.copy_of_inputs();
  manual_seed(seed);
  std::vector<Tensor> again = call(artifact, c, inputs);
  manual_seed(seed + 1);
  std::vector<Tensor> other = call(artifact, c, inputs);
  bool differs = false;
  int64_t elements = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    expect(same_bits(first[i], again[i]), "out.{} differs although the seed is the same", i);
    differs = differs || !same_bits(first[i], other[i]);
    elements += first[i].defined() ? numel_of(first[i]) : 0;
  }
  constexpr int64_t too_few_to_tell = 8;
  expect(differs || elements <= too_few_to_tell, "another seed gives the same numbers");
}

void expect_right(Bench& bench, const GoldenGraph& golden, const GraphCase& c,
                  std::shared_ptr<Artifact> artifact) {
  uint64_t seed = bench.settings().seed;
  std::vector<Tensor> inputs = c.copy_of_inputs(), expected_inputs;
  manual_seed(seed);
  std::vector<Tensor> expected = run_reference(c, &expected_inputs);
  manual_seed(seed);
  std::vector<Tensor> outputs = call(*artifact, c, inputs);
  expect_inputs_kept(c, inputs, expected_inputs);
  if (!golden.is_unbacked) {
    std::string meta = meta_difference(c, outputs);
    expect(meta.empty(), "P23 {}", meta);
  }
  if (golden.is_random) {
    expect_seeded(*artifact, c, outputs, seed);
  } else {
    std::string wrong = difference(c, outputs, expected);
    expect(wrong.empty(), "{}", wrong);
  }
  outputs.clear();
  expect_references_back(inputs, "after the call");
  if (!golden.is_random) expect_nothing_kept(*artifact, c, std::move(inputs), expected);
  artifact.reset();
}

// ---- graphs

// One style of inputs. False: the backend declined, which leaves its reason in `declined`.
bool check_case(Bench& bench, const GoldenGraph& golden, const GraphCase& c,
                const std::string& backend, std::string& declined) {
  try {
    expect_right(bench, golden, c, compile_through_host(bench, backend, c.graph));
    return true;
  } catch (const CheckSkipped& skipped) {
    if (declined.empty()) declined = skipped.why;
    return false;
  }
}

std::optional<GraphCase> case_for(const GoldenGraph& golden, InputStyle style, uint64_t seed) {
  if (!golden.is_unbacked) return make_static_case(golden, style, seed);
  if (style != InputStyle::contiguous) return std::nullopt;
  return make_symbolic_case(golden, symbol_hints(*golden.graph), seed);
}

// A style that the backend declines says nothing about the others.
void check_graph(Bench& bench, const EmbeddedFile& file, const std::string& backend) {
  GoldenGraph golden = golden_graph(file);
  host_faults().guard_outputs = true;
  std::string why, left_out;
  int n_taken = 0;
  for (InputStyle style : all_input_styles) {
    bench.note(message("graph {}, inputs {}", golden.name, name_of(style)));
    try {
      auto c = case_for(golden, style, bench.settings().seed);
      if (!c) continue;
      if (check_case(bench, golden, *c, backend, why))
        ++n_taken;
      else
        left_out += message("{}{}", left_out.empty() ? "" : ", ", name_of(style));
    } catch (const CheckFailed& failed) {
      throw CheckFailed{message("{}; inputs {}", failed.why, name_of(style)), golden.name};
    } catch (const Error& error) {
      throw CheckFailed{message("{}; inputs {}", error.what(), name_of(style)), golden.name};
    }
  }
  if (n_taken == 0) skip_check("{}", why);
  if (!left_out.empty()) bench.remark(message("with inputs {}: {}", left_out, why));
}

// What the manifest leaves out is never shown to the backend: the fallback has it, and is right.
void check_limits(Bench& bench, const std::string& backend) {
  bench.load();
  const BackendManifest& manifest = manifest_of(bench, backend);
  int n_outside = 0;
  for (const EmbeddedFile& file : golden_graphs()) {
    GoldenGraph golden = golden_graph(file);
    if (golden.is_unbacked || golden.is_random) continue;
    GraphCase c = *make_static_case(golden, InputStyle::contiguous, bench.settings().seed);
    CompileRequest request;
    request.graph = graph_for_backend(c.graph, full_name(bench, backend));
    if (outside_of_manifest(manifest, request, true).empty()) continue;
    ++n_outside;
    std::string why;
    try {
      compile_through_host(bench, backend, c.graph);
    } catch (const CheckSkipped& declined) {
      why = declined.why;
    }
    bool by_nodes = why.empty() && !manifest.dtypes.empty();  // some of them may be admitted
    if (!by_nodes && why.find("its manifest says") == std::string::npos &&
        why.find("no region of it is supported") == std::string::npos)
      throw CheckFailed{"a graph that the manifest leaves out was given to the backend",
                        golden.name};
  }
  if (n_outside == 0) skip_check("the manifest leaves no golden graph out");
  bench.remark(message("{} graphs", n_outside));
}

}  // namespace

void add_correct_checks(std::vector<Check>& checks, const BackendManifest& backend) {
  bool captured = backend.stage == BackendStage::captured;
  bool claimed = captured || std::ranges::count(backend.stages, "inference") > 0;
  std::string_view stage = captured ? "captured" : "inference";
  for (const EmbeddedFile& file : golden_graphs())
    if (claimed)
      checks.push_back({message("correct.{}.{}", stage, file.path.substr(0, file.path.rfind('.'))),
                        backend.name, 1, "21", "correct " + backend.name,
                        [&file, name = backend.name](Bench& b) { check_graph(b, file, name); }});
  checks.push_back({"correct.limits", backend.name, 1, "3", "limits " + backend.name,
                    [name = backend.name](Bench& b) { check_limits(b, name); }});
  add_training_checks(checks, backend);
}

}  // namespace tenon::kit
