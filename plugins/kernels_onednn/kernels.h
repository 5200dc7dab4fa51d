// The rows of this plugin, one function an op. Each returns false, before anything is written, for
// what it does not take: other dtypes, empty tensors, shapes that oneDNN has no fast kernel for.
#pragma once

#include <tenon/plugin.hpp>

namespace onednn {

using tenon::plugin::kernel_call;

bool mm(const kernel_call& call);
bool addmm(const kernel_call& call);
bool bmm(const kernel_call& call);
bool baddbmm(const kernel_call& call);
bool linear(const kernel_call& call);
bool matmul(const kernel_call& call);

bool convolution(const kernel_call& call);
bool conv1d(const kernel_call& call);
bool conv2d(const kernel_call& call);
bool conv3d(const kernel_call& call);
bool convolution_backward(const kernel_call& call);

/// A tensor that kernels here can read: on the CPU, with data, of a known dtype, not empty.
inline bool is_plain(const tn_tensor* t) {
  return t && t->device_type == TN_DEV_CPU && t->data && t->numel > 0 &&
         (t->dtype == TN_F32 || t->dtype == TN_BF16) &&
         !(t->flags & (TN_T_FAKE | TN_T_CONJ | TN_T_NEG));
}

}  // namespace onednn
