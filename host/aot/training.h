// A compiled function on the tape: its forward runs now, its backward when gradients arrive.
#pragma once

#include "aot/lower.h"
#include "graph/extract.h"

#include <functional>

namespace tenon {

/// A joint graph that was cut in two.
struct TrainingHalves {
  Extracted forward;   ///< outputs: the results, data-dependent numbers, what else is saved
  Extracted backward;  ///< inputs: what is saved, the tangents, numbers; outputs: the gradients

  /// Where the backward's first inputs come from.
  struct Saved {
    enum class Kind : uint8_t { primal, result } kind;
    uint32_t index;  ///< of the joint graph's inputs, or of the forward's outputs
  };
  std::vector<Saved> saved;
  uint32_t n_extra = 0;  ///< how many of the forward's outputs, the last ones, are only saved
  /// Data-dependent symbols of the backward, and the outputs of the forward that tell them.
  std::vector<std::pair<const Expr*, uint32_t>> symbols;
};

/// Compiles a backward half; `n_saved` of its inputs, the first ones, are saved values.
using CompileBackward =
    std::function<std::shared_ptr<Artifact>(const Extracted& half, uint32_t n_saved)>;

/// While one lives, code that this thread runs is a piece of a body, whose results may get their
/// gradients one after the other: what the backward reads is kept until all of them have.
class PieceOfBody {
 public:
  PieceOfBody();
  ~PieceOfBody();
  PieceOfBody(const PieceOfBody&) = delete;

 private:
  bool before_;
};

/// The artifact of the original graph, over those of the halves. The backward is compiled when it
/// is first needed. Where only some results got gradients, a backward for these is compiled, for
/// some combinations; others get zeros. Differentiating its gradients runs the forward again, op by
/// op on the tape, with the same random numbers. Without need of gradients the forward runs alone.
std::shared_ptr<Artifact> wrap_training(Lowered lowered, TrainingHalves halves,
                                        std::shared_ptr<Artifact> forward,
                                        CompileBackward compile_backward);

/// The artifact of a graph of which nothing needs a gradient but outputs that are views of inputs:
/// below the tape but for those.
std::shared_ptr<Artifact> wrap_views_on_tape(Lowered lowered, std::shared_ptr<Artifact> inner);

}  // namespace tenon
