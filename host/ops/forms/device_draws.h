// Random numbers on a device: which form of an op a device's compiler is asked for.
#pragma once

#include "ops/op_table.h"

#include <optional>

namespace tenon {

/// Runs a call that draws random numbers for a device by code of the device, whose numbers are those
/// of the CPU; `device` is that of its tensors, if it has any. False where another way has to be
/// gone: it draws none, it is for the CPU, or nobody compiles it.
bool draw_on_device(const CallArgs& call, std::optional<Device> device);

}  // namespace tenon
