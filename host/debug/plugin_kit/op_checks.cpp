// Ops that a plugin adds ([[op]]): what their kernels give against what their meta functions say,
// kernel against decomposition, derivative against differences, threads, memory.
//
// The derivative is checked along random directions v: with weights c, the number
// L(x) = sum(c * f(x)) grows by sum(vjp(c) * v) for a step of one. That is held against
// (L(x + h v) - L(x - h v)) / 2h for two steps h. Where the two differ, f has a corner and says
// nothing; where they agree and the derivative differs, it is wrong. Cost: five calls a direction.
#include "aot/lower.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/kernel_hook.h"
#include "debug/plugin_kit/robust_checks.h"
#include "debug/plugin_kit/watched_host.h"
#include "debug/random_inputs.h"
#include "graph/interpret.h"
#include "ops/custom_op.h"
#include "ops/kernel_loops.h"
#include "ops/op_table.h"

#include <tenon/autograd.h>

#include <algorithm>
#include <cmath>

namespace tenon::kit {

namespace {

const OpEntry& op_of(Bench& bench, const std::string& name) {
  bench.load();
  const OpEntry* op = find_op(name);
  if (!op) fail_check("P12 the manifest names op {}, the entry did not add it", name);
  return *op;
}

std::vector<Tensor> run(const GraphCase& c, std::span<const Tensor> inputs) {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  std::vector<Tensor> outputs(c.graph->outputs().size());
  Interpreter(c.graph).run(heads, c.symbols, outputs);
  return outputs;
}

bool is_refusal(const Error& error) {
  const auto* plugins = dynamic_cast<const BackendError*>(&error);
  if (!plugins)
    return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::unsupported;
  return plugins->status() == TN_INVALID_ARGUMENT || plugins->status() == TN_UNIMPLEMENTED;
}

/// Runs `body` with the calls that the op does not refuse, and remarks how many there were.
void for_each_taken(Bench& bench, const std::string& op,
                    const std::function<void(const GraphCase&)>& body) {
  op_of(bench, op);
  int n_calls = 0, n_taken = 0;
  std::string refusal = "no call of it could be made up from its schema";
  for_each_call(op, bench.settings().quick, bench.settings().seed,
                [&](const GraphCase& c, const std::string& text) {
                  bench.note(text);
                  ++n_calls;
                  try {
                    body(c);
                    ++n_taken;
                  } catch (const CheckFailed& failed) {
                    fail_check("{}; {}", failed.why, text);
                  } catch (const CheckSkipped& skipped) {
                    refusal = skipped.why;
                  } catch (const Error& error) {
                    if (!is_refusal(error)) fail_check("{}; {}", error.what(), text);
                    refusal = error.what();
                  }
                });
  if (n_taken == 0) skip_check("{}", refusal);
  bench.remark(message("{} of {} made-up calls", n_taken, n_calls));
}

// ---- results

// What the op gives must be what its meta function said, since compiled code believes that.
void expect_as_meta_says(const GraphCase& c) {
  std::vector<Tensor> inputs = c.copy_of_inputs();
  host_faults().guard_outputs = true;
  {
    std::vector<Tensor> found = run(c, inputs);
    std::string wrong = meta_difference(c, found);
    expect(wrong.empty(), "its kernel and its shape function disagree: {}", wrong);
  }
  expect_inputs_left_alone(c, inputs);
  std::string misuse = take_first_misuse();
  expect(misuse.empty(), "{}", misuse);
}

void check_results(Bench& bench, const std::string& op) {
  for_each_taken(bench, op, expect_as_meta_says);
}

// An op that says twice what it computes must say the same.
void check_parts(Bench& bench, const std::string& name) {
  const OpEntry& op = op_of(bench, name);
  if (!op.def->custom || !op.def->custom->kernel || !op.def->decomp)
    skip_check("it has no decomposition beside a kernel");
  LowerOptions options;
  options.decomposes = [&](const OpEntry& e) { return &e == &op; };
  for_each_taken(bench, name, [&](const GraphCase& c) {
    GraphCase parts{lower_inference(*c.graph, options).graph, c.inputs, c.symbols};
    if (parts.graph->inputs().size() != c.inputs.size()) skip_check("it does not use its inputs");
    std::string wrong = difference(c, run(parts, c.inputs), run(c, c.inputs));
    expect(wrong.empty(), "its decomposition and its kernel differ: {}", wrong);
  });
}

// ---- derivatives

double weighted_sum(const std::vector<Tensor>& outputs, const std::vector<Tensor>& weights) {
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (weights[i].defined())
      sum += (outputs[i].detach().to(Dtype::f64) * weights[i].to(Dtype::f64))
                 .sum()
                 .to_vector<double>()[0];
  return sum;
}

/// L at x + h v.
double moved(const GraphCase& c, const std::vector<Tensor>& direction, double h,
             const std::vector<Tensor>& weights) {
  NoGradGuard no_grad;
  std::vector<Tensor> inputs = c.copy_of_inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (direction[i].defined()) inputs[i].add_(direction[i], h);
  return weighted_sum(run(c, inputs), weights);
}

/// The gradient of L by the tape, along `direction`.
struct Slope {
  double value = 0, size = 0;
};

Slope slope_of_tape(const GraphCase& c, const std::vector<Tensor>& direction, uint64_t seed,
                    std::vector<Tensor>& weights) {
  std::vector<Tensor> leaves = c.copy_of_inputs(), wanted, along, results, cotangents;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!direction[i].defined()) continue;
    wanted.push_back(leaves[i].requires_grad_());
    along.push_back(direction[i]);
  }
  std::vector<Tensor> outputs = run(c, leaves);
  weights.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
    std::vector<int64_t> sizes;
    for (SymInt size : outputs[i].sizes()) sizes.push_back(size.word());
    weights[i] = random_tensor(IntList(sizes), outputs[i].dtype(), seed + 31 * (i + 1));
    results.push_back(outputs[i]);
    cotangents.push_back(weights[i]);
  }
  if (results.empty() || wanted.empty()) skip_check("its results have no gradient");
  std::vector<Tensor> gradients =
      autograd::grad(results, wanted, {.grad_outputs = cotangents, .allow_unused = true});
  Slope slope;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    Tensor part = gradients[i].to(Dtype::f64) * along[i].to(Dtype::f64);
    slope.value += part.sum().to_vector<double>()[0];
    slope.size += part.abs().sum().to_vector<double>()[0];
  }
  return slope;
}

