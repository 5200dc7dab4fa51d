// Handles of its own that the tape has kept of the fakes of a frame.
//
// A node keeps its results as tensors that nobody else holds: they name their frame and the number of
// their value. When a recording takes over from a run along a path, it takes these over, too, by
// that number, as soon as an operation names one.
//
// Threads: belongs to the thread of the recording.
#pragma once

#include "graph/graph.h"

#include <tenon/tensor.h>

#include <vector>

namespace tenon {

class GraphRecorder;

class AliasesOfTape {
 public:
  AliasesOfTape() = default;
  /// `values`: by value of the frame's path, that of the recording.
  AliasesOfTape(uint64_t frame, std::vector<ValueId> values)
      : frame_(frame), values_(std::move(values)) {}
  /// Whether `fake` is one of them; then it is a tensor of the recorder.
  bool adopt(const Tensor& fake, GraphRecorder& recorder) const;

 private:
  uint64_t frame_ = 0;
  std::vector<ValueId> values_;
};

}  // namespace tenon
