// Memory between guard zones, which tell when somebody wrote beside what he asked for.
#pragma once

#include <tenon/tensor.h>

#include <string>

namespace tenon::kit {

/// A block for svc->alloc, aligned as the host's memory. Null when there is none. Any thread.
void* guarded_allocate(size_t bytes) noexcept;
/// What is wrong with giving `block` back, or with the zones around it; empty when all is well.
std::string guarded_free(void* block, size_t bytes);

struct GuardedMemory {
  int64_t blocks = 0, bytes = 0;
};
/// Blocks that were not given back.
GuardedMemory guarded_memory();

/// A tensor of the sizes, strides and elements of `t`, in memory of its own between guard zones;
/// `on_damage` is told when the last reference goes and somebody wrote there.
Tensor between_guards(const Tensor& t, void (*on_damage)(const std::string& what));

/// What is wrong with the zones around such a tensor; empty when all is well.
std::string damage_around(const Tensor& guarded);

}  // namespace tenon::kit
