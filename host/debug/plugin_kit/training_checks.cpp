// Level 1, training: the joint graph of each golden graph is cut as a user's would be, the backend
// compiles the halves, and results and gradients are held against the tape of the interpreter.
//
// Halves that the backend's stages leave out, or that it declines, go where they always go; a check
// that gave it nothing is skipped.
#include "autograd/tape.h"
#include "compile/compile_graph.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "debug/op_compare.h"
#include "debug/plugin_kit/compiling.h"
#include "graph/interpret.h"

#include <tenon/autograd.h>
#include <tenon/ops/create.h>

#include <algorithm>

namespace tenon::kit {

namespace {

/// What a training step of one graph gives.
struct Step {
  std::vector<Tensor> outputs;
  std::vector<Tensor> gradients;  ///< by input; undefined where there is none
};

std::vector<Tensor> leaves_of(const GraphCase& c) {
  std::vector<Tensor> leaves = c.copy_of_inputs();
  for (const Tensor& t : leaves)
    if (t.defined() && is_floating(t.dtype())) t.requires_grad_();
  return leaves;
}

// Of each result another number, the same in every step.
Tensor cotangent_of(const Tensor& result, size_t index) {
  return full_like(result.detach(), 0.5 + 0.25 * static_cast<double>(index)) +
         result.detach() * 0.125;
}

using RunGraph = std::function<void(std::span<detail::TensorHead*>, std::span<Tensor>)>;

Step step_of(const GraphCase& c, const RunGraph& run) {
  std::vector<Tensor> leaves = leaves_of(c);
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : leaves) heads.push_back(t.defined() ? t.head() : nullptr);
  Step step;
  step.outputs.resize(c.graph->outputs().size());
  run(heads, step.outputs);
  std::vector<Tensor> results, cotangents, wanted;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const Tensor& out = step.outputs[i];
    if (!out.defined() || !out.requires_grad()) continue;
    results.push_back(out);
    cotangents.push_back(cotangent_of(out, i));
  }
  for (const Tensor& t : leaves)
    if (t.defined() && t.requires_grad()) wanted.push_back(t);
  if (results.empty() || wanted.empty()) skip_check("no result needs a gradient");
  step.gradients =
      autograd::grad(results, wanted, {.grad_outputs = cotangents, .allow_unused = true});
  for (Tensor& t : step.outputs)
    if (t.defined()) t = t.detach();
  return step;
}

Step step_of_tape(const GraphCase& c) {
  Interpreter interpreter(c.graph);
  try {
    return step_of(c, [&](std::span<detail::TensorHead*> in, std::span<Tensor> out) {
      interpreter.run(in, c.symbols, out);
    });
  } catch (const UserError& error) {
    skip_check("the host has no gradients of it: {}", error.what());
  }
}

void expect_same_step(const GraphCase& c, const Step& found, const Step& expected) {
  std::string wrong = difference(c, found.outputs, expected.outputs);
  expect(wrong.empty(), "forward: {}", wrong);
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    const Tensor &a = found.gradients[i], &b = expected.gradients[i];
    expect(a.defined() == b.defined(), "backward: gradient {} is {}", i,
           a.defined() ? "there, expected none" : "missing");
    if (!a.defined()) continue;
    wrong = compare_gradient(a, b).values;
    expect(wrong.empty(), "backward: gradient {}: {}", i, wrong);
  }
}

/// Which halves the backend took a part of.
struct Halves {
  bool forward = false, backward = false;
  std::string reason;
};

Halves check_step(Bench& bench, const std::string& backend, const GraphCase& c) {
  GraphCase training = with_gradients_wanted(c);
  Step expected = step_of_tape(training);
  CompileGraphOptions options;
  options.backend = full_name(bench, backend);
  options.use_cache = false;
  Halves halves;
  TakenWatch forward(backend);
  std::shared_ptr<Artifact> artifact = compile_graph(training.graph, options);
  halves.forward = forward.took_something();
  halves.reason = forward.reason();
  // The backward is compiled when the first gradient arrives.
  std::optional<TakenWatch> backward;
  Step found = step_of(training, [&](std::span<detail::TensorHead*> in, std::span<Tensor> out) {
    artifact->call(in, training.symbols, out, false);
    backward.emplace(backend);
  });
  halves.backward = backward->took_something();
  expect_same_step(training, found, expected);
  return halves;
}

void check_style(Bench& bench, const std::string& backend, const GoldenGraph& golden,
                 InputStyle style, Halves& taken) {
  bench.note(message("graph {}, inputs {}", golden.name, name_of(style)));
  auto c = make_static_case(golden, style, bench.settings().seed);
  if (!c) return;
  try {
    Halves halves = check_step(bench, backend, *c);
    taken.forward |= halves.forward;
    taken.backward |= halves.backward;
    if (taken.reason.empty()) taken.reason = halves.reason;
  } catch (const CheckFailed& failed) {
    throw CheckFailed{message("{}; inputs {}", failed.why, name_of(style)), golden.name};
  } catch (const BackendError& error) {
    bool declined = error.status() == TN_DECLINED || error.status() == TN_UNIMPLEMENTED;
    if (!declined)
      throw CheckFailed{message("{}; inputs {}", error.what(), name_of(style)), golden.name};
    taken.reason = message("declined: {}", error.what());
  } catch (const Error& error) {
    throw CheckFailed{message("{}; inputs {}", error.what(), name_of(style)), golden.name};
  }
}

void check_training(Bench& bench, const std::string& backend, const EmbeddedFile& file) {
  bench.load();
  GoldenGraph golden = golden_graph(file);
  Halves taken;
  for (InputStyle style : {InputStyle::contiguous, InputStyle::transposed, InputStyle::sliced,
                           InputStyle::zero_size, InputStyle::one_element})
    check_style(bench, backend, golden, style, taken);
  if (!taken.forward && !taken.backward) skip_check("{}", taken.reason);
  if (!taken.forward) bench.remark("the forward was declined");
  if (!taken.backward) bench.remark("the backward was declined");
}

// The numbers of a random graph are those of its code; in-place ops write leaves.
bool can_be_trained(const GoldenGraph& golden) {
  return !golden.is_random && !golden.is_unbacked && !golden.writes &&
         std::ranges::any_of(golden.graph->inputs(), [&](ValueId id) {
           const GraphValue& v = golden.graph->value(id);
           return v.kind == ValueKind::tensor && is_floating(v.meta.dtype);
         });
}

}  // namespace

void add_training_checks(std::vector<Check>& checks, const BackendManifest& backend) {
  bool claimed = std::ranges::any_of(
      backend.stages, [](const std::string& s) { return s == "forward" || s == "backward"; });
  if (backend.stage != BackendStage::aot || !claimed) return;
  for (const EmbeddedFile& file : golden_graphs()) {
    if (!can_be_trained(golden_graph(file))) continue;
    checks.push_back({message("correct.training.{}", file.path.substr(0, file.path.rfind('.'))),
                      backend.name, 1, "21", "training " + backend.name,
                      [&file, name = backend.name](Bench& b) { check_training(b, name, file); }});
  }
}

}  // namespace tenon::kit
