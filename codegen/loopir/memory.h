// Where temporary buffers lie in the arena.
#pragma once

#include "kernel.h"

namespace loopir {

struct MemoryPlan {
  std::vector<int64_t> offsets;  // by buffer, in bytes; -1: not in the arena
  int64_t bytes = 0;             // of the arena
  int64_t naive_bytes = 0;       // if no byte were used twice
  int64_t lower_bound = 0;       // most that is live at one time
};

/// By item: which others are done when it begins. Empty: the items run one after the other.
using DoneBefore = std::vector<std::vector<bool>>;

/// Offsets for the buffers of place `temporary` that `in_arena` names, for these sizes. `accesses`
/// are those of the items in the order in which they run, or one that `done_before` allows. Without
/// `reuse` no byte is used twice.
MemoryPlan plan_memory(const Program& program, std::span<const Access> accesses,
                       std::span<const int64_t> symbols, const std::vector<bool>& in_arena,
                       bool reuse = true, const DoneBefore& done_before = {});

/// The same for buffers of so many bytes each.
MemoryPlan plan_bytes(const Program& program, std::span<const Access> accesses,
                      std::span<const int64_t> bytes, const std::vector<bool>& in_arena,
                      bool reuse = true, const DoneBefore& done_before = {});

/// One line a buffer of the arena: where it lies and for how long, as numbers of items.
std::string text_of(const Program& program, std::span<const Access> accesses,
                    const MemoryPlan& plan, std::span<const int64_t> symbols);

/// The same as a JSON list: name, offset, bytes, first and last step.
std::string json_of(const Program& program, std::span<const Access> accesses,
                    const MemoryPlan& plan, std::span<const int64_t> symbols);

/// Bytes of memory that the strides of a buffer span.
int64_t bytes_of(const Program& program, const Buffer& buffer, std::span<const int64_t> symbols);
/// By buffer, 0 where it is not in the arena.
std::vector<int64_t> bytes_of_arena(const Program& program, std::span<const int64_t> symbols,
                                    const std::vector<bool>& in_arena);

}  // namespace loopir
