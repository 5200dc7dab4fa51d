// A double of NVIDIA's driver for machines without a GPU: a library named libcuda.so.1 whose
// "device" is memory of this process that only the double itself can touch.
//
// Problem: code for a device goes wrong in ways that a CPU hides: the host reads a device address,
// memory goes back while a stream still uses it, a copy runs before the work that it waits for.
//
// Model: one driver per process, one lock. Device memory is mapped twice from one file: at the
// address that programs see nobody may read or write, so that a dereference is a fault; the double
// works through the other mapping. A stream is a queue. Nothing runs before somebody waits, and
// then, until what is waited for has run, the double takes the next piece of work of a stream drawn
// from a seed among those that events allow. Fresh and freed memory is filled with a pattern that
// is a NaN in every float type. Work that touches memory outside of a live allocation loses the
// device, as on a real one.
//
// Environment, read when the driver starts: TENON_FAKE_CUDA_DEVICES (1), _VERSION (13000),
// _CAPABILITY (90), _MEMORY (bytes a device, 1 GiB), _SEED (1), and _FAIL, such as
// `cuMemcpyAsync:3:700` (the third call of it gives 700; `*` counts the calls of all functions).
// Tests reach what follows by dlsym on the library.
#pragma once

#include <cstdint>

extern "C" {
struct FakeCudaCounts {
  uint64_t calls, allocations, bytes, streams, events, pinned;  // calls since the start, then alive
};
FakeCudaCounts fake_cuda_counts();
/// Gives `result` in place of the call that is the `nth` of `function` from now on; 0 ends it.
void fake_cuda_fail(const char* function, uint64_t nth, int32_t result);
/// The name of the call that was made to fail last, or null.
const char* fake_cuda_failed();
void fake_cuda_seed(uint64_t seed);
/// Ends the loss of devices, as a new process would.
void fake_cuda_revive();
}
