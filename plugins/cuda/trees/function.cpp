// What a call of a recorded function does.
//
// Problem: launching a compiled graph kernel by kernel costs the host more time than the kernels
// take; a recorded graph is one launch, but it writes where it wrote when it was recorded, and its
// inputs lie elsewhere at each call.
//
// Model: all recordings of a thread and device work in one arena whose addresses stay. What a
// tensor holds there is in the arena's book. A recording is made in what is free at that moment,
// and may run whenever all that it writes is free again: no more has to be known of what ran
// before. So recordings whose results are not alive together overlap, and a forward that runs twice
// before its backwards has two recordings beside each other. Results of the user's are no part of
// this: their nodes are changed to write into new memory.
//
// Method: calls of one signature share recordings; plan.h says what each run changes. What cannot be
// recorded, or fails, runs directly, and its reason is counted.
//
// Cost: a replay compares the signature, looks a few ranges up in the book, changes the nodes whose
// addresses moved (0.3 us each) and launches; memory is what is alive together, not its sum.
#include <tenon/plugin.hpp>
#include <tenon/thread_object.hpp>

#include "function.h"

#include "again.h"
#include "signature.h"

#include <algorithm>
#include <cstring>

namespace tenon::cuda::trees {

using plugin::error;
using plugin::host;
using plugin::tensor;
using plugin::text;
using Way = InputPlan::Way;

namespace {

constexpr size_t most_kept = 16;  // recordings of a variant
constexpr uint32_t failures_to_stop = 3;

bool is_on_cpu(const tn_tensor* t) { return t->device_type == TN_DEV_CPU; }

}  // namespace

/// One call on its way.
struct Function::Call {
  tn_call& c;
  Manager& manager;
  Share& share;
  Variant* variant = nullptr;
  std::unique_lock<std::mutex> lock;
  std::string why_recorded;  // empty: it is the first

