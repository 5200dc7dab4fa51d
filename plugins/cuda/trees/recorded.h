// One recording of a function: when it may run, and running it.
#pragma once

#include "manager.h"
#include "plan.h"

namespace tenon::cuda::trees {

/// Threads: its manager's lock.
class Recorded {
 public:
  Recorded(Manager& manager, std::unique_ptr<Graph> graph, Plan plan, uint64_t trims);

  /// Whether it may run with these inputs now: they are where they have to be, and what it writes
  /// is free. `why_not` says which input or what memory stands against it.
  struct Verdict {
    enum class Kind { fits, input_moved, input_unaligned, memory_in_use } kind = Kind::fits;
    uint32_t input = 0;
  };
  Verdict fits(std::span<tn_tensor* const> inputs) const;

  /// Enqueues it and gives its results, which are new references. Throws, and then leaves `outputs`
  /// as they are; `has_run` tells whether it was enqueued before that.
  void run(std::span<tn_tensor* const> inputs, tn_stream* stream, std::span<tn_tensor*> outputs,
           bool& has_run);

  /// What the last run has drawn.
  const std::vector<Draw>& draws() const { return draws_; }
  const Plan& plan() const { return plan_; }
  const Graph& graph() const { return *graph_; }
  uint64_t replays = 0, last_used = 0;
  bool poisons = false;
  bool precedes_backward = false;    ///< its saved values keep results of the pool
  std::vector<std::string> made_by;  ///< by output: the op and the source line
  std::string why;                   ///< it was made

 private:
  void make_results(std::span<tn_tensor* const> inputs);
  plugin::tensor made_slot(const SlotPlan& slot);
  plugin::tensor lent_slot(const SlotPlan& slot);
  plugin::tensor made_output(const OutputPlan& output, std::span<tn_tensor* const> inputs,
                             const std::vector<plugin::tensor>& slots);
  std::unique_lock<std::mutex> hold_pages();
  bool uses_arena(std::span<tn_tensor* const> inputs) const;
  void stage(std::span<tn_tensor* const> inputs, tn_stream* stream);
  void write_numbers(std::span<tn_tensor* const> inputs);
  void draw();
  void copy_results(const std::vector<plugin::tensor>& slots, tn_stream* stream);
  void poison(tn_stream* stream);

  Manager& manager_;
  std::unique_ptr<Graph> graph_;
  Plan plan_;
  uint64_t trims_;
  bool has_staged_ = false;
  std::vector<Draw> draws_;
  std::vector<plugin::tensor> slots_, made_;  // of the run under way; members keep their memory
};

}  // namespace tenon::cuda::trees
