// Whether compiled callables run as they are on this thread, and operations outside of graphs.
#pragma once

#include "core/dispatch.h"
#include "core/kept_numbers.h"
#include "graph/record.h"
#include "guards/guard_set.h"

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

/// What code between two segments has changed of the tensors of a body.
struct UncompiledChanges {
  bool any_other_need = false;   ///< of a tensor that the body holds: it has this need from here on
  std::vector<Tensor> reshaped;  ///< fakes that lie otherwise than recorded
  std::vector<uint32_t> objects;  ///< of the path that is followed: `reshaped` without arguments
  std::vector<Tensor> named;      ///< real tensors that have been recorded as something else
  bool any() const { return any_other_need || !reshaped.empty() || !named.empty(); }
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
    TensorGuard layout;  // of `real`
    bool needed_grad;
    bool is_argument;
    uint32_t object;  // of the path that is followed
  };
  // A real tensor that the body has named, and what segments take for granted of it.
  struct Named {
    Tensor real;
    TensorGuard layout;
    bool needed_grad;
  };
  void name(const Tensor& real);
  void show(const Tensor& fake, const Tensor& real, bool is_argument, uint32_t object = 0);
  bool is_shown(const Tensor& real) const;
  UncompiledChanges end_shows();

  std::vector<Shown> shown_;
  std::vector<Named> named_;
  std::optional<PauseRecording> pause_;
  std::optional<OutsideOfTraces> plain_numbers_;
};

/// Whether the operation is a recurrent layer and flag dynamo.allow_rnn keeps it out of graphs.
bool is_kept_recurrent(const OpEntry& op);
/// Whether flags keep an operation of a body out of the graph. Throws UserError where they do and the
/// body must be one graph.
bool stays_outside(const OpEntry& op, bool fullgraph);
/// Whether that is so, or data decide how large the results are, and the operation does nothing else:
/// it runs between two segments, like disabled code, and its results are captured tensors of the next
/// one.
bool runs_between_segments(const CallArgs& call);

}  // namespace tenon
