// Literals on devices.
#pragma once

#include <tenon/tensor.h>

namespace tenon {

/// Moves a literal to the thread's default device, where that is set; filled in by
/// ops/modes/default_device.cpp.
extern Tensor (*literal_slot)(const Tensor& literal);

}  // namespace tenon
