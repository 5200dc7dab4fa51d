// A backward pass in the engine's place: looked up, or recorded and compiled, then run.
#pragma once

#include "autograd/engine.h"

#include <memory>
#include <string>

namespace tenon::tape {

/// What passes are compiled with.
struct PassSettings {
  std::string backend, mode, options_toml;
  bool dynamic = true, fullgraph = false;
  uint64_t serial = 0;  ///< equal for equal settings
};

/// Whether this thread is in a pass that was taken, to its end.
bool in_pass();

/// False, with nothing done, where the engine must do it.
bool take_pass(const PassSettings& settings, const autograd::PassRequest& request,
               std::vector<Tensor>& captured);

struct PassFigures {
  int64_t captures, hits, eager_passes, departures, dropped;
};
PassFigures figures();
void forget_passes();

}  // namespace tenon::tape
