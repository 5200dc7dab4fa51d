// What calls of a compiled graph ask about how it was compiled.
#pragma once

#include "kernel_interface.h"
#include "workers.h"

namespace inductor {

struct RunOptions {
  CodeOptions code;
  Workers workers;
  bool packs_weights = true, plans_memory = true, reuses_memory = true;
  bool verifies = false, profiles = false;
};

}  // namespace inductor
