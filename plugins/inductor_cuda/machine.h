// What a graph is compiled for and runs on: a device, and the extension through which it gets code.
#pragma once

#include <tenon/cuda.h>
#include <tenon/plugin.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace inductor_cuda {

/// Where the devices are: tenon.cuda for GPUs; tests have one of their own.
struct Machine {
  const tn_cuda_api* api = nullptr;
  int32_t device_type = TN_DEV_CUDA;
};

/// One device. Threads: any.
struct Device {
  const tn_cuda_api* api = nullptr;
  int32_t type = TN_DEV_CUDA, index = 0;
  std::string arch;
  tn_cuda_facts facts{};
};
/// The device of the request's tensors. Throws `declined` where none is on such a device, `error`
/// where there is none.
Device device_of(const Machine& machine, const tn_compile_request& request);

/// Code on a device, loaded when a kernel is first asked for. Threads: any.
class LoadedCode {
 public:
  LoadedCode(const Device& device, std::string image);
  LoadedCode(const LoadedCode&) = delete;
  ~LoadedCode();
  tn_cuda_kernel* kernel(const std::string& symbol) const;
  const std::string& image() const { return image_; }

 private:
  const tn_cuda_api* api_;
  std::string image_;
  tn_cuda_module* module_ = nullptr;
};

}  // namespace inductor_cuda
