// Where the handle of a captured tensor is kept, so that later calls find what it holds by then.
#pragma once

#include "capture/recording.h"

#include <tenon/detail/compiled.h>

#include <cstddef>
#include <span>
#include <vector>

namespace tenon {

using ModuleMemory = std::span<const std::byte>;

/// The modules that a body has called.
class CalledModules {
 public:
  void add(ModuleMemory module);
  std::span<const ModuleMemory> all() const { return all_; }

 private:
  std::vector<ModuleMemory> all_;
};

/// `real` is the handle that the body has used, `modules` are those that it has called by then.
ImplicitInput locate(const Tensor& real, const detail::Body& body,
                     std::span<const ModuleMemory> modules);

}  // namespace tenon
