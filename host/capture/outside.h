// Whether compiled callables run as they are on this thread, and operations outside of graphs.
#pragma once

#include "core/dispatch.h"

#include <cstdint>
#include <utility>

namespace tenon {

/// How many NoCompile and disable() are around what the thread does.
extern constinit thread_local int32_t n_uncompiled_scopes;
inline bool is_uncompiled() { return n_uncompiled_scopes != 0; }

/// While one lives, none counts: around operations of a recording itself, which belong in its graph.
class RecordingItself {
 public:
  RecordingItself() : before_(std::exchange(n_uncompiled_scopes, 0)) {}
  ~RecordingItself() { n_uncompiled_scopes = before_; }
  RecordingItself(const RecordingItself&) = delete;

 private:
  const int32_t before_;
};

/// Whether data decide how large the results are, and the operation does nothing else: it runs
/// between two segments, like disabled code, and its results are captured tensors of the next one.
bool runs_between_segments(const CallArgs& call);

}  // namespace tenon
