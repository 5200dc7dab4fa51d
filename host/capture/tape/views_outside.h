// Tensors of the program that are views of one another: what one of them is given, the others have, too.
//
// Problem: a body writes `row`, an argument or a captured tensor, with a value that needs a gradient.
// Then `table`, of which it is a view, needs one as well, and so does what the body makes of it. How
// tensors of the program are views of one another is no part of a recording. Model: the tape tells it
// of the real tensors; fakes of the body are views by their nodes (graph/passes/view_root.h). No guard does,
// so that such a body is recorded on every call.
#pragma once

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"

namespace tenon {

class GraphRecorder;

/// As the tensor is by now: nothing is asked that has yet to run.
inline bool has_need(const Tensor& t) { return impl_of(t)->flags & TN_T_REQUIRES_GRAD; }
/// Whether code that has not run yet gives `real`, for which `fake` stands, a history.
inline bool has_history_to_come(const Tensor& fake, const Tensor& real) {
  return fake.defined() && fake.is_fake() && has_need(fake) && real.defined() && !has_need(real);
}

/// What the call, recorded just now, has given a history, views of it get by their fakes. Whether there
/// is another tensor of the program over its memory that needs no gradient, and may be a view.
bool give_histories_to_views(GraphRecorder& recorder, const CallArgs& call);

}  // namespace tenon
