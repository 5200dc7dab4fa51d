// What the keys of an op do.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// The row's own kernel on CPU tensors, the reference of every plugin's.
BoxedFn reference_kernel(const OpEntry& op);
/// That of a row alone, whatever form of it is called; `writes`: it writes an argument.
BoxedFn row_kernel(const OpDef& def, bool writes);
/// Kernels of plugins for the CPU first, by priority, then the row's own.
void run_foreign_first(const CallArgs& call);
/// Whether a plugin's kernel for the device has run the call.
bool try_foreign(const CallArgs& call, DeviceType device);
/// Makes the view that the row describes: another tensor over the same memory, on any device.
void run_view(const CallArgs& call);
/// Views that the call gives know what they are views of, as run_view() has it where the tape may ask;
/// for calls that were answered below it.
void track_views(const CallArgs& call);
/// Throws UserError where `op` is to write a tensor that shows one place in memory several times. Of a
/// fake with symbolic sizes, that is what stands there by `expand`.
void require_elements_apart(std::string_view op, const Tensor& self);
/// Counts the writes of a call; gives the caller's own object back where the op returns what it
/// writes.
void return_mutated(const CallArgs& call);

}  // namespace tenon
