// Plugins with eager kernels: each golden graph that calls one of their ops, run with and without
// them; threads, and memory that is gone.
#include "backend/abi/abi_args.h"
#include "backend/abi/bridge.h"
#include "backend/abi/status.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/guarded_memory.h"
#include "debug/plugin_kit/kernel_hook.h"
#include "debug/plugin_kit/watched_host.h"
#include "graph/interpret.h"
#include "ops/op_table.h"

#include <algorithm>
#include <set>
#include <thread>

namespace tenon::kit {

// ---- the hook: kernels of the plugin in the op table, on a switch

namespace {

std::atomic<bool> kernels_on{false};
std::atomic<int64_t> taken{0};

struct Hook {
  const tn_kernels* table;
  uint32_t index;
  std::string op;
};

void expect_untouched(const Hook& hook, std::span<tn_tensor* const> out) {
  for (tn_tensor* t : out)
    expect(t == nullptr, "the kernel of {} wrote an output although it failed or declined",
           hook.op);
}

bool run_hook(void* self, const CallArgs& call) {
  const Hook& hook = *static_cast<const Hook*>(self);
  if (!kernels_on) return false;
  AbiArguments args(call.args, call.n_args);
  tn_tensor* out[8] = {};
  tn_status* status = hook.table->run(hook.table->self, hook.index, args.args(), args.size(),
                                      args.values(), nullptr, out, call.n_results);
  if (status) expect_untouched(hook, std::span(out, call.n_results));
  if (status && status->code == TN_DECLINED) {
    free_status(status);
    return false;
  }
  if (status) throw_status(status, ErrorCode::backend_call_failed, "kernel " + hook.op);
  for (uint32_t i = 0; i < call.n_results; ++i) {
    expect(out[i] != nullptr, "the kernel of {} reported success without output {}", hook.op, i);
    call.results[i] = Value::own(take_tensor(out[i]));
  }
  ++taken;
  return true;
}

}  // namespace

void hook_kernels(Bench& bench) {
  static bool hooked = false;
  if (std::exchange(hooked, true)) return;
  for (const tn_kernels& table : bench.load().kernels)
    for (uint32_t i = 0; i < table.n_ops; ++i)
      if (const OpEntry* op = find_op(view_of(table.ops[i])))
        add_foreign_kernel(op->id, {&run_hook, new Hook{&table, i, op->name}, 1 << 20});
}

KernelScope::KernelScope() { kernels_on = true; }
KernelScope::~KernelScope() { kernels_on = false; }
int64_t kernels_taken() { return taken; }

// ---- checks

namespace {

std::vector<Tensor> run_with_kernels(const GraphCase& c, std::span<const Tensor> inputs) {
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  std::vector<Tensor> outputs(c.graph->outputs().size());
  KernelScope scope;
  Interpreter(c.graph).run(heads, c.symbols, outputs);
  return outputs;
}

void expect_kernels_right(const GraphCase& c) {
  std::vector<Tensor> expected = run_reference(c), inputs = c.copy_of_inputs();
  std::vector<Tensor> found = run_with_kernels(c, inputs);
  std::string wrong = difference(c, found, expected);
  expect(wrong.empty(), "{}", wrong);
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect(same_bits(inputs[i], c.inputs[i]), "P23 input {} was written", i);
    std::string damage = damage_around(inputs[i]);
    expect(damage.empty(), "input {}: {}", i, damage);
    found.clear();
    expect(impl_of(inputs[i])->references == 1, "P22 input {} is still held after the call", i);
  }
}

void check_kernel_graph(Bench& bench, const EmbeddedFile& file) {
  hook_kernels(bench);
  GoldenGraph golden = golden_graph(file);
  int64_t before = kernels_taken();
  for (InputStyle style : all_input_styles) {
    auto c = make_static_case(golden, style, bench.settings().seed);
    if (!c) continue;
    bench.note(message("graph {}, inputs {}", golden.name, name_of(style)));
    try {
      expect_kernels_right(*c);
    } catch (const CheckFailed& failed) {
      throw CheckFailed{message("{}; inputs {}", failed.why, name_of(style)), golden.name};
    } catch (const Error& error) {
      throw CheckFailed{message("{}; inputs {}", error.what(), name_of(style)), golden.name};
    }
  }
  if (kernels_taken() == before) skip_check("declined: no call of the graph was taken");
}

/// The golden graphs that call an op of the plugin.
std::vector<GoldenGraph> kernel_graphs(const FoundPlugin& plugin) {
  std::set<std::string> ops;
  for (const KernelsManifest& row : plugin.manifest.kernels)
    ops.insert(row.ops.begin(), row.ops.end());
  std::vector<GoldenGraph> out;
  for (const EmbeddedFile& file : golden_graphs()) {
    GoldenGraph golden = golden_graph(file);
    const Graph& g = *golden.graph;
    if (std::any_of(g.nodes().begin(), g.nodes().end(),
                    [&](const Node& n) { return ops.contains(entry_of(n.op).name); }))
      out.push_back(std::move(golden));
  }
  return out;
}

void check_kernel_threads(Bench& bench) {
  hook_kernels(bench);
  std::vector<GraphCase> cases;
  for (const GoldenGraph& golden : kernel_graphs(bench.found()))
    cases.push_back(*make_static_case(golden, InputStyle::contiguous, bench.settings().seed));
  if (cases.empty()) skip_check("no golden graph calls an op of the plugin");
  std::vector<std::vector<Tensor>> expected;
  for (const GraphCase& c : cases) expected.push_back(run_reference(c));
  KernelScope scope;
  std::atomic<bool> right{true};
  std::vector<std::thread> threads;
  int rounds = bench.settings().quick ? 5 : 50;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round)
        for (size_t i = 0; i < cases.size(); ++i) {
          std::vector<detail::TensorHead*> heads = cases[i].heads();
          std::vector<Tensor> outputs(cases[i].graph->outputs().size());
          Interpreter(cases[i].graph).run(heads, cases[i].symbols, outputs);
          if (!difference(cases[i], outputs, expected[i]).empty()) right = false;
        }
    });
  for (std::thread& t : threads) t.join();
  expect(right, "called by 8 threads at once the results are wrong");
}

