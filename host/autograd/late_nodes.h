// Nodes that a tape gets later: those of a body that is followed.
//
// Problem: a body that calls backward() goes through a tape of its own in each call, and throws it
// away. All that most bodies ask of it are the passes that their recording had, too. Model: what a
// tape is follows from the operations that the body has done, which have been compared, and from its
// leaves. So calls only note that a node is due; a pass that the recording has at that place, over
// leaves that are as they were, is done without a walk. Whoever looks at the tape, adds to it, or
// changes what a node would have kept, makes all of the nodes first, in order; from then on the
// nodes of the run are made at once.
//
// Threads: belongs to the thread of the run.
#pragma once

#include "autograd/vjp_plan.h"
#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"

#include <optional>
#include <span>
#include <vector>

namespace tenon::autograd {

/// A pass that a recording has.
struct RecordedPass {
  std::span<const uint64_t> facts, notes;
  std::vector<Tensor> tensors;    ///< those of this run; undefined where that is not known
  std::vector<uint32_t> to_come;  ///< which of them the run has yet to name
};

class LateNodes {
 public:
  /// How many operations the run has done.
  virtual size_t n_steps() const = 0;
  /// Whether the call that has just run is one operation; then it gets its node later. `before`:
  /// n_steps() as it began.
  virtual bool take(const OpEntry& op, const VjpPlan& plan, size_t before) = 0;
  /// Whether the node that has made a fake is due.
  virtual bool is_due(const Tensor& fake) const = 0;
  /// Makes all that are due; there are none any more.
  virtual void make() = 0;
  /// The unit of this number that the recording has next, if it is what comes next; it is about to be
  /// asked for.
  virtual std::optional<RecordedPass> begin_pass(uint64_t number) = 0;
  /// It is done; `releases`: nodes have let go of what they keep.
  virtual void end_pass(std::span<const Tensor> outputs, bool releases) = 0;

 protected:
  ~LateNodes() = default;
};

/// Of the body that this thread follows, while its nodes may come late; else null.
extern thread_local constinit LateNodes* late_nodes;

/// Whether the tensor has a history whose node is due. What has one has no state.
inline bool has_late_node(const Tensor& t) {
  if (!late_nodes || !t.is_fake()) return false;
  const TensorImpl* impl = impl_of(t);
  return !impl->grad && (impl->flags & TN_T_REQUIRES_GRAD) && late_nodes->is_due(t);
}

}  // namespace tenon::autograd
