// The compiler as one page: lowering, fusion, code, memory.
#include "compile.h"

#include "chosen_ops.h"
#include "machine.h"
#include "make.h"

#include <inductor_runtime/making.h>
#include <loopir/in_place.h>
#include <loopir/making/static_items.h>

#include <algorithm>
#include <chrono>

namespace blocks {

using inductor::Parts;
using tenon::plugin::declined;

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

inductor::RunOptions run_options(const tn_compile_request& request, const Choices& choices) {
  return {
      .code = {.vector_bits = 512, .contracts = false},
      .workers = {.most = choices.threads, .is_fixed = (request.flags & TN_RQ_DETERMINISTIC) != 0},
      .packs_weights = choices.freezes,
      .verifies = choices.verifies,
      .profiles = choices.profiles};
}

/// Images that are channels-last suit convolutions, and cost blocks of elements more than they gain
/// where each channel has statistics: a block then has as many elements as there are channels.
/// Activations that are kept for a backward graph lie as the host says.
bool suits_channels_last(const tn_compile_request& request) {
  if (request.stage != TN_STAGE_INFERENCE) return false;
  tenon::plugin::graph graph(request);
  for (uint32_t i = 0; i < graph.size(); ++i)
    if (loopir::has_statistics_of_channels(tenon::plugin::sv(graph.at(i).op_name))) return false;
  return true;
}

loopir::Program lowered(const tn_compile_request& request, const Choices& choices,
                        const inductor::RunOptions& run) {
  loopir::LoweringOptions options;
  options.may_transform = request.stage == TN_STAGE_INFERENCE && !run.workers.is_fixed;
  options.optimizes_layout = choices.fuses && suits_channels_last(request);
  options.externs = nodes_for_host(request);
  options.has_fast_kernel = [&](const loopir::Program& p, const loopir::Step& step) {
    return inductor::has_fast_kernel(p, step, run);
  };
  return loopir::lower(request, options);
}

void fuse(Parts& parts, const Choices& choices) {
  bool fuses = choices.fuses;
  parts.schedule = loopir::fuse(parts.program, {.threads = parts.options.workers.slices(),
                                                .most_loops = fuses ? 64u : 1u,
                                                .most_independent_loops = fuses ? 64u : 1u});
  for (const loopir::FusionNote& note : parts.schedule.notes)
    parts.statistics.fusion_text +=
        note.producer + " -> " + note.consumer + ": " + note.verdict + "\n";
  if (!fuses) return;
  loopir::absorb_epilogues(parts.program, parts.schedule,
                           {[&](const loopir::Item& item) {
                              return inductor::is_fast(parts.program, item, parts.options);
                            },
                            [&](const loopir::Convolution& c) {
                              return !inductor::needs_layout(parts.program, c, parts.options);
                            },
                            false});
}

/// The machine of each kernel.
void make_kernels(Parts& parts) {
  auto start = std::chrono::steady_clock::now();
  size_t n = parts.schedule.items.size();
  parts.kernels.resize(n);
  parts.functions.resize(n);
  std::vector<loopir::Nest> nests(n);
  for (size_t i = 0; i < n; ++i) {
    auto* kernel = std::get_if<loopir::Kernel>(&parts.schedule.items[i]);
    if (!kernel) continue;
    nests[i] = loopir::make_nest(parts.program, *kernel, lanes_for(parts.program, *kernel));
    Made made = make_code(parts.program, nests[i]);
    parts.kernels[i] = std::move(made.interface);
    if (made.is_tiled) nests[i].kernel.outer.clear();  // its units are not rows
    parts.functions[i].body = std::make_shared<const Machine>(std::move(made.code));
    ++parts.statistics.kernels;
    parts.statistics.fused_nodes += kernel->n_loops - 1;
  }
  inductor::find_regions_of(parts, nests, inductor::static_when_prepacked(parts));
  parts.statistics.distinct_kernels = parts.statistics.kernels;
  parts.statistics.codegen_ms = milliseconds_since(start);
  inductor::count_regions(parts);
}

}  // namespace

std::unique_ptr<inductor::Executable> compile(const tn_compile_request& request,
                                              const Choices& choices) {
  auto start = std::chrono::steady_clock::now();
  Parts parts;
  parts.options = run_options(request, choices);

  // Ops become expressions over index variables; what is realised becomes a loop.
  parts.program = lowered(request, choices, parts.options);
  parts.statistics.loops_before_text = loopir::text_of(parts.program);

  // Loops that share memory become one kernel, activations a part of products.
  fuse(parts, choices);
  parts.statistics.loops_text = loopir::text_of(parts.program, parts.schedule);
  if (choices.verifies) loopir::require_sound(loopir::problem_of(parts.program, parts.schedule));

  // What depends on parameters only is made once, and again when those change.
  if (choices.freezes)
    parts.is_prepacked = loopir::find_static_items(parts.program, parts.schedule);
  parts.is_prepacked.resize(parts.schedule.items.size());

  make_kernels(parts);
  inductor::describe_items(parts);

  // What is read for the last time makes room for what is made of it.
  parts.program.memory_of = loopir::find_in_place_reuse(
      {parts.program, parts.schedule.items, parts.accesses,
       inductor::numbers_of_steps(parts.accesses.size(), parts.regions), parts.is_prepacked});
  inductor::count_items(parts);
  parts.statistics.compile_ms = milliseconds_since(start);
  return std::make_unique<inductor::Executable>(std::move(parts));
}

}  // namespace blocks
