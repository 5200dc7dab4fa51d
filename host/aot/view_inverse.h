// The inverse of a view: a new value of the viewed tensor in which the view has new content.
#pragma once

#include "core/dispatch.h"

#include <span>

namespace tenon {

/// One view op with its arguments, of which one, or an element of one, stands for the tensor that is
/// viewed.
struct ViewStep {
  /// Where in the arguments; `element` counts in a list, as einsum and meshgrid take one.
  struct Place {
    uint32_t arg = 0;
    int32_t element = -1;
  };
  const OpEntry* op = nullptr;
  std::span<const Value> args;  ///< without values of a graph but for the viewed one
  uint32_t result = 0;          ///< of ops that give several views
  bool without_grad = false;    ///< made while gradients were off
  Place viewed;
};

/// Whether the op does nothing but show its first argument, or a part of it, as tensors.
bool gives_views(const OpEntry& op);
/// The view of `parent`.
Tensor apply_view(const ViewStep& step, const Tensor& parent);
/// `base` with the elements that the last view of the chain shows replaced by `content`. Ops are
/// called, so inside a recording they are recorded. Throws UserError (unsupported) for a view that
/// shows an element twice or as another dtype.
Tensor scatter_views(std::span<const ViewStep> chain, const Tensor& base, const Tensor& content);

}  // namespace tenon
