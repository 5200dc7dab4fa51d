// SPDX-License-Identifier: Apache-2.0
// Eager automatic differentiation: grad modes, backward passes, hooks and functions of one's own.
//
//     Tensor w = randn({3, 2}).requires_grad_();
//     Tensor loss = x.matmul(w).relu().sum();
//     loss.backward();                      // w.grad() is d loss / d w
//     Tensor dw = autograd::grad({loss2}, {w}, {.create_graph = true})[0];
//
// Ops on tensors that need a gradient are recorded on a tape, one node an op; a backward pass walks
// it from the last node to the first. Threads: each thread records its own ops; several threads may
// run backward passes at once, also over common nodes, and gradients of common leaves add up.
#pragma once

#include <tenon/tensor.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace tenon {

/// While one lives, ops of this thread are not recorded.
class TENON_API NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;

 private:
  bool before_;
};

/// While one lives, ops of this thread are recorded, also inside a NoGradGuard.
class TENON_API EnableGradGuard {
 public:
  explicit EnableGradGuard(bool enabled = true);
  ~EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;

 private:
  bool before_;
};

/// While one lives, nothing is kept for gradients at all, not even which tensors are views: the
/// cheapest way to run. Views made inside must not be written outside: gradients would not know.
class TENON_API InferenceMode {
 public:
  InferenceMode();
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;

 private:
  uint64_t excluded_;
  bool before_;
};

TENON_API bool is_grad_enabled();

namespace autograd {

class Node;
struct PackedTensor;

/// Gets a gradient and returns what takes its place; undefined keeps it.
using TensorHook = std::function<Tensor(const Tensor& grad)>;
/// Called after the gradient of a leaf was added to its `grad()`.
using PostAccumulateHook = std::function<void(const Tensor& leaf)>;
/// Gets the gradients that go into a node and returns those to take their place; empty keeps them.
using NodePreHook = std::function<std::vector<Tensor>(const std::vector<Tensor>& grads)>;
/// Gets what a node has computed and what went in; returns what takes the place of the outputs,
/// empty keeps them.
using NodePostHook = std::function<std::vector<Tensor>(const std::vector<Tensor>& outputs,
                                                       const std::vector<Tensor>& inputs)>;

/// Takes a hook away again. Letting go of the handle does not: the hook stays with its tensor.
class TENON_API HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

namespace detail {
template <class F, class... A>
auto returning_tensor(F f) {
  return [f = std::move(f)](const A&... a) mutable {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const A&...>>) {
      f(a...);
      return Tensor();
    } else {
      return Tensor(f(a...));
    }
  };
}
TENON_API HookHandle add_tensor_hook(const Tensor& t, TensorHook hook);
}  // namespace detail

/// Calls `f(gradient)` whenever the gradient of `t` is computed, before it goes on; what it returns
/// (if not void, and defined; of its shape) takes its place. It must not write its argument.
template <class F>
HookHandle register_hook(const Tensor& t, F f) {
  return detail::add_tensor_hook(t, detail::returning_tensor<F, Tensor>(std::move(f)));
}
/// Calls `hook(leaf)` after each backward pass that has added to `leaf.grad()`.
TENON_API HookHandle register_post_accumulate_grad_hook(const Tensor& leaf,
                                                        PostAccumulateHook hook);

/// The node of the tape that made a tensor. A handle; empty for leaves.
class TENON_API GradFn {
 public:
  GradFn() = default;
  explicit GradFn(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  explicit operator bool() const { return node_ != nullptr; }
  /// "MulBackward", "AccumulateGrad", the name of a Function.
  std::string name() const;
  /// The nodes that its gradients go to; empty handles where an argument needs none.
  std::vector<GradFn> next_functions() const;
  HookHandle register_prehook(NodePreHook hook) const;
  HookHandle register_hook(NodePostHook hook) const;
  const std::shared_ptr<Node>& node() const { return node_; }

 private:
  std::shared_ptr<Node> node_;
};
TENON_API GradFn grad_fn(const Tensor& t);

struct BackwardOptions {
  /// One for each output, undefined for 1 where the output has one element; or none at all.
  std::vector<Tensor> grad_outputs = {};
  /// Keep the tape for another pass; unset: what create_graph says.
  std::optional<bool> retain_graph = {};
  /// Record the backward pass itself, for derivatives of gradients.
  bool create_graph = false;
  /// grad(): give an undefined tensor for an input that the outputs do not depend on, instead of an
  /// error.
  bool allow_unused = false;
};

/// Adds the gradients of the sum of `outputs` to `grad()` of the leaves; of `inputs` only, where
/// some are given. Throws UserError when an output needs no gradient or its tape is gone.
TENON_API void backward(const std::vector<Tensor>& outputs, const BackwardOptions& options = {},
                        const std::vector<Tensor>& inputs = {},
                        std::source_location where = std::source_location::current());
/// The gradients of `inputs`, without touching any `grad()`.
TENON_API std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& inputs,
                                   const BackwardOptions& options = {},
                                   std::source_location where = std::source_location::current());

