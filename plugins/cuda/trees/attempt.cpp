// Recording a function: its launches under capture, the plan, and what decides that it is not kept.
#include "attempt.h"

#include "again.h"

#include <tenon/cuda.h>

#include <algorithm>
#include <cstring>

namespace tenon::cuda::trees {

using plugin::error;
using plugin::host;
using plugin::sv;
using plugin::tensor;
using plugin::text;
using Way = InputPlan::Way;

namespace {

constexpr size_t staged_bytes = 1 << 20;  // larger inputs are copied after as many addresses:
constexpr uint64_t addresses_to_try = 4;
constexpr int most_rounds = 3;

bool is_on_cpu(const tn_tensor* t) { return t->device_type == TN_DEV_CPU; }

class Recorder {
 public:
  Recorder(Manager& manager, const Description& about, Variant& variant, const tn_call& call)
      : manager_(manager), gpu_(manager.gpu()), about_(about), variant_(variant), call_(call) {}

  // Each round takes the draws of the one before it: together they are one call.
  Attempt attempt(std::vector<Draw> drawn) {
    for (int round = 0; round < most_rounds; ++round) {
      DrawAgain again(std::move(drawn));
      bool is_done = record_once();
      std::ranges::copy(DrawAgain::left(), std::back_inserter(out_.draws));
      if (is_done) return std::move(out_);
      drawn = out_.draws;
    }
    out_.why = {"capture_failed", "each recording wants other inputs to be copied"};
    return std::move(out_);
  }

 private:
  // False: inputs have to be copied that were not, so it is to be recorded again.
  bool record_once() {
    out_ = {};
    results_.clear();
    trims_ = manager_.arena().trims();
    std::unique_ptr<Graph> graph = capture();
    if (!graph) return true;
    try {
      Plan plan = planned(*graph);
      bool is_done = !stage_more(plan);
      results_.clear();
      staged_.clear();
      if (!is_done) return free_now(), false;
      finish(std::move(graph), std::move(plan));
    } catch (const Unrecordable& e) {
      fail({e.id, e.what()});
    } catch (const error& e) {
      fail({e.code == TN_OUT_OF_MEMORY ? "memory" : "capture_failed", e.what()});
    }
    return true;
  }

  void fail(Reason why) {
    results_.clear();
    staged_.clear();
    out_.recorded = nullptr;
    out_.why = std::move(why);
    free_now();
  }
  // Nothing was enqueued that could still use it.
  void free_now() {
    for (auto [memory, bytes] : out_.freed) gpu_.release(memory, bytes, call_.stream);
    out_.freed.clear();
  }

  // ---- the capture

  HostSources sources() const {
    HostSources out;
    for (uint32_t i = 0; i < call_.n_inputs; ++i)
      if (call_.inputs[i] && is_on_cpu(call_.inputs[i])) out.numbers.push_back(call_.inputs[i]);
    for (const tensor& t : about_.constants)
      if (is_on_cpu(t.get())) out.constants.push_back(t.get());
    return out;
  }

  std::unique_ptr<Graph> capture() {
    std::optional<Reason> why;
    try {
      Recording recording(gpu_, manager_.arena(), call_.stream, sources());
      try {
        run_function();
        Captured captured = recording.finish();
        out_.draws = captured.draws;
        out_.freed = std::exchange(captured.freed, {});
        return std::make_unique<Graph>(gpu_, std::move(captured));
      } catch (const error& e) {
        recording.give_up({"capture_failed", e.what()});
        why = recording.why_not();
        out_.draws = recording.draws();
        results_.clear();
        staged_.clear();
      }
    } catch (const error& e) {
      why = Reason{"capture_failed", e.what()};
    }
    out_.why = *why;
    return nullptr;
  }

  void run_function() {
    inputs_.assign(call_.inputs, call_.inputs + call_.n_inputs);
    staged_.clear();
    for (uint32_t i = 0; i < call_.n_inputs; ++i) {
      if (!variant_.staged[i]) continue;
      const tn_tensor* t = call_.inputs[i];
      staged_.push_back(tensor::strided(plugin::sizes(t), plugin::strides(t), t->dtype, TN_DEV_CUDA,
                                        gpu_.index()));
      inputs_[i] = staged_.back().get();
    }
    std::vector<tn_tensor*> outputs(call_.n_outputs);
    tn_call inner = call_;
    inner.flags &= ~uint32_t{TN_CALL_STEAL_INPUTS};  // they are read again, by the first run
    inner.inputs = inputs_.data();
    inner.outputs = outputs.data();
    tn_status* status = about_.launch(about_.self, &inner);
    if (!status)
      for (tn_tensor* t : outputs) results_.emplace_back(t);
    plugin::check(status);
  }

