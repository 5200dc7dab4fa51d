// What follows the gradient of a leaf and is made of ops alone: the step of an optimiser.
//
// A post-accumulate hook is a function, which a compiled pass can only call. An update says what it
// reads and writes, so that a pass may record it on fakes and run it as code of its own.
#pragma once

#include <tenon/autograd.h>

namespace tenon::autograd {

class LeafUpdate {
 public:
  virtual ~LeafUpdate() = default;
  /// Equal where `run` calls the same ops; of one that is gone, never used again. 0: `run` may do
  /// something else each time, so that it is called.
  virtual uint64_t kind() const = 0;
  /// What `run` reads or writes besides the leaf and its gradient.
  virtual size_t n_tensors() const = 0;
  virtual const Tensor& tensor(size_t i) const = 0;
  /// Writes the leaf and some of `tensors`, which are those above or stand for them; without a look
  /// at data. Gradients are off.
  virtual void run(const Tensor& leaf, const Tensor& grad,
                   const std::vector<Tensor>& tensors) const = 0;
};

/// Runs the update after each backward pass that has computed a gradient for `leaf`; the gradient
/// is dropped then.
HookHandle update_after_accumulate(const Tensor& leaf, std::shared_ptr<const LeafUpdate> update);

}  // namespace tenon::autograd
