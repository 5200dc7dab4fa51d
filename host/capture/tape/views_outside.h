// Tensors of the program that are views of one another: what one of them is given, the others have, too.
//
// Problem: a body writes `row`, an argument or a captured tensor, with a value that needs a gradient.
// Then `table`, of which it is a view, needs one as well, and so does what the body makes of it. How
// tensors of the program are views of one another is no part of a recording. Model: the tape tells it
// of the real tensors; fakes of the body are views by their nodes (graph/dependencies.h). No guard does,
// so that such a body is recorded on every call.
#pragma once

#include "core/dispatch.h"

namespace tenon {

class GraphRecorder;

/// What the call, recorded just now, has given a history, views of it get by their fakes. Whether there
/// is another tensor of the program over its memory that needs no gradient, and may be a view.
bool give_histories_to_views(GraphRecorder& recorder, const CallArgs& call);

}  // namespace tenon
