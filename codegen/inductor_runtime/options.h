// What a user may set of a compiled graph, as the parts of the compiler and its calls want it.
#pragma once

#include "kernel_interface.h"
#include "workers.h"

#include <loopir/kernel.h>

#include <cstdint>
#include <string>

namespace inductor {

struct Options {
  loopir::LoweringOptions lowering;
  loopir::FusionOptions fusion;
  CodeOptions code;
  Workers workers;
  int64_t compile_threads = 0;  // 0: all of the host's
  std::string failing_kernels;  // part of a name; empty: none
  bool fails_on_extern = false, fuses_epilogues = true, packs_weights = true;
  bool plans_memory = true, reuses_memory = true, works_in_place = true;
  bool tries_ways = false;  // max_autotune
  bool verifies = false, profiles = false, names_for_perf = false;
};

}  // namespace inductor
