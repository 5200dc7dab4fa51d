// The compiled backward of one function: the whole half, and halves for some results only.
#pragma once

#include "aot/training.h"
#include "aot/zero_tangents.h"
#include "autograd/node.h"
#include "config/config.h"
#include "core/threads/once.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon {

/// Compiles when first asked, under the flags of the thread that made it. Threads: any.
class BackwardCode {
 public:
  BackwardCode(const Extracted& half, const Derivative& derivative, uint32_t n_saved,
               CompileBackward compile);

  /// Which results got a gradient decides what is run.
  struct Variant {
    std::shared_ptr<Artifact> code;
    std::optional<MaskedBackward> part;  ///< unset: the whole half
  };
  const Variant& whole();
  /// `undefined` says it by tangent. The whole half, to be given zeros, where no work would be
  /// saved, where sizes would be taken for granted that the whole half does not, and beyond
  /// `most_parts` combinations.
  const Variant& for_tangents(const std::vector<bool>& undefined);

  /// The gradients that the half has made, by those of the function, whose node `of` is. Of those
  /// that only undefined tangents led to the whole half makes zeros; a plain run would not come
  /// there. Where it would come with zeros, the graph may lead nowhere.
  std::vector<Tensor> gradients(const Variant& half, const std::vector<bool>& undefined,
                                std::vector<Tensor> made, const autograd::Node& of);

  /// The code that was compiled so far.
  std::vector<std::shared_ptr<Artifact>> compiled();

  static constexpr size_t most_parts = 8;

 private:
  const Variant& add_part(const std::vector<bool>& undefined);
  Variant compile(std::optional<MaskedBackward> part);
  void add_zeros(const std::vector<bool>& undefined, const autograd::Node& of,
                 std::vector<Tensor>& gradients) const;

  const Extracted& half_;
  const Derivative& derivative_;
  uint32_t n_saved_;
  CompileBackward compile_;
  config::ThreadPatches patches_;
  std::atomic<const Variant*> ready_{nullptr};  // the whole half, once it is compiled
  std::mutex parts_mutex_;                      // guards the rest; entries stay
  std::optional<Variant> whole_;
  std::map<std::vector<bool>, const Variant*> by_tangents_;
  std::vector<std::unique_ptr<Variant>> parts_;
  Once tangents_once_;
  std::vector<std::vector<bool>> tangents_;  // by gradient: those that lead there
};

}  // namespace tenon
