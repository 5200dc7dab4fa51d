// What the driver's statuses become.
#pragma once

#include "driver.h"

#include <string>
#include <string_view>

namespace tenon::cuda {

class Gpu;

/// Whether a device that gave this error can only be left: every later call fails, too.
bool is_fatal(api::Result result);

/// Throws what `result` means unless it is success. `call` names the driver's function, `what` the
/// work that wanted it. An error that is fatal makes the device a lost one. Codes: TN_UNAVAILABLE
/// for a lost device, TN_OUT_OF_MEMORY, else TN_INTERNAL.
void check(Gpu& gpu, api::Result result, std::string_view call, std::string_view what);

/// `CU_TRY(gpu, "a copy of 8 bytes", cuMemcpyAsync, to, from, 8, stream)`
/// `what` is only evaluated where the call fails.
#define CU_TRY(gpu, what, function, ...)                                                    \
  do {                                                                                      \
    if (::tenon::cuda::api::Result result_ = ::tenon::cuda::driver().function(__VA_ARGS__)) \
      ::tenon::cuda::check(gpu, result_, #function, what);                                  \
  } while (false)

}  // namespace tenon::cuda
