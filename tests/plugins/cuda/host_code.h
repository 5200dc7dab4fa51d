// Kernels for the double of the driver that are functions of the test.
#pragma once

#include "fake_cuda/fake_cuda.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

struct HostKernel {
  std::vector<uint32_t> parameters;  ///< bytes of each
  std::function<int32_t(const FakeCudaLaunch&)> run;
  uint32_t shared_bytes = 0, threads_per_block = 1024;
};

/// While it lives, modules whose text begins with "host kernels" hold the kernels that were added.
class HostCode {
 public:
  HostCode();
  ~HostCode();
  HostCode(const HostCode&) = delete;
  void add(const std::string& name, HostKernel kernel) { kernels_[name] = std::move(kernel); }

 private:
  FakeCudaCode table_;
  std::map<std::string, HostKernel> kernels_;
};
