// The streams of a backward pass.
//
// Problem: work that was recorded on several streams of a device shall go backwards on the same
// ones, and whoever asked for the pass finds its results on his own. Model: a node runs under the
// streams that were current when it was recorded. A gradient goes from the stream of the node that
// made it to that of the node that takes it, which waits for it, and only for it: branches that ran
// side by side do so again. Method: a stream is made to wait for the caller's when a pass first
// comes to it, for its gradients when they are handed over, and the caller's streams wait for all of
// them at the end. Cost: nothing until the process has chosen a stream; then an event a hand-over
// between streams. Source: PyTorch's engine.
#pragma once

#include "autograd/node.h"
#include "core/device/stream_choice.h"

#include <vector>

namespace tenon::autograd {

/// Threads: one. Everything throws what the device throws.
class PassStreams {
 public:
  PassStreams();
  ~PassStreams();  ///< where a pass ends early
  PassStreams(const PassStreams&) = delete;

  /// Whether streams matter at all; else the functions below do nothing.
  bool are_chosen() const { return chosen_; }
  /// Whether the node runs under other streams than the caller's.
  bool is_elsewhere(const Node& node) const;
  /// Makes the node's streams current, behind what the caller has enqueued so far.
  StreamChoiceScope enter(const Node& node);
  /// A gradient that `from` made, or the caller where it is null, may be used by `to`.
  void hand_over(const Tensor& grad, const Node* from, const Node& to);
  /// A gradient that `from` made may be used by the caller once the pass is over.
  void give_to_caller(const Tensor& grad, const Node& from);
  /// The caller's streams wait for all others that were used.
  void finish();

 private:
  bool chosen_;
  StreamChoicePtr callers_;
  std::vector<Stream> used_;
};

}  // namespace tenon::autograd
