// What must hold of a schedule and a memory plan: a bug found here is one that code does not have.
#pragma once

#include "memory.h"

namespace loopir {

/// What is wrong, in one sentence; empty where nothing is. Reads before writes, and loads and
/// stores of kernels outside of their buffer where sizes and indices tell.
std::string problem_of(Program& program, const Schedule& schedule);
/// Who multiplies: CPUs take no f16, and biases of bf16 in f32 only.
enum class Multiplier : uint8_t { cpu, any };
/// Dtypes of a product that do not go together.
std::string problem_of(const Program& program, const Product& product,
                       Multiplier by = Multiplier::cpu);
/// Buffers that live at the same time and overlap, or leave the arena.
std::string problem_of(const Program& program, std::span<const Access> accesses,
                       const MemoryPlan& plan, std::span<const int64_t> symbols);
/// Throws `error` TN_INTERNAL where `problem` is not empty.
void require_sound(const std::string& problem);

}  // namespace loopir
