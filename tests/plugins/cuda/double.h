// What tests ask of the double of the driver that the plugin has opened.
#pragma once

#include "fake_cuda/fake_cuda.h"

#include <tenon/devices.h>

/// Turns a flag on while it lives: ops without a kernel for the device run on the CPU.
class WithFallback {
 public:
  WithFallback();
  ~WithFallback();
};

inline constexpr tenon::Device gpu(tenon::DeviceType::cuda);
inline constexpr tenon::Device second_gpu(tenon::DeviceType::cuda, 1);

/// Whether the driver is the double: the tests run on a GPU, too, where its parts are skipped.
bool is_double();
#define TENON_NEEDS_THE_DOUBLE() \
  if (!is_double()) GTEST_SKIP() << "asks the double of the driver"
#define TENON_NEEDS_TWO_GPUS() \
  if (tenon::device_count(tenon::DeviceType::cuda) < 2) GTEST_SKIP() << "needs two devices"

FakeCudaCounts counts();
void fail_at(const char* function, uint64_t nth, int32_t result);
const char* failed_call();
/// The order in which streams of the double run; a GPU has its own.
void seed_streams(uint64_t seed);
void revive();
/// What a library does that waits for a stream: a capture of it is over then.
void wait_behind_the_plugin(void* stream);
/// What a library's thread does that makes the captured stream wait for its own behind each launch.
void join_behind_each(void* stream);
/// Who runs the kernels of the double.
void set_code(const FakeCudaCode* code);

/// The same elements on a device, made there by a copy.
tenon::Tensor moved(tenon::Device device, const tenon::Tensor& t);
inline tenon::Tensor to_cpu(const tenon::Tensor& t) { return moved(tenon::kCPU, t); }
