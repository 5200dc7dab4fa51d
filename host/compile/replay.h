// Recording the body of a call site: for an entry, or for one call only.
#pragma once

#include "capture/follow/path.h"
#include "capture/trace.h"
#include "compile/modes_of_call.h"
#include "core/sym/shape_env.h"
#include "runtime/call.h"

namespace tenon {

/// Runs the body once on fakes, with what the site's options and earlier calls ask for. One that
/// turns out to call backward() is recorded once more, through the tape. Where graph breaks were
/// met it has run by the end. With the symbols of `like`, where that is given. From here on the
/// thread has the modes of the call.
Recording record_body(detail::Site& site, const detail::Leaves& leaves, const detail::Body& body,
                      ModesOfCall& modes, const Entry* like = nullptr);

/// A trace of the site's body for these arguments, by what earlier calls have shown. `left`: the path
/// that the body has followed so far.
std::unique_ptr<Trace> new_trace(detail::Site& site, const detail::Leaves& leaves,
                                 const Path* left = nullptr);

/// Counts and keeps what a recording tells about its graph breaks.
void note_recording(detail::Site& site, const Recording& recording);

/// Until it goes, lowering follows the rules of a recording about sizes.
struct RulesOfRecording {
  std::shared_ptr<ShapeEnv> env;
  ~RulesOfRecording() { env->set_rules({}); }
};

/// The results of a recording that becomes no entry: from code that equal graphs share, or by the
/// interpreter.
enum class CodeOf : uint8_t { equal_graphs, interpreter };
void finish_call(detail::Site& site, Recording recording, const detail::Leaves& leaves,
                 detail::CallResult& result, CodeOf code = CodeOf::equal_graphs);

/// The results of a body with graph breaks.
void give_results(Recording& recording, detail::CallResult& result);

/// The version whose code is that of a recording, for a call with these arguments, or null. Under the
/// lock of the site.
Entry* equal_version(const detail::Site& site, const Recording& recording,
                     const detail::Leaves& leaves);

/// Runs the version that a recording in one graph is equal to. False: there is none.
bool serve_by_equal(detail::Site& site, const Recording& recording, const detail::Leaves& leaves,
                    detail::CallResult& result);

/// Compiles a recording, unless an equal one was compiled before, and runs it: the version serves
/// later calls.
void serve_recording(detail::Site& site, Recording recording, const detail::Leaves& leaves,
                     detail::CallResult& result);

/// Records the body for this call: it runs in compiled code, but nothing becomes an entry.
void replay_body(detail::Site& site, const detail::Leaves& leaves, const detail::Body& body,
                 detail::CallResult& result);

}  // namespace tenon
