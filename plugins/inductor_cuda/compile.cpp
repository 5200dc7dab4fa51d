// The compiler as one page: lowering, fusion, forms, code.
#include "compile.h"

#include "dnn/plans.h"
#include "groups.h"
#include "library_items.h"
#include "loops_of_steps.h"
#include "options.h"
#include "products/product_steps.h"

#include <loopir/lower/convolutions.h>
#include <loopir/making/static_items.h>
#include <loopir/verify.h>
#include <tenon/device.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

namespace inductor_cuda {

using tenon::plugin::declined;
using tenon::plugin::error;
using tenon::plugin::text;

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// What was tried of a kernel whose threads want more registers than there are.
struct Narrowing {
  unsigned rounds = 0;
  uint32_t bytes = 0;  // that the round before spilled
  bool is_final = false;
};

/// A graph to compile, and how.
struct Job {
  const tn_compile_request& request;
  Given given;
  Device device;
  std::set<uint32_t> externs = {};  // nodes of kernels without code, which the host runs
  uint32_t failed_kernels = 0;
  bool groups_kernels = true;
  std::map<size_t, Narrowing> narrowed = {};  // by item whose code spilled

  /// One op of an eager program is not given back to the host, whose question it is.
  bool is_single_op() const { return request.stage == TN_STAGE_SINGLE_OP; }
  bool allows_externs() const {
    return !is_single_op() && given.fallback != Given::fallback_choice::error;
  }
};

/// What no part of the graph becomes: declined, or an error where the user forbids the host's help.
[[noreturn]] void refuse(const Job& job, const std::string& why) {
  if (job.is_single_op() || job.given.fallback != Given::fallback_choice::error)
    throw declined(why);
  throw error(TN_UNIMPLEMENTED,
              why + ", and fallback is \"error\"; with \"eager\" the host runs such ops");
}

/// cuDNN plans for sizes that are numbers. Nobody asks for it where nothing is convolved: opening it
/// takes a while.
bool has_images_for_dnn(const Job& job) {
  tenon::plugin::graph g(job.request);
  if (job.is_single_op() || !g.symbols().empty()) return false;
  return loopir::has_convolutions(g) && DnnLibrary::of(job.device);
}

DnnOptions dnn_options(const Job& job) {
  return {
      .allows_tf32 = (job.request.flags & TN_RQ_ALLOWS_TF32) != 0,
      .deterministic = job.given.deterministic || (job.request.flags & TN_RQ_DETERMINISTIC) != 0,
      .may_round_bias = !numerics_of(job.given).rounds_narrow};
}

DnnRequest dnn_request(const Job& job) { return {dnn_options(job), job.request.ctx}; }

loopir::Program lowered(const Job& job) try {
  loopir::LoweringOptions options = lowering_options(job.given, job.device);
  options.externs = job.externs;
  options.optimizes_layout = options.shares_images = options.adds_biases_apart =
      has_images_for_dnn(job);
  return loopir::lower(job.request, options);
} catch (const declined& why) {
  refuse(job, why.what());
}

void require_no_externs(const Job& job, const loopir::Schedule& schedule) {
  std::set<std::string> names;
  for (const loopir::Item& item : schedule.items)
    if (auto* e = std::get_if<loopir::Extern>(&item)) names.insert(e->name);
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  refuse(job, "there is no code on GPUs for " + list);
}

bool is_to_fail(const loopir::Kernel& kernel, const std::string& part) {
  return !part.empty() && (part == "*" || kernel.name.find(part) != std::string::npos);
}

bool writes_inputs(Parts& parts, const loopir::Kernel& kernel) {
  if (parts.updates.empty()) return false;
  loopir::Access access = loopir::access_of(parts.program, loopir::Item(kernel));
  return std::ranges::any_of(parts.updates, [&](const Update& u) {
    return std::ranges::find(access.writes, u.buffer) != access.writes.end();
  });
}

FormOptions form_options(const Job& job, size_t item) {
  FormOptions out = form_options(job.given, job.request, job.device);
  if (auto at = job.narrowed.find(item); at != job.narrowed.end()) out.spills = at->second.rounds;
  return out;
}

/// Forms of the schedule's kernels. Throws KernelFailure.
void plan_kernels(const Job& job, Parts& parts) {
  for (size_t i = 0; i < parts.schedule.items.size(); ++i) {
    auto* kernel = std::get_if<loopir::Kernel>(&parts.schedule.items[i]);
    if (!kernel) continue;
    if (is_to_fail(*kernel, job.given.fail_kernels))
      throw KernelFailure{kernel->name, "the option fail_kernels names it", kernel->nodes};
    CompiledKernel& made = parts.kernels[i];
    made.name = kernel->name;
    made.item = i;
    made.plans = plans_of(parts.program, *kernel, form_options(job, i));
    parts.statistics.fused_nodes += kernel->n_loops - 1;
  }
  parts.statistics.kernels = static_cast<uint32_t>(parts.kernels.size());
}

/// Which kernels one launch does.
void group_kernels(const Job& job, Parts& parts) {
  parts.is_in_group.assign(parts.schedule.items.size(), false);
  parts.accesses_of_launches = parts.accesses;
  if (job.is_single_op() || !job.groups_kernels) return;
  for (const std::vector<size_t>& items : groups_of(parts, parts.is_static)) {
    CompiledKernel& group = parts.groups[items[0]];
    loopir::Access& all = parts.accesses_of_launches[items[0]];
    for (size_t item : items) {
      CompiledKernel& member = parts.kernels.at(item);
      group.name += (group.name.empty() ? "" : "+") + member.name;
      group.members.push_back(&member);
      parts.is_in_group[item] = true;
      if (item == items[0]) continue;
      loopir::Access& own = parts.accesses_of_launches[item];
      all.reads.insert(all.reads.end(), own.reads.begin(), own.reads.end());
      all.writes.insert(all.writes.end(), own.writes.begin(), own.writes.end());
      own = {};
    }
    parts.statistics.grouped_kernels += static_cast<uint32_t>(items.size());
  }
}

/// Some kernels are to have other code.
struct Spilled {};

// Where narrower code spills as much, the wider one is as good.
bool is_to_change(Narrowing& how, uint32_t bytes) {
  constexpr unsigned most_rounds = 2;
  if (how.is_final) return false;
  const bool is_better = how.rounds == 0 || bytes < how.bytes;
  how.is_final = !is_better || how.rounds == most_rounds;
  if (is_better && how.is_final) return false;
  is_better ? ++how.rounds : --how.rounds;
  how.bytes = bytes;
  return true;
}

/// Throws Spilled where other code of kernels that spill has to be tried.
void require_registers(Job& job, Parts& parts) {
  bool is_changed = false;
  for (auto& [item, kernel] : parts.kernels) {
    uint32_t bytes = kernel.functions.empty() ? 0 : spilled_bytes(job.device, kernel);
    if (bytes == 0) continue;
    ++parts.statistics.spilled_kernels;
    const Form& form = kernel.plans[0].form;
    bool can_change = job.narrowed.contains(item) || form.vector > 1 || form.in_registers > 0 ||
                      form.least_blocks > 0;
    if (can_change) is_changed |= is_to_change(job.narrowed[item], bytes);
  }
  if (is_changed) throw Spilled();
}

/// Code of the kernels. Throws KernelFailure, Spilled.
void make_kernels(Job& job, Parts& parts) {
  auto start = std::chrono::steady_clock::now();
  std::vector<CompiledKernel*> kernels;
  for (auto& [item, kernel] : parts.kernels) {
    if (parts.is_in_group[item]) continue;
    kernel.may_alias = job.is_single_op() ||
                       writes_inputs(parts, std::get<loopir::Kernel>(parts.schedule.items[item]));
    kernels.push_back(&kernel);
  }
  for (auto& [item, group] : parts.groups) {
    group.may_alias = true;
    kernels.push_back(&group);
  }
  make_code(job.request.ctx, parts.program, kernels, job.device, numerics_of(job.given),
            parts.statistics.code);
  parts.statistics.codegen_ms = milliseconds_since(start);
  require_registers(job, parts);
}

/// What the libraries may do. Another algorithm than the first may round differently.
LibraryUse library_use(const Job& job) {
  DnnOptions dnn = dnn_options(job);
  return {
      .products = {.library = {.allows_tf32 = dnn.allows_tf32, .deterministic = dnn.deterministic},
                   .contracts = numerics_of(job.given).contracts},
      .dnn = dnn,
      .tunes = job.given.max_autotune && !job.is_single_op() && !dnn.deterministic,
      .tuning_ms = job.given.cuda_autotune_ms};
}

// Halves of a training step meet other parameters at each call. Kernels alone: libraries are told
// addresses of a call.
void find_setup(const Job& job, Parts& parts) {
  parts.is_static.assign(parts.schedule.items.size(), false);
  bool is_kept = job.given.weight_prepack && job.request.stage == TN_STAGE_INFERENCE;
  if (!is_kept) return;
  parts.is_static = loopir::find_static_items(
      parts.program, parts.schedule, [&](size_t item) { return parts.kernels.contains(item); });
  parts.statistics.prepacked_items =
      static_cast<uint32_t>(std::ranges::count(parts.is_static, true));
}

void describe_items(Parts& parts) {
  for (size_t i = 0; i < parts.schedule.items.size(); ++i) {
    loopir::Item& item = parts.schedule.items[i];
    parts.accesses.push_back(loopir::access_of(parts.program, item));
    auto* op = std::get_if<loopir::Extern>(&item);
    if (!op) continue;
    parts.externs.emplace(i, loopir::ExternCall(*op));
    ++parts.statistics.extern_calls;
    parts.statistics.extern_ops.push_back(op->name);
  }
}

/// Throws KernelFailure, Spilled.
std::unique_ptr<Executable> compile_once(Job& job) {
  auto start = std::chrono::steady_clock::now();
  const Given& given = job.given;
  Parts parts;
  parts.device = job.device;
  parts.reuses_memory = given.allow_buffer_reuse;
  if (given.cudagraphs && !job.is_single_op())
    parts.most_branches = static_cast<uint32_t>(given.cuda_branches);
  parts.profiles = given.profile && !job.is_single_op();
  parts.statistics.failed_kernels = job.failed_kernels;

  // Ops become expressions over index variables; what is realised becomes a loop.
  parts.program = lowered(job);

  // Products are the vendor's library's; what no library serves becomes loops, too.
  replace_library_steps(parts.program, {.windows_bytes = given.windows_mb << 20,
                                        .dnn_device = job.is_single_op() ? nullptr : &job.device,
                                        .dnn = dnn_request(job)});
  parts.statistics.loops_before_text = loopir::text_of(parts.program);

  // Loops that share memory become one kernel.
  parts.schedule = loopir::fuse(parts.program, fusion_options(given, job.device));
  if (!job.allows_externs()) require_no_externs(job, parts.schedule);

  // Functions behind a product become a part of it where there is code for both.
  loopir::absorb_epilogues(parts.program, parts.schedule,
                           {.can =
                                [&](const loopir::Item& item) {
                                  return std::holds_alternative<loopir::Product>(item)
                                             ? can_absorb(parts.program, item)
                                             : has_dnn_plan(parts.program, item, job.device,
                                                            dnn_request(job));
                                },
                            .can_move = [](const loopir::Convolution&) { return false; },
                            .rounds_narrow = numerics_of(given).rounds_narrow,
                            .gelu_tanh = true});
  // An optimiser's kernels write the parameters where they lie.
  if (given.inplace_buffers) parts.updates = take_over_inputs(parts.program, parts.schedule);
  parts.written_inputs =
      copy_by_kernels(parts.program, parts.schedule, fusion_options(given, job.device));
  for (const Update& u : parts.updates) parts.written_inputs.push_back(u.input);
  for (const loopir::FusionNote& note : parts.schedule.notes)
    parts.statistics.fusion_text +=
        note.producer + " -> " + note.consumer + ": " + note.verdict + "\n";
  parts.statistics.loops_text = loopir::text_of(parts.program, parts.schedule);
  if (given.verify) loopir::require_sound(loopir::problem_of(parts.program, parts.schedule));

  // Each kernel gets a grid and code; those that need nothing of each other share a launch.
  plan_kernels(job, parts);
  find_setup(job, parts);
  describe_items(parts);
  group_kernels(job, parts);
  parts.library_use = library_use(job);
  if (!job.is_single_op()) begin_products(parts);
  make_kernels(job, parts);
  make_library_items(job.request.ctx, parts);
  parts.statistics.compile_ms = milliseconds_since(start);
  return std::make_unique<Executable>(std::move(parts));
}

// Nodes of a kernel without code go to the host. Each round takes some more, so it ends.
void leave_to_host(const KernelFailure& failure, Job& job) {
  if (failure.nodes.empty() && job.groups_kernels) {  // each member for itself tells which it is
    job.groups_kernels = false;
    return;
  }
  size_t before = job.externs.size();
  job.externs.insert(failure.nodes.begin(), failure.nodes.end());
  if (job.is_single_op() || job.externs.size() == before)
    throw declined(text("kernel {} has no code: {}", failure.kernel, failure.why));
  tenon::plugin::log(TN_LOG_WARN, "inductor",
                     "kernel {} has no code, so the host runs its {} nodes: {}", failure.kernel,
                     failure.nodes.size(), failure.why);
}

}  // namespace

std::unique_ptr<Executable> compile(const tn_compile_request& request, const Machine& machine) {
  Job job{.request = request, .given = Given::read(request), .device = device_of(machine, request)};
  struct Planning {
    ~Planning() { DnnPlans::wait(); }
  } ends_with_the_compile;
  for (;;) try {
      return compile_once(job);
    } catch (const KernelFailure& failure) {
      leave_to_host(failure, job);
      job.narrowed.clear();  // by item of another schedule
      ++job.failed_kernels;
    } catch (const Spilled&) {
      continue;
    } catch (const DnnPlanLost&) {  // the next round knows
      continue;
    }
}

}  // namespace inductor_cuda
