// Copies for compiled code, which reads its inputs by the strides that its graph states.
#pragma once

#include <tenon/tensor.h>

namespace tenon {

/// `t` in memory of its own. clone() gives other strides where `t` leaves out or shares memory.
Tensor copy_with_strides(const Tensor& t, SymIntList strides);
/// `t`, or where it has other strides, such a copy.
Tensor with_strides(Tensor t, SymIntList strides);

}  // namespace tenon
