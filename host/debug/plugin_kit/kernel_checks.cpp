// Plugins with eager kernels: each golden graph that calls one of their ops, and calls made up from
// the op table, run with and without them; threads, memory that is gone, and what calls leave.
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "debug/plugin_kit/compiling.h"
#include "debug/plugin_kit/kernel_hook.h"
#include "debug/plugin_kit/robust_checks.h"
#include "debug/plugin_kit/watched_host.h"
#include "graph/interpret.h"
#include "ops/op_table.h"

#include <algorithm>
#include <set>

namespace tenon::kit {

namespace {

// Of ops whose kernel is a plugin's there is nothing to compare with: the recordings do that.
bool host_has_kernel(const Graph& graph) {
  return std::ranges::none_of(graph.nodes(),
                              [](const Node& n) { return entry_of(n.op).def->provider; });
}

}  // namespace

void expect_kernels_right(const GraphCase& c) {
  std::vector<Tensor> inputs = c.copy_of_inputs();
  bool compares = host_has_kernel(*c.graph);
  std::vector<Tensor> expected = compares ? run_reference(c) : std::vector<Tensor>();
  host_faults().guard_outputs = true;
  {
    std::vector<Tensor> found = run_with_kernels(c, inputs);
    std::string wrong = meta_difference(c, found);
    if (wrong.empty() && compares) wrong = difference(c, found, expected);
    expect(wrong.empty(), "{}", wrong);
  }
  expect_inputs_left_alone(c, inputs);
  std::string misuse = take_first_misuse();
  expect(misuse.empty(), "{}", misuse);
}

namespace {

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

// ---- made-up calls

// A kernel may refuse arguments that do not suit it; the next row would not be asked then, so that
// is a refusal of the op, which the host's own kernel must share.
void check_calls_of(Bench& bench, const std::string& op) {
  hook_kernels(bench);
  int64_t before = kernels_taken();
  int n_calls = 0;
  for_each_call(op, bench.settings().quick, bench.settings().seed,
                [&](const GraphCase& c, const std::string& text) {
                  ++n_calls;
                  bench.note(text);
                  try {
                    expect_kernels_right(c);
                  } catch (const CheckFailed& failed) {
                    fail_check("{}; {}", failed.why, text);
                  } catch (const Error& error) {
                    if (host_has_kernel(*c.graph)) fail_check("{}; {}", error.what(), text);
                  }
                });
  int64_t taken = kernels_taken() - before;
  if (n_calls == 0) skip_check("no call of it could be made up from its schema");
  if (taken == 0) skip_check("declined: none of {} made-up calls was taken", n_calls);
  bench.remark(message("{} of {} made-up calls taken", taken, n_calls));
}

/// Golden graphs and made-up calls of which the kernels take some part.
std::vector<GraphCase> taken_cases(Bench& bench) {
  hook_kernels(bench);
  std::vector<GraphCase> cases;
  auto keep = [&](const GraphCase& c) {
    int64_t before = kernels_taken();
    try {
      run_with_kernels(c, c.copy_of_inputs());
    } catch (const Error&) {
      return;
    }
    if (kernels_taken() > before) cases.push_back(c);
  };
  for (const GoldenGraph& golden : kernel_graphs(bench.found()))
    keep(*make_static_case(golden, InputStyle::contiguous, bench.settings().seed));
  for (const KernelsManifest& row : bench.found().manifest.kernels)
    for (const std::string& op : row.ops) {
      size_t most = cases.size() + 2;
      for_each_call(op, true, bench.settings().seed, [&](const GraphCase& c, const std::string&) {
        if (cases.size() < most) keep(c);
      });
    }
  if (cases.empty()) skip_check("declined: no call of its ops was taken");
  return cases;
}

// ---- robust

/// What one thread calls, and what comes of it.
struct ThreadCalls {
  std::vector<GraphCase> cases;
  std::vector<std::vector<Tensor>> expected;
};

ThreadCalls calls_of_thread(const std::vector<GraphCase>& cases, uint64_t seed) {
  ThreadCalls out;
  for (const GraphCase& c : cases) {
    out.cases.push_back(with_other_numbers(c, seed));
    // An op without another kernel is compared with itself, alone.
    out.expected.push_back(host_has_kernel(*c.graph)
                               ? run_reference(out.cases.back())
                               : run_with_kernels(out.cases.back(), out.cases.back().inputs));
  }
  return out;
}

void check_kernel_threads(Bench& bench) {
  std::vector<GraphCase> cases = taken_cases(bench);
  std::vector<ThreadCalls> calls;
  for (uint64_t t = 0; t < n_threads; ++t)
    calls.push_back(calls_of_thread(cases, bench.settings().seed + t * 77));
  KernelScope scope;
  int rounds = bench.settings().quick ? 10 : 50, n_cases = static_cast<int>(cases.size());
  on_threads(rounds * n_cases, [&](int thread, int turn) {
    const ThreadCalls& mine = calls[static_cast<size_t>(thread)];
    auto which = static_cast<size_t>(turn % n_cases);
    const GraphCase& c = mine.cases[which];
    std::vector<detail::TensorHead*> heads = c.heads();
    std::vector<Tensor> outputs(c.graph->outputs().size());
    Interpreter(c.graph).run(heads, c.symbols, outputs);
    std::string wrong = difference(c, outputs, mine.expected[which]);
    expect(wrong.empty(), "called by {} threads at once, each with inputs of its own: {}",
           n_threads, wrong);
  });
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
  for (const GraphCase& c : taken_cases(bench)) {
    bench.note("graph " + c.graph->name);
    int64_t most = bench.settings().quick ? 20 : 200;
    for (int64_t n = 1; n <= most && fails_cleanly(c, n); ++n) {
    }
  }
}

void check_kernel_leaks(Bench& bench) {
  constexpr int64_t allowed_bytes = 16;  // a call; a tensor takes more
  int64_t n = bench.settings().quick ? 32 : 128;
  for (const GraphCase& c : taken_cases(bench)) {
    bench.note("graph " + c.graph->name);
    auto call_often = [&] {
      for (int64_t i = 0; i < n; ++i) run_with_kernels(c, c.inputs);
    };
    call_often();
    int64_t grown = growth_of_rounds(n * allowed_bytes, call_often);
    expect(grown <= n * allowed_bytes,
           "P22 {} calls left {} bytes of tensors or other memory behind; {}", n, grown,
           c.graph->name);
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
  for (const KernelsManifest& row : plugin.manifest.kernels)
    for (const std::string& op : row.ops)
      checks.push_back({"kernels.calls." + op, "", 1, "21", "kernels.calls",
                        [op](Bench& bench) { check_calls_of(bench, op); }});
  checks.push_back({"kernels.threads", "", 3, "6", "kernels.threads", check_kernel_threads});
  checks.push_back(
      {"kernels.out_of_memory", "", 3, "14", "kernels.out_of_memory", check_kernel_memory});
  checks.push_back({"kernels.leaks", "", 3, "6", "kernels.leaks", check_kernel_leaks});
}

}  // namespace tenon::kit
