// SPDX-License-Identifier: Apache-2.0
// Automatic mixed precision: ops that gain from a shorter type compute in it.
//
//     AutocastGuard lower;                      // bf16 on the CPU
//     Tensor loss = mse_loss(x.matmul(w), y);   // the product in bf16, the loss in f32
//
// Products and convolutions cast their floating arguments to the shorter type, ops that lose too
// much there (losses, norms, dense algebra) cast theirs to f32, `cat` and `stack` take the widest
// type of their arguments; all others compute in the types they are given. f64 is never cast. The
// casts are ops like others: gradients go back through them in the types of the leaves.
#pragma once

#include <tenon/types.h>

namespace tenon {

struct AutocastOptions {
  DeviceType device = DeviceType::cpu;
  Dtype dtype = Dtype::bf16;  ///< or f16
  bool enabled = true;        ///< false: a region without, inside of one with
  /// Leaves that need a gradient are cast once in the outermost guard, not at every use.
  bool cache_enabled = true;
};

/// While one lives, autocast is set for ops of this thread. Compiled functions record what the
/// thread has set and compile anew when it changes; models loaded from archives compute in the
/// types that they were exported with. Throws UserError for other dtypes and devices.
class TENON_API AutocastGuard {
 public:
  explicit AutocastGuard(const AutocastOptions& options = {});
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;

 private:
  AutocastOptions before_;
};

TENON_API bool is_autocast_enabled();
/// What autocast casts to, also while it is off.
TENON_API Dtype autocast_dtype();

}  // namespace tenon
