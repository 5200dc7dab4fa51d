// The inverse of a view: a new value of the viewed tensor in which the view has new content.
#pragma once

#include "core/dispatch.h"

#include <span>

namespace tenon {

/// One view op with its arguments; argument 0 stands for the tensor that is viewed.
struct ViewStep {
  const OpEntry* op;
  std::span<const Value> args;  ///< without values of a graph but for argument 0
  uint32_t result = 0;          ///< of ops that give several views
  bool without_grad = false;    ///< made while gradients were off
};

/// The view of `parent`.
Tensor apply_view(const ViewStep& step, const Tensor& parent);
/// `base` with the elements that the last view of the chain shows replaced by `content`. Ops are
/// called, so inside a recording they are recorded. Throws UserError (unsupported) for a view that
/// shows an element twice or as another dtype.
Tensor scatter_views(std::span<const ViewStep> chain, const Tensor& base, const Tensor& content);

}  // namespace tenon
