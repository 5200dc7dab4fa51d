// Work that a cancelled thread still brings to its end.
#pragma once

#include <pthread.h>

namespace tenon {

/// While it lives, pthread_cancel() of this thread waits: for code that unwinding must not leave in its
/// middle, such as functions that are noexcept and frames of libraries in C.
class CancellationOff {
 public:
  CancellationOff() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace tenon
