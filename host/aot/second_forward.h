// The forward of a compiled function once more, on the tape: for gradients of gradients.
#pragma once

#include "aot/lower.h"
#include "autograd/saved/saved_tensor.h"
#include "core/threads/once.h"
#include "graph/interpret.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

/// What the results with gradients are computed from, op by op, with the draws of all random
/// numbers. Threads: any number at once.
class SecondForward {
 public:
  /// What it wants of an input.
  enum class Need : uint8_t {
    nothing,
    sizes,  ///< it only has to be there: no result depends on what it holds
    value
  };

  SecondForward(std::shared_ptr<const Graph> joint, const Derivative& derivative);

  Need need_of(uint32_t primal) const { return needs_[primal]; }
  /// The results, by tangent; undefined where they have the history of what they overwrite.
  /// `words` are the symbols of the call, `sent` the gradients of the results. Throws UserError
  /// (unsupported) where such a result gets one, or a result leads through such a value: the graph
  /// does not tell its history.
  std::vector<Tensor> run(std::span<const Tensor> primals, std::span<const int64_t> words,
                          std::span<const Tensor> sent);

 private:
  void find_nodes(const Derivative& derivative);
  void extract();

  std::shared_ptr<const Graph> joint_;
  std::vector<Need> needs_;       // by primal
  std::vector<NodeId> nodes_;     // of the joint graph
  std::vector<ValueId> results_;  // by tangent
  bool loses_history_ = false;
  Once extract_once_;
  std::optional<Interpreter> code_;
  std::vector<uint32_t> symbols_;
};

/// The memory that a call writes.
class WrittenStorages {
 public:
  WrittenStorages(std::span<const uint32_t> written, std::span<detail::TensorHead* const> inputs);
  bool holds(const Tensor& t) const;

 private:
  std::vector<const void*> storages_;  // sorted
};

/// The inputs of a call as they were before it, for its second forward. Of those that the call
/// writes it holds copies.
class InputsBefore {
 public:
  /// Before the run.
  void keep(const SecondForward& second, std::span<detail::TensorHead* const> inputs,
            const WrittenStorages& written);
  /// Undefined where there is none, and once they are forgotten: who keeps them packs them.
  Tensor copy_of(uint32_t primal) const;
  void forget_copies();

  /// By primal, with their histories: `next` of the owner are the edges of `derivative.gradients`.
  std::vector<Tensor> unpack(const std::shared_ptr<autograd::Node>& owner,
                             const Derivative& derivative) const;
  void release();

 private:
  struct OfPrimal {
    uint32_t primal;
    Tensor tensor;
  };
  std::vector<autograd::SavedTensor> exact_;  // by primal
  std::vector<OfPrimal> loose_;               // nobody minds if they were written since
  std::vector<OfPrimal> copies_;
};

}  // namespace tenon
