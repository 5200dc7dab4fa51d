// Tensors of one call over the buffers of a program.
#pragma once

#include "loopir/program.h"

#include <tenon/plugin.hpp>

#include <span>
#include <vector>

namespace loopir {

/// Where a call runs.
struct CallPlace {
  int32_t device_type = TN_DEV_CPU, device_index = -1;
  tn_stream* stream = nullptr;
};

std::vector<int64_t> evaluated(const Expressions& x, const Ids& ids,
                               std::span<const int64_t> table);

/// The memory of a buffer during a call: a tensor's, or bare.
struct BufferMemory {
  tn_tensor* tensor = nullptr;  ///< borrowed
  void* data = nullptr;         ///< where there is no tensor
};
/// The tensor that a view shows. `in_whole_storage`: with all of the buffer as its storage, also
/// where that is bare memory.
tenon::plugin::tensor tensor_of(const Program& program, const View& view,
                                std::span<const int64_t> table, const BufferMemory& memory,
                                bool in_whole_storage, const CallPlace& place);

}  // namespace loopir
