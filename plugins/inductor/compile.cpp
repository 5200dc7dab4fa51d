// The compiler as one page: lowering, fusion, code, link.
#include "compile.h"

#include "autotune.h"
#include "chosen_ops.h"
#include "kernel_cache.h"
#include "options.h"
#include "perf_map.h"

#include <dnn/new_code.h>
#include <inductor_runtime/making.h>
#include <loopir/in_place.h>
#include <loopir/making/static_items.h>
#include <loopir/nest_text.h>

#include <algorithm>
#include <chrono>
#include <set>

namespace inductor {

using loopir::Buffer;
using loopir::Id;
using tenon::plugin::error;
using tenon::plugin::text;

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Whether somebody reads the log artifact, which may cost something to make.
bool is_logged(const char* artifact) {
  return tenon::plugin::host->svc->log_level(artifact) <= TN_LOG_INFO;
}

bool is_to_fail(const loopir::Kernel& kernel, const std::string& part) {
  return !part.empty() && (part == "*" || kernel.name.find(part) != std::string::npos);
}

/// Throws where the system forbids it: `declined`, so that the host runs the graph, unless that is
/// an error.
void require_new_code(const Given& given, size_t kernels) {
  const char* why = onednn::why_no_new_code();
  if (!*why) return;
  std::string problem = text(
      "this process may not run code that it makes ({}), and the graph has "
      "{} kernels; allow it executable memory, or choose another backend",
      why, kernels);
  if (given.fallback == Given::fallback_choice::error) throw error(TN_FAILED_PRECONDITION, problem);
  throw tenon::plugin::declined(problem);
}

/// The code of the schedule's kernels. Throws KernelFailure.
void make_code(tn_ctx* ctx, const Given& given, Parts& parts) {
  auto start = std::chrono::steady_clock::now();
  const CodeOptions& options = parts.options.code;
  loopir::Program& p = parts.program;
  size_t n = parts.schedule.items.size();
  parts.kernels.resize(n);
  parts.functions.resize(n);
  std::vector<loopir::Nest> nests(n);
  std::vector<KernelRequest> requests;
  std::vector<size_t> items;
  for (size_t i = 0; i < n; ++i) {
    const loopir::Kernel* kernel = std::get_if<loopir::Kernel>(&parts.schedule.items[i]);
    if (!kernel) continue;
    if (is_to_fail(*kernel, given.fail_kernels))
      throw KernelFailure{kernel->name, "the option fail_kernels names it", kernel->nodes};
    int64_t lanes = lanes_for(p, *kernel, options);
    nests[i] = loopir::make_nest(p, *kernel, lanes);
    loopir::cut_into_tiles(p, nests[i], lanes);
    parts.kernels[i] = interface_of(p, nests[i], options);
    if (is_logged("loop_ordering"))
      tenon::plugin::log(TN_LOG_INFO, "loop_ordering", "{}", loopir::text_of(p, nests[i]));
    requests.push_back(
        {&nests[i], &parts.kernels[i], key_of(p, nests[i], parts.kernels[i], options)});
    items.push_back(i);
    parts.statistics.fused_nodes += kernel->n_loops - 1;
    parts.statistics.streamed += static_cast<uint32_t>(parts.kernels[i].streamed.size());
  }
  if (!requests.empty()) require_new_code(given, requests.size());
  CacheStatistics cache;
  std::vector<KernelCode> code = code_for(ctx, p, requests, options, given.compile_threads, cache);
  for (size_t k = 0; k < items.size(); ++k) parts.functions[items[k]] = code[k];
  if (given.perf) write_perf_map(named_kernels(parts));
  std::vector<bool> is_static = static_when_prepacked(parts);
  if (given.epilogue_fusion) find_regions_of(parts, nests, is_static);
  // Another way may round differently, so what is deterministic goes by the rules.
  if (given.max_autotune && !parts.options.workers.is_fixed) choose_ways(ctx, parts, is_static);
  Statistics& s = parts.statistics;
  s.kernels = static_cast<uint32_t>(items.size());
  s.distinct_kernels = cache.distinct;
  s.kernel_cache_hits = cache.from_process;
  s.from_cache = cache.from_disk;
  s.object_bytes = cache.object_bytes;
  s.codegen_ms = milliseconds_since(start);
  count_regions(parts);
}

/// A graph to compile, and how.
struct Job {
  const tn_compile_request& request;
  Given given;
  RunOptions run;
  std::set<uint32_t> externs = {};  // nodes that the host runs: chosen, or of kernels without code
  uint32_t failed_kernels = 0;

