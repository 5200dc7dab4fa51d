// Anomaly mode of this thread, and where nodes were made.
#pragma once

#include "autograd/node.h"

namespace tenon::autograd {

struct AnomalyMode {
  bool enabled = false, check_nan = true;
};
AnomalyMode& anomaly_mode();

}  // namespace tenon::autograd