  std::span<tn_tensor* const> inputs() const { return {c.inputs, c.n_inputs}; }
};

Function::Function(const tn_cuda_function_info& info)
    : about_(Description::read(info)), gpu_(gpu_at(info.device)) {}

Function::~Function() {
  reset();
  if (about_.drop) about_.drop(about_.self);
}

void Function::reset() {
  std::lock_guard sharing(sharing_);
  for (Share& share : shares_) {
    std::lock_guard lock(share.manager->using_it);
    share.variants.clear();
    share.dropped = 0;
  }
}

// ---- which way a call goes

void Function::run(tn_call& call) {
  if (Recording::is_under_way()) return launch(call);  // a part of another function's recording
  if (call.n_inputs != about_.input_flags.size() || call.n_outputs != about_.output_flags.size())
    throw error(TN_INVALID_ARGUMENT, text("{} takes {} inputs and gives {} outputs", about_.name,
                                          about_.input_flags.size(), about_.output_flags.size()));
  if (call.flags & TN_CALL_OUTPUTS_GIVEN) return launch(call);
  Manager* manager = nullptr;
  try {
    manager = &Manager::mine(gpu_, about_.arena_bytes);
  } catch (const error& e) {
    return run_directly(call, {"memory", e.what()});
  }
  Call one{.c = call, .manager = *manager, .share = share_of(*manager), .lock = {}};
  if (std::optional<Reason> why = why_direct(one)) return run_directly(call, *why);
  one.lock = std::unique_lock(manager->using_it);
  manager->lent().begin(about_.name, one.inputs());
  run_or_record(one);
  if (about_.flags & TN_CUDA_FN_SYNC) {
    gpu_.bind();
    StreamUse use(call.stream);
    CU_TRY(gpu_, "waiting for a recording", cuStreamSynchronize, gpu_.handle_of(call.stream));
  }
}

std::optional<Reason> Function::why_direct(const Call& call) const {
  if (about_.flags & TN_CUDA_FN_DIRECT) return Reason{"disabled", "an option turns it off"};
  if (!call.c.stream) return Reason{"capture_failed", "the call has no stream"};
  std::span<const int64_t> syms(call.c.syms, call.c.n_syms);
  if ((about_.flags & TN_CUDA_FN_NOT_DYNAMIC) && !syms.empty())
    return Reason{"dynamic_shapes", "it has symbols, and cudagraph_skip_dynamic_graphs is on"};
  bool is_listed = about_.capture_sizes.empty() ||
                   std::ranges::any_of(about_.capture_sizes, [&](const auto& tuple) {
                     return std::ranges::equal(tuple, syms);
                   });
  if (!is_listed)
    return Reason{"dynamic_shapes", "cudagraph_capture_sizes does not list its sizes"};
  for (uint32_t i = 0; i < call.c.n_inputs; ++i) {
    const tn_tensor* t = call.c.inputs[i];
    if (!t) continue;
    const std::string& name = about_.input_names[i];
    if (is_on_cpu(t) && (t->ndim > 0 || !(about_.input_flags[i] & TN_CUDA_INPUT_NUMBER)))
      return Reason{"cpu_node", text("input {} ({}) is on the CPU", i, name)};
    if (!is_on_cpu(t) && std::max(t->device_index, 0) != gpu_.index())
      return Reason{"multiple_devices",
                    text("input {} ({}) is on cuda:{}", i, name, t->device_index)};
    bool is_managed_write = (about_.flags & TN_CUDA_FN_NO_MANAGED_WRITES) &&
                            (about_.input_flags[i] & TN_CUDA_INPUT_WRITTEN) &&
                            call.manager.arena().contains(t->data);
    if (is_managed_write)
      return Reason{"mutated_inputs", text("input {} ({}) is a result of another recording and is "
                                           "written to",
                                           i, name)};
  }
  return std::nullopt;
}

bool Function::wants_warm_up(const Variant& variant) const {
  bool at_once =
      (about_.flags & TN_CUDA_FN_RECORD_AT_ONCE) && !(about_.flags & TN_CUDA_FN_FORCE_WARMUP);
  return variant.calls == 0 && !at_once;
}

void Function::run_or_record(Call& call) {
  Variant* variant = call.variant = variant_for(call);
  if (!variant)
    return give_up(call, {"dynamic_shapes",
                          text("it has had more than {} tuples of sizes", about_.max_sizes)});
  if (variant->why_direct) return give_up(call, *variant->why_direct);
  if (wants_warm_up(*variant)) {
    ++variant->calls;
    ++statistics_.warm_ups;
    call.lock.unlock();
    plugin::log(TN_LOG_INFO, "cudagraphs", "{} runs directly: its first call of these sizes",
                about_.name);
    return launch(call.c);
  }
  ++variant->calls;
  if (!replay(call)) record(call);
}

// Behind what read the arena's memory, if anything did.
void Function::run_directly(tn_call& call, const Reason& why) {
  note_skip(about_.name, why, {}, {});
  statistics_.add_direct(why);
  if (about_.flags & TN_CUDA_FN_OR_ERROR)
    throw error(TN_FAILED_PRECONDITION,
                text("{} is not recorded: {}: {}; cudagraph_or_error makes that an error",
                     about_.name, why.id, why.sentence));
  launch(call);
}

void Function::give_up(Call& call, Reason why) {
  Manager& manager = call.manager;
  bool reads_arena = std::ranges::any_of(
      call.inputs(), [&](const tn_tensor* t) { return t && manager.arena().contains(t->data); });
  call.lock.unlock();
  run_directly(call.c, why);
  if (!reads_arena) return;
  std::lock_guard lock(manager.using_it);
  StreamUse use(call.c.stream);
  manager.mark_last(call.c.stream);
}

// ---- shares and variants

Function::Share& Function::share_of(Manager& manager) {
  for (Share* s = newest_.load(std::memory_order_acquire); s; s = s->older)
    if (s->manager == &manager) return *s;
  std::lock_guard lock(sharing_);
  Share& made = shares_.emplace_back(Share{&manager, {}, 0, newest_.load()});
  newest_.store(&made, std::memory_order_release);
  return made;
}

Variant* Function::variant_for(Call& call) {
  struct Signature {
    std::vector<int64_t> words;
  };
  std::vector<int64_t>& signature = ThreadObject<Signature>::get().words;
  write_signature(call.c, about_.input_flags, signature);
  auto& variants = call.share.variants;
  for (auto at = variants.begin(); at != variants.end(); ++at)
    if ((*at)->signature == signature) {
      variants.splice(variants.begin(), variants, at);
      return variants.front().get();
    }
  if (call.share.dropped >= about_.max_sizes) return nullptr;
  variants.push_front(std::make_unique<Variant>());
  variants.front()->signature = signature;
  variants.front()->staged.assign(call.c.n_inputs, 0);
  limit_sizes(call.share);
  return variants.front().get();
}

void Function::limit_sizes(Share& share) {
  if (share.variants.size() == about_.size_warn_limit + 1 && share.dropped == 0)
    plugin::log(TN_LOG_WARN, "cudagraphs",
                "{} is recorded for more than {} tuples of sizes; each takes memory and time: mark "
                "fewer sizes dynamic, or pad to a few",
                about_.name, about_.size_warn_limit);
  if (share.variants.size() <= about_.max_sizes) return;
  share.variants.pop_back();
  ++share.dropped;
}

// ---- replaying

bool Function::replay(Call& call) {
  Variant& v = *call.variant;
  using Kind = Recorded::Verdict::Kind;
  for (const auto& recorded : v.recordings) {
    Recorded::Verdict verdict = recorded->fits(call.inputs());
    if (verdict.kind == Kind::fits) {
      run_recorded(call, *recorded);
      return true;
    }
    if (recorded == v.recordings.back()) note_unfit(call, verdict);
  }
  return false;
}

// Parameters that were replaced are no sign of a function that is never recorded for good.
void Function::note_unfit(Call& call, const Recorded::Verdict& verdict) const {
  using Kind = Recorded::Verdict::Kind;
  if (verdict.kind == Kind::memory_in_use) {
    call.why_recorded = "results of an earlier run are still held";
    return;
  }
  call.why_recorded =
      text("input {} ({}) {}", verdict.input, about_.input_names[verdict.input],
           verdict.kind == Kind::input_moved ? "has another address" : "is aligned to fewer bytes");
  if (about_.input_flags[verdict.input] & TN_CUDA_INPUT_STATIC) ++call.variant->made_for_statics;
}

// What failed before it was enqueued has changed nothing; nor has what only writes results.
void Function::run_recorded(Call& call, Recorded& recorded) {
  bool has_run = false, is_new = recorded.replays == 0;
  uint64_t changed = recorded.graph().patches();
  recorded.last_used = call.variant->calls;
  try {
    recorded.run(call.inputs(), call.c.stream, {call.c.outputs, call.c.n_outputs}, has_run);
  } catch (const error& e) {
    bool writes = std::ranges::any_of(about_.input_flags,
                                      [](uint32_t f) { return f & TN_CUDA_INPUT_WRITTEN; });
    if ((has_run && writes) || gpu_.is_lost()) throw;
    DrawAgain again(recorded.draws());
    Reason why{e.code == TN_OUT_OF_MEMORY ? "memory" : "capture_failed", e.what()};
    std::erase_if(call.variant->recordings, [&](const auto& r) { return r.get() == &recorded; });
    if (++call.variant->failures >= failures_to_stop) call.variant->why_direct = why;
    return give_up(call, std::move(why));
  }
  if (!is_new) {
    ++statistics_.replays;
    plugin::log(TN_LOG_INFO, "cudagraphs", "{} is replayed ({} nodes, {} of them changed)",
                about_.name, recorded.graph().nodes(), recorded.graph().patches() - changed);
  }
  for (uint32_t i = 0; i < call.c.n_inputs; ++i)
    if (call.c.inputs[i] && (about_.input_flags[i] & TN_CUDA_INPUT_WRITTEN))
      note_write(call.c.inputs[i]);
}

// ---- recording

void Function::record(Call& call) {
  Variant& v = *call.variant;
  if (v.made - std::min(v.made, v.made_for_statics) > about_.rerecord_limit) {
    v.why_direct = {"rerecord_limit",
                    text("it was recorded {} times; the last time {}", v.made, call.why_recorded)};
    return give_up(call, *v.why_direct);
  }
  if (call.why_recorded.empty()) call.why_recorded = "the first recording";
  Attempt attempt = attempt_recording(call.manager, about_, v, call.c);
  if (!attempt.recorded && attempt.why.id == "memory" && v.failures == 0) {
    gpu_.trim();  // what nobody holds may be enough
    attempt = attempt_recording(call.manager, about_, v, call.c, std::move(attempt.draws));
  }
  if (!attempt.recorded) {
    bool is_for_good = attempt.why.id != "memory" && attempt.why.id != "capture_failed";
    if (is_for_good || ++v.failures >= failures_to_stop) v.why_direct = attempt.why;
    DrawAgain again(std::move(attempt.draws));
    return give_up(call, std::move(attempt.why));
  }
  ++v.made;
  ++statistics_.recordings;
  if (v.made > 1) statistics_.add_rerecord(call.why_recorded);
  plugin::log(TN_LOG_INFO, "cudagraphs", "{} is recorded ({} nodes): {}", about_.name,
              attempt.recorded->graph().nodes(), call.why_recorded);
  attempt.recorded->why = call.why_recorded;
  attempt.recorded->poisons = about_.flags & TN_CUDA_FN_POISON;
  bool keeps_results = about_.outputs == TN_CUDA_OUTPUTS_POOL;
  attempt.recorded->precedes_backward = keeps_results && (about_.flags & TN_CUDA_FN_FORWARD);
  attempt.recorded->made_by = about_.output_names;
  v.recordings.push_back(std::move(attempt.recorded));
  run_recorded(call, *v.recordings.back());
  for (auto [memory, bytes] : attempt.freed) gpu_.release(memory, bytes, call.c.stream);
  if (!call.lock.owns_lock()) return;  // it ran directly in the end
  if (attempt.runs_once) {
    v.recordings.pop_back();
    if (++v.failures >= failures_to_stop) v.why_direct = attempt.why;
  }
  if (v.recordings.size() > most_kept)
    v.recordings.erase(
        std::ranges::min_element(v.recordings, {}, [](const auto& r) { return r->last_used; }));
}

}  // namespace tenon::cuda::trees
