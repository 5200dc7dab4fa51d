// What decides about a kernel's code, as text.
#pragma once

#include "loopir/kernel.h"

#include <map>
#include <string>

namespace loopir {

/// What a code generator adds: numbers of its own at the head, and how it names buffers.
struct KeyParts {
  std::string head;
  const Ids& buffers;  // in order of the pointers
  const std::map<Id, int64_t>& scratch_offsets;
  const Ids& past_caches;  // buffers that are written past the caches
  Id open = none;          // a variable whose extent the code is told
};
/// Kernels of equal keys are the same code, called with other pointers.
std::string key_of(Program& program, const Nest& nest, const KeyParts& parts);

}  // namespace loopir
