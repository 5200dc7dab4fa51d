// Ops on tensors that lie on a device: what the device key does.
//
// Problem: rows have kernels for the CPU, few have any for another device. Model: a call belongs to
// one device, that of its tensors, or of its argument `device` where it makes tensors. Method, the
// first that serves: the row itself where its functions serve every device (views, copies,
// questions about metadata); a plugin's kernel for the device, of which none is attached yet; for
// what makes tensors without reading any, the CPU's kernel and a copy; the row's decomposition; with
// `compiler.device_fallback` the CPU's kernel on copies; else an error that names op and device.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// The function of an op's device key.
BoxedFn device_kernel(const OpEntry& op);

}  // namespace tenon
