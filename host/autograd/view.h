// Views and writes through them: what a write to a view means for the tensor it views.
#pragma once

#include "autograd/node.h"

namespace tenon::autograd {

/// Gives a view whose storage was written since it was made a node that reads from its base.
void refresh_view(const Tensor& t);

/// `t` was written by an op that `node` stands for: input 0 of the node is the gradient of what `t`
/// is now, its edge `self` goes to what `t` was. Of a view, the base gets the history.
void rebase_history(const Tensor& t, std::shared_ptr<Node> node, size_t self = 0);

/// Where the gradient of what `node` has made goes, its result `input`. Of a view that it has written, the
/// way leads over the base: a node that stands within another one is no place for gradients.
Edge edge_of_result(const std::shared_ptr<Node>& node, uint32_t input);

/// `t` was laid out anew by an op that `node` stands for, as by t_: what it views is as it was.
void relay_history(const Tensor& t, std::shared_ptr<Node> node);

/// Throws UserError when `t` must not be written by a recorded op: a leaf that needs a gradient, or
/// a view of one, or a view made while gradients were off.
void check_write(const Tensor& t, std::string_view op);
/// The same of a view of `t` that nobody has made yet; `from_no_grad`: gradients will be off then. Of
/// an undefined `t` no more is known.
void check_write_of_view(const Tensor& t, bool from_no_grad, std::string_view op);

/// `view` of `of` was made while gradients were off. If `of` needs one, or is such a view, it must not
/// be written while they are on: the write would be lost.
void note_view_without_grad(const Tensor& view, const Tensor& of);

}  // namespace tenon::autograd
