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
  /// What a unit is: its tensors may be real ones.
  struct Described {
    uint64_t number;
    std::span<const Tensor* const> tensors;
    std::span<const uint64_t> facts;
    std::span<const Tensor> results;
    std::span<const uint64_t> notes;
  };
  /// The unit has begun at `start`, and all its operations are recorded.
  void end(GraphRecorder& recorder, const StandIns& stand_ins, const Described& unit,
           const OpUnit::Start& start);
  std::vector<RecordedUnit> take() { return std::exchange(units_, {}); }

 private:
  std::vector<RecordedUnit> units_;
};

}  // namespace tenon
