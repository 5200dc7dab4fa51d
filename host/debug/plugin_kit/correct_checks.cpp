// Level 1: each golden graph on each stage, against the host's interpreter.
#include "aot/lower.h"
#include "backend/backend.h"
#include "core/error.h"
#include "core/random.h"
#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/guarded_memory.h"
#include "ops/kernel_loops.h"

#include <algorithm>
#include <set>

namespace tenon::kit {

namespace {

/// One compile and call, with what it must leave alone.
struct Run {
  GraphCase graph_case;
  std::vector<Tensor> outputs;
};

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

void expect_references_back(std::span<const Tensor> given) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    int32_t references = impl_of(given[i])->references;
    expect(references == 1, "P22 input {} still has {} references after the artifact is gone", i,
           references - 1);
  }
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
  artifact.reset();
  expect_references_back(inputs);
}

// ---- stages

using CompileStage = std::function<std::shared_ptr<Artifact>(Bench&, GraphCase&)>;

void check_graph(Bench& bench, const EmbeddedFile& file, const CompileStage& compile) {
  GoldenGraph golden = golden_graph(file);
  try {
    for (InputStyle style : all_input_styles) {
      if (golden.is_unbacked && style != InputStyle::contiguous) continue;
      std::string where = message("graph {}, inputs {}", golden.name, name_of(style));
      bench.note(where);
      auto c = golden.is_unbacked
                   ? make_symbolic_case(golden, symbol_hints(*golden.graph), bench.settings().seed)
                   : make_static_case(golden, style, bench.settings().seed);
      if (!c) continue;
      try {
        std::shared_ptr<Artifact> artifact = compile(bench, *c);
        expect_right(bench, golden, *c, std::move(artifact));
      } catch (const CheckFailed& failed) {
        fail_check("{}; inputs {}", failed.why, name_of(style));
      } catch (const Error& error) {
        fail_check("{}; inputs {}", error.what(), name_of(style));
      }
    }
  } catch (CheckFailed& failed) {
    failed.graph = golden.name;
    throw;
  }
}

std::shared_ptr<Artifact> compile_half(Bench& bench, const std::string& backend, GraphCase& c,
                                       Stage stage) {
  DirectBackend direct(bench, backend);
  c = direct.prepared(c);
  CompileRequest request = direct.request(c);
  request.stage = stage;
  size_t n_outputs = c.graph->outputs().size(), n_inputs = c.inputs.size();
  request.n_saved = static_cast<uint32_t>(stage == Stage::forward ? (n_outputs > 1 ? 1 : 0)
                                                                  : (n_inputs > 1 ? 1 : 0));
  return compile_with_backend(full_name(bench, backend), request);
}

// Effects and views are put right around the halves, and what is not used is not part of them.
bool can_be_half(std::string_view graph) {
  return !graph.starts_with("alias_") && !graph.starts_with("outputs_") &&
         !graph.starts_with("write_");
}

}  // namespace

void add_correct_checks(std::vector<Check>& checks, const BackendManifest& backend) {
  std::vector<std::pair<std::string, CompileStage>> stages;
  std::string name = backend.name;
  auto whole = [name](Bench& bench, GraphCase& c) {
    return compile_through_host(bench, name, c.graph);
  };
  auto claims = [&](const char* stage) {
    return std::find(backend.stages.begin(), backend.stages.end(), stage) != backend.stages.end();
  };
  if (backend.stage == BackendStage::captured) {
    stages.emplace_back("captured", whole);
  } else {
    if (claims("inference")) stages.emplace_back("inference", whole);
    for (auto [stage, number] :
         {std::pair{"forward", Stage::forward}, std::pair{"backward", Stage::backward}})
      if (claims(stage))
        stages.emplace_back(stage, [name, number](Bench& bench, GraphCase& c) {
          return compile_half(bench, name, c, number);
        });
  }
  for (const auto& [stage, compile] : stages) {
    bool is_half = stage == "forward" || stage == "backward";
    for (const EmbeddedFile& file : golden_graphs()) {
      if (is_half && !can_be_half(file.path)) continue;
      checks.push_back({message("correct.{}.{}", stage, file.path.substr(0, file.path.rfind('.'))),
                        name, 1, "21", "correct " + name,
                        [&file, compile](Bench& bench) { check_graph(bench, file, compile); }});
    }
  }
}

}  // namespace tenon::kit
