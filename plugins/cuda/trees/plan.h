// What a recording depends on, and what each run of it changes.
#pragma once

#include <tenon/plugin.hpp>

#include "graph.h"

#include <tenon/cuda.h>

#include <string>
#include <vector>

namespace tenon::cuda::trees {

/// How an input reaches a recording.
struct InputPlan {
  /// unused: only its sizes matter; moved: nodes are changed to its address; fixed: it has to be
  /// where it was; staged: it is copied to where it was.
  enum class Way { unused, moved, fixed, staged };
  Way way = Way::unused;
  api::Address address = 0;  ///< where the recording has it
  size_t bytes = 0;          ///< staged: how many are copied
  uint32_t alignment = 1;    ///< moved: at least so much, 16 at most
  bool by_place = false;     ///< moved: the offset within the storage has to be the same
  int64_t storage_offset = 0;
};

/// Memory of results, which may share it.
struct SlotPlan {
  Range range;  ///< where the recording has it
  size_t bytes = 0;
  bool is_managed = false;  ///< stays there
  bool is_lent = false;     ///< managed, and the user's until the next step
  bool is_copied = false;   ///< is copied from there behind the recording
  int32_t dtype = 0;
  uint32_t whole = UINT32_MAX;  ///< the output that is all of it, where no other one shares it
};

struct OutputPlan {
  enum class Kind { absent, input, view_of_input, slot };
  Kind kind = Kind::absent;
  uint32_t from = 0;  ///< the input or the slot
  int32_t dtype = 0;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  ///< in elements: from the slot's begin, or from the input's own offset
};

/// A parameter that is a number of an input.
struct NumberPlan {
  uint32_t node, at, input;
  uint16_t bytes, source_bytes;
  int64_t offset;  ///< in bytes, from the input's data
};
/// A parameter that is a seed or the offset of a draw.
struct DrawPlan {
  uint32_t node, at;
  uint16_t bytes;
  bool is_seed;
  uint64_t relative;  ///< blocks from the first of the call
};

struct Plan {
  std::vector<InputPlan> inputs;
  std::vector<SlotPlan> slots;
  std::vector<OutputPlan> outputs;
  std::vector<NumberPlan> numbers;
  std::vector<DrawPlan> draws;
  uint64_t blocks = 0;  ///< that a call draws
  std::vector<PatchPoint> points;
  std::vector<api::Address> bases;
  std::vector<Range> footprint;  ///< what a run writes in the arena, its managed results included
};

/// What the planner is told.
struct Planned {
  const Captured& captured;
  std::span<tn_tensor*const> inputs, outputs;
  std::span<const uint32_t> input_flags, output_flags;  ///< TN_CUDA_INPUT_..., TN_CUDA_OUTPUT_...
  bool keeps_results = false;                 ///< all results are managed: TN_CUDA_OUTPUTS_POOL
  std::span<const plugin::tensor> constants;  ///< of the CPU: their numbers stay
  std::span<const bool> staged;               ///< inputs whose tensors here are copies in the arena
};

/// Bytes from the first element to behind the last.
size_t span_bytes(const tn_tensor* t);
/// Of an address: 1, 2, 4, 8 or 16 bytes.
uint32_t alignment_of(const void* memory);

/// A recording that cannot run again, by the id of a reason.
struct Unrecordable : plugin::error {
  Unrecordable(std::string reason, const std::string& sentence)
      : error(TN_UNIMPLEMENTED, sentence), id(std::move(reason)) {}
  std::string id;
};

/// Throws Unrecordable.
Plan plan_recording(const Planned& given);

}  // namespace tenon::cuda::trees
