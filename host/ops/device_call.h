// Ops on tensors that lie on a device: what the device key does.
//
// Problem: rows have kernels for the CPU, few have any for another device. Model: a call belongs to
// one device, that of its tensors, or of its argument `device` where it makes tensors. Method, the
// first that serves: the row itself where its functions serve every device (views, copies,
// questions about metadata); a plugin's kernel for the device; for what makes tensors without
// reading any, the CPU's kernel and a copy; the decomposition of rows that have nothing else; the
// call as a compiled graph of one node; the decomposition of other rows; for what draws random
// numbers and has no code, the CPU's kernel on copies; with
// `compiler.device_fallback` the CPU's kernel on copies; else an error that names op, device, who
// was asked and the flag.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// The function of an op's device key.
BoxedFn device_kernel(const OpEntry& op);

/// Whether results may be written over self while the call's tensors are read: each is exactly self or
/// apart from it.
bool writes_safely(const CallArgs& call, const Tensor& self);

/// Where the result of a call goes.
struct ResultPlace {
  enum class Kind : uint8_t {
    made,  ///< into new memory
    self,  ///< into the first argument, which has its layout
    given  ///< into `out`, which has its sizes and dtype and is apart from the arguments
  };
  Kind kind = Kind::made;
  const Tensor* out = nullptr;
};

/// Runs a call on a device as a compiled graph of its own. False where nobody compiles it. CPU
/// tensors among the arguments are brought there. Filled in by backend/single_op/run.cpp.
extern bool (*single_op_slot)(const CallArgs& call, Device device, ResultPlace place);
/// Why not, for messages.
extern std::string (*why_no_single_op_slot)(const CallArgs& call, Device device);

}  // namespace tenon
