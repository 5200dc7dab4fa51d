// Code on a GPU: modules, their kernels, and launches.
#pragma once

#include "gpu.h"

#include <tenon/cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

struct tn_cuda_kernel {
  tn_cuda_module* module;
  std::string name;
  tenon::cuda::api::Function handle;
  std::atomic<uint32_t> shared_allowed;  ///< dynamic shared bytes that the driver was told of
};

/// Machine code on a device, one a distinct image; those who loaded it are counted.
struct tn_cuda_module {
  tenon::cuda::Gpu* gpu;
  tenon::cuda::api::Module handle;
  const std::string* image;  ///< the key that it is found by
  size_t users = 1;
  std::mutex naming;  ///< guards kernels
  std::map<std::string, std::unique_ptr<tn_cuda_kernel>, std::less<>> kernels;
};

namespace tenon::cuda {

/// PTX to machine code of the device. The error has the assembler's own text.
std::string assemble(Gpu& gpu, std::string_view ptx);

tn_cuda_module* load_module(Gpu& gpu, std::string_view image);
/// A further reference.
void retain_module(tn_cuda_module& module);
void release_module(tn_cuda_module* module) noexcept;

/// Throws TN_NOT_FOUND.
tn_cuda_kernel* find_kernel(tn_cuda_module& module, std::string_view name);
void fill(tn_cuda_kernel& kernel, tn_cuda_kernel_facts& out);
void launch(tn_cuda_kernel& kernel, const tn_cuda_launch& how);

}  // namespace tenon::cuda