  // ---- the plan

  Plan planned(const Graph& graph) const {
    std::vector<tn_tensor*> results;
    for (const tensor& t : results_) results.push_back(t.get());
    auto staged = std::make_unique<bool[]>(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) staged[i] = variant_.staged[i] != 0;
    return plan_recording({.captured = graph.captured(),
                           .inputs = inputs_,
                           .outputs = results,
                           .input_flags = about_.input_flags,
                           .output_flags = about_.output_flags,
                           .keeps_results = about_.outputs == TN_CUDA_OUTPUTS_POOL,
                           .constants = about_.constants,
                           .staged = {staged.get(), inputs_.size()}});
  }

  // Inputs that would have to stay where they are, but will not.
  bool stage_more(const Plan& plan) {
    bool has_more = false;
    for (uint32_t i = 0; i < inputs_.size(); ++i) {
      uint32_t flags = about_.input_flags[i];
      if (plan.inputs[i].way != Way::fixed || (flags & TN_CUDA_INPUT_STATIC)) continue;
      bool is_managed = manager_.arena().contains(call_.inputs[i]->data);
      bool is_small = span_bytes(call_.inputs[i]) <= staged_bytes && !is_managed;
      if (!is_small && variant_.made < addresses_to_try) continue;
      if (flags & TN_CUDA_INPUT_WRITTEN) continue;
      variant_.staged[i] = 1;
      has_more = true;
    }
    return has_more;
  }

  void finish(std::unique_ptr<Graph> graph, Plan plan) {
    if (graph->nodes() < about_.min_nodes)
      return fail({"too_small", text("it has {} nodes, fewer than cudagraph_min_partition_size",
                                     graph->nodes())});
    out_.runs_once = is_held_elsewhere(graph->captured()) || uses_freed(graph->captured());
    out_.why = {"capture_failed", "memory that it works on is kept by somebody else"};
    if (out_.runs_once) write_where_recorded(plan);
    if (about_.flags & TN_CUDA_FN_CHECKED) check_book(plan);
    graph->instantiate(plan.points, plan.bases);
    out_.recorded = std::make_unique<Recorded>(manager_, std::move(graph), std::move(plan), trims_);
  }

  // Who keeps memory of the recording may keep that of a result: it is written there, and copied.
  void write_where_recorded(Plan& plan) const {
    for (SlotPlan& slot : plan.slots) {
      slot.is_managed = slot.is_lent = false;
      slot.is_copied = slot.bytes != 0;
    }
    std::erase_if(plan.points, [&](const PatchPoint& p) { return p.place >= inputs_.size(); });
  }

  // Results and temporaries are gone by now: who still has memory of the recording keeps it.
  bool is_held_elsewhere(const Captured& captured) const {
    return std::ranges::any_of(captured.allocations, [&](const Allocation& a) {
      return a.died == SIZE_MAX && !manager_.arena().are_free({&a.range, 1});
    });
  }
  bool uses_freed(const Captured& captured) const {
    for (const Note& note : captured.notes)
      for (uint32_t at : note.addresses) {
        api::Address a;
        std::memcpy(&a, note.words.data() + at, sizeof a);
        for (auto [memory, bytes] : out_.freed) {
          auto begin = reinterpret_cast<api::Address>(memory);
          if (Range{begin, begin + bytes}.holds(a)) return true;
        }
      }
    return false;
  }

  void check_book(const Plan& plan) const {
    std::vector<Range> written;  // what others keep, they hold
    if (!out_.runs_once) written = plan.footprint;
    std::string_view fault = manager_.arena().fault(written);
    if (!fault.empty()) throw error(TN_INTERNAL, std::string(fault));
  }

  Manager& manager_;
  Gpu& gpu_;
  const Description& about_;
  Variant& variant_;
  const tn_call& call_;
  Attempt out_;
  uint64_t trims_ = 0;
  std::vector<tn_tensor*> inputs_;
  std::vector<tensor> staged_, results_;
};

}  // namespace

Attempt attempt_recording(Manager& manager, const Description& about, Variant& variant,
                          const tn_call& call, std::vector<Draw> drawn) {
  return Recorder(manager, about, variant, call).attempt(std::move(drawn));
}

}  // namespace tenon::cuda::trees
