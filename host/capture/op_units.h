// The units that a recording has met, see core/op_unit.h.
#pragma once

#include "capture/recording.h"
#include "core/op_unit.h"
#include "graph/record.h"

#include <span>
#include <utility>
#include <vector>

namespace tenon {

struct StandIns;

/// Of the graph that is being recorded.
class UnitsOfTrace {
 public:
  static OpUnit::Start begin(GraphRecorder& recorder);
  /// The unit `number` has begun at `start`, and all its operations are recorded. `tensors` may be
  /// real ones.
  void end(GraphRecorder& recorder, const StandIns& stand_ins, uint64_t number,
           std::span<const Tensor* const> tensors, const OpUnit::Start& start);
  std::vector<RecordedUnit> take() { return std::exchange(units_, {}); }

 private:
  std::vector<RecordedUnit> units_;
};

}  // namespace tenon
