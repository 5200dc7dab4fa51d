// Kernels of the double for recorded functions.
#pragma once

#include "host_code.h"

#include <tenon/cuda.h>
#include <tenon/tenon.h>

/// Kernels over float tensors: "sum" y = a + b, "add" y += a, "times" y = a * number.
class FloatKernels {
 public:
  FloatKernels();
  ~FloatKernels();

  enum class Known { yes, no };  // whether recordings are told what the parameters are
  void sum(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a, const tenon::Tensor& b,
           Known known = Known::yes);
  /// The launch waits until it is done.
  void sum_and_wait(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a,
                    const tenon::Tensor& b);
  void add(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a);
  /// The number is read from `source`, four bytes of host memory.
  void times(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a, const float* source);
  /// y = a + the low bits of seed and offset.
  void shift_by_draw(tn_call& c, const tenon::Tensor& y, const tenon::Tensor& a, uint64_t seed,
                     uint64_t offset);

 private:
  HostCode code_;
  tn_cuda_module* module_ = nullptr;
  tn_cuda_kernel *sum_, *add_, *times_, *shift_;
};
