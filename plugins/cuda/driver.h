// Finding NVIDIA's driver at run time, and why there is none.
#pragma once

#include "api/driver.h"

#include <string>

namespace tenon::cuda {

/// What opening the driver came to. `devices` is 0 exactly when `why_not` says something.
struct Opened {
  api::Driver functions;
  int devices = 0;
  int version = 0;           ///< of the driver, as 13000
  std::string library;       ///< the file that was opened
  std::string architecture;  ///< where the driver names its own; else that of each GPU
  std::string why_not;
};

/// Opens libcuda.so.1 and starts it at the first call, which takes some 0.4 s with a real driver;
/// every later one gives the same. Threads: any. Never throws for a driver that is not there.
const Opened& opened();

/// Whether the driver was opened by a process that this one was forked from: it does not survive
/// that.
bool is_forked_child();

/// The driver's functions. Throws TN_UNAVAILABLE with the reason where there is no device.
const api::Driver& driver();

}  // namespace tenon::cuda
