// The tape of a body that is followed, made when somebody looks at it: see autograd/late_nodes.h.
//
// Threads: belongs to the thread of the run.
#pragma once

#include "autograd/late_nodes.h"
#include "capture/follow/walk.h"

#include <span>
#include <vector>

namespace tenon {

class LateTape final : public autograd::LateNodes {
 public:
  explicit LateTape(const Walk& walk) : walk_(walk) {}
  LateTape(const LateTape&) = delete;

  /// The body begins, on this thread.
  void begin();
  /// It is over: nobody will ask.
  void end();
  /// A pass is about to be asked for as a unit.
  bool is_in_pass() const { return is_in_pass_; }
  /// Whether what the next step, or the unit, writes is what a node would have kept as it was.
  bool is_written_by(const CallArgs& call) const;
  bool is_written_by(const Path::Unit& unit) const;

  size_t n_steps() const override { return walk_.at().next_step(); }
  bool take(const OpEntry& op, const VjpPlan& plan, size_t before) override;
  bool is_due(const Tensor& fake) const override;
  void make() override;
  std::optional<autograd::RecordedPass> begin_pass(uint64_t number) override;
  void end_pass(std::span<const Tensor> outputs, bool releases) override;

 private:
  struct Due {
    uint32_t step;
    const VjpPlan* plan;
    bool is_released = false;
  };
  const Tensor* real_of(uint32_t object) const;
  bool is_needed(uint32_t written) const;
  const Tensor& tensor_of(ValueId value) const;
  std::shared_ptr<autograd::Node> make_node(const Path::Step& step, const VjpPlan& plan) const;
  void release(std::span<const Tensor> outputs);
  void forget();

  const Walk& walk_;
  ThreadModes modes_;  // in the body
  bool is_open_ = false, is_in_pass_ = false;
  std::vector<Due> due_;        // in the order of steps
  std::vector<bool> is_named_;  // by object: by a call whose node has not been released
  std::vector<bool> is_made_;   // by object: by any of them
  bool has_numbers_ = false;    // calls have had other numbers than in the recording
};

}  // namespace tenon
