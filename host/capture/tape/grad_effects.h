// Bodies that call backward(): what they do to the gradients of leaves.
//
// Problem: `opt.zero_grad(); loss.backward(); opt.step();` in a compiled body reads and replaces
// the `grad()` of captured tensors, which is not a value of the graph. Model: the body is recorded
// through the tape, whose passes are recorded like all else. The first time that the gradient of a
// leaf is touched, what it was is set aside; afterwards the leaf has it again, and what the body
// left there is an output of the graph, to be put there after each run. A gradient that was there
// before is a captured tensor. A run along the recorded path sets gradients aside in the same way, and
// is held against what the recording has left; one of a pure body has guards instead.
#pragma once

#include "capture/recording.h"
#include "core/function_ref.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace tenon {

/// Whether nodes of the tape hang on the fakes of this thread's body themselves.
bool is_on_own_tape();

/// A graph with a backward of its own runs without a tape.
void forget_tape(Graph& graph);

/// Thrown out of a body that calls backward() in a recording without tape: record it once more.
struct WantsTape {};

/// The gradients that a body touches while it is recorded through the tape.
class TouchedGradients {
 public:
  bool has_touched(const Tensor& leaf) const { return leaves_ && leaves_->contains(leaf.head()); }
  /// For the first time.
  void touch(const Tensor& leaf, bool reads);
  /// The same without a tape, where `real` has the gradient of the leaf.
  void touch_early(const Tensor& leaf, const Tensor& real, bool reads);
  /// The body drops or replaces the gradient of a leaf that it has touched, when it has called so many
  /// operations.
  void note_replaced(const Tensor& leaf, uint32_t n_steps);
  /// There is a tape from here on, which has gradients of arguments apart.
  void start_tape();
  /// Operation i of the body is operation `steps[i]` of the recording from here on.
  void renumber(std::span<const uint32_t> steps);
  bool has_any() const { return !touched_.empty(); }
  /// Leaves get what the body has left, as far as segments have computed it.
  void leave_computed() const;
  /// The leaves get back what they had; once.
  void give_back();
  /// Takes the histories off the outputs, with which the tape goes, so that nothing recorded is
  /// kept by it; true for those that had one. Throws where a tensor of the program would keep one.
  static std::vector<bool> take_histories(std::span<const Tensor> outputs);
  /// The tape goes, whose nodes have hooks that may hold their own tensors.
  static void end_tape(std::span<const Tensor> fakes);
  /// What the body left, where `leaf_origin` finds leaves and `gradient_origin` gradients.
  void finish(GradEffects& effects, FunctionRef<ValueOrigin(const Tensor&)> leaf_origin,
              FunctionRef<ValueOrigin(const Tensor&)> gradient_origin) const;
  /// Whether a body that was followed has done the same by now, where `is` tells whether a tensor
  /// is what the recording found at an origin.
  bool are_as_recorded(const GradEffects& effects,
                       FunctionRef<bool(const ValueOrigin&, const Tensor&)> is) const;
  /// How many references to the fake are held here.
  int32_t references(const Tensor& fake) const;

 private:
  /// A leaf whose gradient the body has read or replaced.
  struct Touched {
    Tensor leaf, before, after;
    bool found_without = false;
    uint32_t replaced_at = GradEffects::never;
  };
  void add(Touched t);
  const Tensor& left_in(const Touched& t) const;
  bool is_changed(const Touched& t) const;
  std::vector<Touched> touched_;
  // Places in `touched_`; null: none.
  std::unique_ptr<std::unordered_map<const detail::TensorHead*, size_t>> leaves_;
  bool gave_back_ = false;
};

}  // namespace tenon
