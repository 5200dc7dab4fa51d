// Recording the body of a call site: for an entry, or for one call only.
#pragma once

#include "runtime/call.h"

namespace tenon {

/// Runs the body once on fakes, with what the site's options and earlier calls ask for. One that
/// turns out to call backward() is recorded once more, through the tape. Where graph breaks were
/// met it has run by the end.
Recording record_body(detail::Site& site, const detail::Leaves& leaves, const detail::Body& body);

/// Until it goes, lowering follows the rules of a recording about sizes.
struct RulesOfRecording {
  std::shared_ptr<ShapeEnv> env;
  ~RulesOfRecording() { env->set_rules({}); }
};

/// The results of a body with graph breaks.
void give_results(Recording& recording, detail::CallResult& result);

/// Records the body for this call: it runs in compiled code, but nothing becomes an entry.
void replay_body(detail::Site& site, const detail::Leaves& leaves, const detail::Body& body,
                 detail::CallResult& result);

}  // namespace tenon