  bool allows_externs() const { return given.fallback != Given::fallback_choice::error; }
};

loopir::Program lowered(const Job& job) try {
  loopir::LoweringOptions options = lowering_options(job.given, job.run, job.request);
  options.externs = job.externs;
  options.has_fast_kernel = [&](const loopir::Program& p, const loopir::Step& step) {
    return has_fast_kernel(p, step, job.run);
  };
  return loopir::lower(job.request, options);
} catch (const tenon::plugin::declined& why) {
  if (job.allows_externs()) throw;
  throw error(TN_UNIMPLEMENTED, text("{}, and fallback is \"error\"; with \"eager\" the host runs "
                                     "such graphs",
                                     why.what()));
}

void require_no_externs(const loopir::Schedule& schedule) {
  std::set<std::string> names;
  for (const loopir::Item& item : schedule.items)
    if (auto* e = std::get_if<loopir::Extern>(&item)) names.insert(e->name);
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw error(TN_UNIMPLEMENTED, text("there is no code for {}, and fallback is \"error\"; with "
                                     "\"eager\" the host runs such ops",
                                     list));
}

/// Throws KernelFailure.
std::unique_ptr<Executable> compile_once(const Job& job) {
  auto start = std::chrono::steady_clock::now();
  const Given& given = job.given;
  Parts parts;
  parts.options = job.run;
  parts.statistics.failed_kernels = job.failed_kernels;

  // Ops become expressions over index variables; what is realised becomes a loop.
  parts.program = lowered(job);

  parts.statistics.loops_before_text = loopir::text_of(parts.program);

  // Loops that share memory become one kernel.
  parts.schedule = loopir::fuse(
      parts.program,
      {.threads = job.run.workers.slices(),
       .most_loops = static_cast<uint32_t>(given.max_fusion_size),
       .most_independent_loops = static_cast<uint32_t>(given.max_horizontal_fusion_size)});
  if (!job.allows_externs()) require_no_externs(parts.schedule);

  for (const loopir::FusionNote& note : parts.schedule.notes)
    parts.statistics.fusion_text +=
        note.producer + " -> " + note.consumer + ": " + note.verdict + "\n";

  // Activations and residuals are done by the product or convolution that they follow.
  if (given.epilogue_fusion)
    loopir::absorb_epilogues(
        parts.program, parts.schedule,
        {[&](const loopir::Item& item) { return is_fast(parts.program, item, job.run); },
         [&](const loopir::Convolution& c) { return !needs_layout(parts.program, c, job.run); },
         job.run.code.rounds_narrow});
  parts.statistics.loops_text = loopir::text_of(parts.program, parts.schedule);

  if (given.verify) loopir::require_sound(loopir::problem_of(parts.program, parts.schedule));

  // What depends on parameters only is prepacked, and again when those change.
  parts.is_prepacked = loopir::find_static_items(parts.program, parts.schedule);

  make_code(job.request.ctx, given, parts);
  describe_items(parts);
  // What is read for the last time makes room for what is made of it.
  if (given.inplace_buffers && given.memory_planning && given.allow_buffer_reuse)
    parts.program.memory_of = loopir::find_in_place_reuse(
        {parts.program, parts.schedule.items, parts.accesses,
         numbers_of_steps(parts.accesses.size(), parts.regions), parts.is_prepacked});
  count_items(parts);
  parts.statistics.compile_ms = milliseconds_since(start);
  return std::make_unique<Executable>(std::move(parts));
}

// Nodes of a kernel without code go to the host. Each round takes some more, so it ends.
void leave_to_host(const KernelFailure& failure, Job& job) {
  size_t before = job.externs.size();
  job.externs.insert(failure.nodes.begin(), failure.nodes.end());
  if (job.externs.size() == before)
    throw tenon::plugin::declined(text("kernel {} has no code: {}", failure.kernel, failure.why));
  tenon::plugin::log(TN_LOG_WARN, "inductor",
                     "kernel {} has no code, so the host runs its {} nodes: {}", failure.kernel,
                     failure.nodes.size(), failure.why);
}

}  // namespace

std::unique_ptr<Executable> compile(const tn_compile_request& request) {
  Given given = Given::read(request);
  Job job{.request = request, .given = given, .run = run_options(given, request)};
  if (job.allows_externs()) job.externs = nodes_for_host(request);
  for (;; ++job.failed_kernels) try {
      return compile_once(job);
    } catch (const KernelFailure& failure) {
      leave_to_host(failure, job);
    }
}

}  // namespace inductor
