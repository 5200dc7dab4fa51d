// How code of the architecture "simt" is called: kernels for GPUs as code of the host's processor.
//
// The image of a module is a relocatable object. A kernel NAME is the function of that name and
// type SimtKernel; the constant NAME_facts is a SimtFacts. It is called once for each thread, and
// `barrier` and `shuffle` return when all threads of the block, of the warp, have come there.
#pragma once

#include <cstdint>

extern "C" {

/// What one thread sees. Its runner makes one for each.
struct SimtThread {
  uint32_t thread, block;
  char* shared;  // of the block
  void* runner;
  void (*barrier)(SimtThread*);
  /// The value that the thread whose number differs by `mask` gave.
  uint32_t (*shuffle)(SimtThread*, uint32_t value, uint32_t mask);
  /// Where the thread may use these bytes of global memory: that address, or another one where the
  /// access is wrong. `use`: 0 reads, 1 writes, 2 changes as one, 3 reports, which others may do too.
  void* (*global)(SimtThread*, void* address, uint64_t bytes, uint32_t use);
  /// The same of memory that the block shares.
  void* (*local)(SimtThread*, void* address, uint64_t bytes, uint32_t use);
};
using SimtKernel = void (*)(SimtThread*, void* const* args);

struct SimtFacts {
  uint32_t n_parameters;  // of 8 bytes each
  uint32_t threads;       // of a block
  uint64_t shared_bytes;
  uint64_t cooperates;  // 1: threads wait for each other; 0: they may run one after the other
};

}  // extern "C"
