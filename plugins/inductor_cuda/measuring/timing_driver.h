// What measuring and loading ahead ask of the driver: streams, events and copies of their own.
#pragma once

#include "../machine.h"

#include <cstdint>
#include <type_traits>

namespace inductor_cuda {

struct TimingDriver {
  using Result = int32_t;
  Result (*cuStreamCreateWithPriority)(void** stream, unsigned flags, int priority);
  Result (*cuStreamDestroy)(void* stream);
  Result (*cuStreamSynchronize)(void* stream);
  Result (*cuMemcpyAsync)(uint64_t to, uint64_t from, size_t bytes, void* stream);
  Result (*cuEventCreate)(void** event, unsigned flags);
  Result (*cuEventDestroy)(void* event);
  Result (*cuEventRecord)(void* event, void* stream);
  Result (*cuStreamWaitEvent)(void* stream, void* event, unsigned flags);
  Result (*cuEventElapsedTime)(float* milliseconds, void* begin, void* end);

  /// Throws `error` where the driver has not all of them.
  explicit TimingDriver(const Device& device);
  /// Throws `error` unless the driver did what it was called for.
  static void done(Result result, const char* call);
};

}  // namespace inductor_cuda