bool is_near(double a, double b, double size) { return std::abs(a - b) <= 0.01 * size + 1e-3; }

// False where the op has a corner, or no number, in this direction.
bool derivative_holds_along(const GraphCase& c, uint64_t seed) {
  std::vector<Tensor> direction, weights;
  bool wide = true;
  for (const Tensor& t : c.inputs) {
    direction.emplace_back();
    if (!is_floating(t.dtype())) continue;
    wide = wide && t.dtype() == Dtype::f64;
    std::vector<int64_t> sizes;
    for (SymInt size : t.sizes()) sizes.push_back(size.word());
    direction.back() = random_tensor(IntList(sizes), t.dtype(), seed += 17);
  }
  Slope slope = slope_of_tape(c, direction, seed, weights);
  double steps[2], h = wide ? 1e-4 : 1.0 / 64;
  for (double& step : steps) {
    step = (moved(c, direction, h, weights) - moved(c, direction, -h, weights)) / (2 * h);
    h /= 2;
  }
  double size = std::max({slope.size, std::abs(steps[0]), std::abs(steps[1])});
  bool tells = std::isfinite(steps[0]) && is_near(steps[0], steps[1], 0.3 * size);
  if (!tells) return false;
  expect(is_near(slope.value, steps[1], size),
         "its derivative is wrong: along a random direction it says {}, differences say {}",
         slope.value, steps[1]);
  return true;
}

bool suits_differences(const GraphCase& c) {
  int64_t elements = 0;
  bool floats = false;
  for (const Tensor& t : c.inputs) {
    bool precise = t.dtype() == Dtype::f32 || t.dtype() == Dtype::f64;
    if (is_floating(t.dtype()) && !precise) return false;
    floats = floats || precise;
    elements += numel_of(t);
    if (precise && !std::isfinite(t.to(Dtype::f64).sum().to_vector<double>()[0])) return false;
  }
  return floats && elements > 0 && elements <= 4096;
}

void check_vjp(Bench& bench, const std::string& name) {
  const OpEntry& op = op_of(bench, name);
  const CustomOp* custom = op.def->custom;
  if (custom && !custom->vjp && !custom->formula && !custom->decomp)
    skip_check("it has no derivative");
  for_each_taken(bench, name, [&](const GraphCase& c) {
    if (!suits_differences(c)) skip_check("no call of it has differences");
    constexpr int directions = 3;
    int told = 0;
    for (uint64_t k = 0; k < directions; ++k)
      told += derivative_holds_along(c, bench.settings().seed + 1000 * (k + 1));
    if (told == 0) skip_check("no difference tells anything about its derivative");
  });
}

// ---- robust

void check_op_threads(Bench& bench, const std::string& op) {
  int rounds = bench.settings().quick ? 20 : 100;
  for_each_taken(bench, op, [&](const GraphCase& c) {
    std::vector<GraphCase> cases;
    std::vector<std::vector<Tensor>> expected;
    for (uint64_t t = 0; t < n_threads; ++t) {
      cases.push_back(with_other_numbers(c, bench.settings().seed + t * 77));
      expected.push_back(run(cases.back(), cases.back().inputs));
    }
    on_threads(rounds, [&](int thread, int) {
      auto t = static_cast<size_t>(thread);
      std::string wrong = difference(cases[t], run(cases[t], cases[t].inputs), expected[t]);
      expect(wrong.empty(), "called by {} threads at once, each with inputs of its own: {}",
             n_threads, wrong);
    });
  });
}

void check_op_leaks(Bench& bench, const std::string& op) {
  constexpr int64_t allowed_bytes = 16;  // a call; a tensor takes more
  int64_t n = bench.settings().quick ? 16 : 64;
  for_each_taken(bench, op, [&](const GraphCase& c) {
    auto call_often = [&] {
      for (int64_t i = 0; i < n; ++i) run(c, c.inputs);
    };
    call_often();
    int64_t grown = growth_of_rounds(n * allowed_bytes, call_often);
    expect(grown <= n * allowed_bytes,
           "P22 {} calls left {} bytes of tensors or other memory behind", n, grown);
  });
}

}  // namespace

void add_op_checks(std::vector<Check>& checks, const FoundPlugin& plugin) {
  struct Row {
    const char *name, *section;
    int level;
    void (*run)(Bench&, const std::string& op);
  };
  static constexpr Row rows[] = {{"results", "13", 1, check_results},
                                 {"parts", "13", 1, check_parts},
                                 {"vjp", "13", 1, check_vjp},
                                 {"threads", "6", 3, check_op_threads},
                                 {"leaks", "6", 3, check_op_leaks}};
  for (const OpManifest& op : plugin.manifest.ops)
    for (const Row& row : rows)
      checks.push_back({message("ops.{}.{}", op.name, row.name), "", row.level, row.section,
                        message("ops.{}", row.name),
                        [&row, name = op.name](Bench& bench) { row.run(bench, name); }});
}

}  // namespace tenon::kit
