// Whether compiled callables run as they are on this thread, and operations outside of graphs.
#pragma once

#include "core/dispatch.h"
#include "graph/record.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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

/// Code of the program that runs between two segments: nothing is recorded, and fakes that the body
/// holds are the tensors that they stand for, so that what the code captures has data. All segments
/// before it have run.
class OutsideOfBody {
 public:
  /// Not `shows_fakes`: there may be steps to come, and the code gets no tensor of the body.
  explicit OutsideOfBody(bool shows_fakes = true);
  ~OutsideOfBody();
  OutsideOfBody(const OutsideOfBody&) = delete;

 private:
  struct Shown {
    Tensor fake, real, before;
    bool needed_grad;
    uint32_t object;  // of the path that is followed
  };
  void show(const Tensor& fake, const Tensor& real, uint32_t object = 0);

  std::vector<Shown> shown_;
  std::optional<PauseRecording> pause_;
};

/// Whether the operation is a recurrent layer and flag dynamo.allow_rnn keeps it out of graphs.
bool is_kept_recurrent(const OpEntry& op);
/// Whether that is so, or data decide how large the results are, and the operation does nothing else:
/// it runs between two segments, like disabled code, and its results are captured tensors of the next
/// one.
bool runs_between_segments(const CallArgs& call);

}  // namespace tenon