// One graph while the n-th request of memory fails; whether any request did.
bool fails_cleanly(const GraphCase& c, int64_t n) {
  HostCounts before = host_counts();
  std::vector<Tensor> inputs = c.copy_of_inputs();
  host_faults().fail_request = n;
  int32_t code = TN_OK;
  try {
    run_with_kernels(c, inputs);
  } catch (const BackendError& error) {
    code = error.status();
  }
  bool reached = host_faults().fail_request <= 0;
  clear_host_faults();
  expect(code == TN_OK || code == TN_OUT_OF_MEMORY,
         "request {} of memory failed, and it answered with status {}, expected TN_OUT_OF_MEMORY",
         n, code);
  HostCounts after = host_counts();
  expect(after.live_blocks <= before.live_blocks && after.live_statuses <= before.live_statuses,
         "P22 blocks or statuses are left after request {} of memory failed", n);
  for (const Tensor& t : inputs)
    expect(impl_of(t)->references == 1, "P22 an input is still held after request {} failed", n);
  return reached;
}

void check_kernel_memory(Bench& bench) {
  hook_kernels(bench);
  for (const GoldenGraph& golden : kernel_graphs(bench.found())) {
    bench.note("graph " + golden.name);
    GraphCase c = *make_static_case(golden, InputStyle::contiguous, bench.settings().seed);
    int64_t most = bench.settings().quick ? 20 : 200;
    for (int64_t n = 1; n <= most && fails_cleanly(c, n); ++n) {
    }
  }
}

}  // namespace

void add_kernel_checks(std::vector<Check>& checks, const FoundPlugin& plugin) {
  if (plugin.manifest.kernels.empty()) return;
  for (const EmbeddedFile& file : golden_graphs())
    for (const GoldenGraph& golden : kernel_graphs(plugin))
      if (file.path == golden.name + ".tng")
        checks.push_back({"kernels." + golden.name, "", 1, "21", "kernels",
                          [&file](Bench& bench) { check_kernel_graph(bench, file); }});
  checks.push_back({"kernels.threads", "", 3, "6", "kernels.threads", check_kernel_threads});
  checks.push_back(
      {"kernels.out_of_memory", "", 3, "14", "kernels.out_of_memory", check_kernel_memory});
}

}  // namespace tenon::kit