/// Runs `callback` at the end of the backward pass that this thread is in. Throws UserError outside
/// of one.
TENON_API void queue_callback(std::function<void()> callback);

// ---- what is saved

/// While one lives, tensors that nodes of this thread save go through `pack` when they are saved
/// and `unpack` when they are used: to keep them elsewhere, or smaller.
class TENON_API SavedTensorHooks {
 public:
  using Pack = std::function<std::shared_ptr<void>(const Tensor&)>;
  using Unpack = std::function<Tensor(const std::shared_ptr<void>&)>;
  SavedTensorHooks(Pack pack, Unpack unpack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
};

/// Runs `f` without keeping what its backward needs, and runs it again in the backward pass. The
/// random numbers of both runs are the same. `f` must not change anything outside. What it writes
/// after it was saved for the backward is refused there, as without a checkpoint. A compiled body with
/// one is recorded on every call: leave it out there, and see <tenon/memory_budget.h>.
TENON_API std::vector<Tensor> checkpoint(
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f,
    const std::vector<Tensor>& inputs);

// ---- functions with a derivative of one's own

/// What a Function keeps between forward and backward.
class TENON_API Context {
 public:
  void save_for_backward(std::vector<Tensor> tensors);
  /// Throws UserError when one was written since, or the tape was freed.
  std::vector<Tensor> saved_tensors() const;
  /// This input was written by forward.
  void mark_dirty(std::vector<Tensor> inputs) { dirty_ = std::move(inputs); }
  /// These results never need a gradient.
  void mark_non_differentiable(std::vector<Tensor> results) { fixed_ = std::move(results); }
  /// false: backward gets undefined tensors for results that no gradient reached, instead of zeros.
  void set_materialize_grads(bool value) { materialize_ = value; }
  bool needs_input_grad(size_t i) const { return needs_.at(i); }
  std::shared_ptr<void> user;  ///< whatever forward wants to hand to backward

 private:
  friend struct FunctionRunner;
  friend class FunctionNode;
  std::vector<Tensor> to_save_, dirty_, fixed_;
  std::vector<bool> needs_;
  bool materialize_ = true;
  Node* node_ = nullptr;
};

namespace detail {
using FunctionForward = std::function<std::vector<Tensor>(Context&, const std::vector<Tensor>&)>;
using FunctionBackward = std::function<std::vector<Tensor>(Context&, std::vector<Tensor>)>;
TENON_API std::vector<Tensor> apply_function(std::string name, const std::vector<Tensor>& inputs,
                                             const FunctionForward& forward,
                                             FunctionBackward backward);
TENON_API std::string type_name(const std::type_info& type);
}  // namespace detail

/// A function whose derivative is written by hand:
///
///     struct Clip : autograd::Function<Clip> {
///       static std::vector<Tensor> forward(autograd::Context& c, const std::vector<Tensor>& in);
///       static std::vector<Tensor> backward(autograd::Context& c, std::vector<Tensor> grads);
///     };
///     Tensor y = Clip::apply({x})[0];
///
/// `backward` returns one gradient for each input, undefined where there is none. `forward` runs
/// without recording.
template <class Self>
struct Function {
  static std::vector<Tensor> apply(const std::vector<Tensor>& inputs) {
    static_assert(std::is_convertible_v<decltype(&Self::forward), detail::FunctionForward>,
                  "autograd::Function: forward must be static std::vector<Tensor> "
                  "forward(autograd::Context&, const std::vector<Tensor>&)");
    static_assert(std::is_convertible_v<decltype(&Self::backward), detail::FunctionBackward>,
                  "autograd::Function: backward must be static std::vector<Tensor> "
                  "backward(autograd::Context&, std::vector<Tensor>)");
    return detail::apply_function(detail::type_name(typeid(Self)), inputs, &Self::forward,
                                  &Self::backward);
  }
};

// ---- finding mistakes

/// While one lives, nodes remember the calls that made them, and a backward pass that computes a
/// NaN stops and names the op. Slow.
class TENON_API DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true);
  ~DetectAnomalyGuard();
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;

 private:
  bool before_, nan_before_;
};

struct GradCheckOptions {
  double eps = 1e-6, atol = 1e-5, rtol = 1e-3;
  bool second_order = false;  ///< also the derivative of the gradients
};
/// Compares the gradients of `f` at `inputs` (f64) with central differences. Returns an empty text
/// when they agree, else which element differs and by how much.
TENON_API std::string grad_check(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
    const std::vector<Tensor>& inputs, const GradCheckOptions& options = {});

}  // namespace autograd
}  // namespace tenon
