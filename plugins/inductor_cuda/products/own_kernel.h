// Products by a kernel of our own: its code, and its launches.
#pragma once

#include "../emit/product_kernel.h"
#include "../kernel_code.h"
#include "problem.h"

namespace inductor_cuda {

/// Threads: any.
class OwnProduct {
 public:
  /// From the process, from the store, or made.
  OwnProduct(const CodeStore& store, const Device& device, const ProductKernel& kernel,
             CodeStatistics& statistics);
  /// The kernel for a problem.
  static ProductKernel kernel_of(const Problem& problem, bool contracts);
  /// Enqueues. `pointers` are by buffer.
  void run(const Problem& problem, std::span<void* const> pointers, tn_stream* stream) const;
  const std::string& ptx() const { return ptx_; }
  const std::string& code_name() const { return code_name_; }
  const std::string& image() const { return code_->image(); }

 private:
  const tn_cuda_api* api_;
  std::string ptx_;  // for people; empty where the code comes from a cache
  std::string code_name_;
  std::shared_ptr<const LoadedCode> code_;
  tn_cuda_kernel* function_ = nullptr;
};

}  // namespace inductor_cuda
