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
// A stream that is captured collects nodes: launches, copies, fills. Whatever else it is asked for
// ends the capture with an error, as does waiting for the device, and what another thread enqueues
// there ends the process. Launching a graph enqueues its nodes as they are then, in an order drawn
// from the seed among those that its edges allow. Pages that are mapped to reserved addresses are memory like any other.
//
// Kernels are code of this process's processor: the architecture is "simt", and what an image is,
// says who gave the double a FakeCudaCode. A launch is work of its stream like a copy; while its
// kernel runs, and only then, device memory may be touched at the addresses that programs see.
//
// Libraries named libcublasLt.so.13 and libcudnn.so.9 lie beside it (fake_cublaslt.h, fake_cudnn.h).
// Their calls count and fail as the driver's do, with statuses of their own.
//
// Environment, read when the driver starts: TENON_FAKE_CUDA_DEVICES (1), _VERSION (13000),
// _CAPABILITY (90), _ARCH (simt), _MEMORY (bytes a device, 1 GiB), _SEED (1), _CRASH (0; 1: the
// start ends the process), and _FAIL, such as `cuMemcpyAsync:3:700` (the third call of it gives 700;
// `*` counts the calls of all functions).
// Tests reach what follows by dlsym on the library.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct FakeCudaCounts {
  uint64_t calls, allocations, bytes, streams, events, pinned;  // calls since the start, then alive
  uint64_t modules, launches;                                   // alive; since the start
  uint64_t graphs, graph_launches;                              // alive; since the start
  uint64_t mapped_bytes;                                        // behind reserved addresses
};

/// What a kernel is, told once, when it is asked for.
struct FakeCudaKernel {
  void* code;  ///< given back to `run`
  uint32_t n_parameters;
  const uint32_t* parameters;  ///< bytes of each: the values are copied when a launch is made
  uint32_t registers, local_bytes, shared_bytes, threads_per_block;
};
/// One launch, when its stream has come to it.
struct FakeCudaLaunch {
  uint32_t grid[3], block[3], shared_bytes;
  void* const* args;
  /// Whether all of these bytes are of one live allocation or of pinned memory.
  bool (*may_touch)(const void* address, size_t bytes);
};
/// Code for the double, by whoever can run it: a shim of threads, a test.
struct FakeCudaCode {
  void* self;
  /// What the bytes of a module are; null, with the reason in `why_not`, for what is no code. The
  /// bytes are the caller's again after the call. `unload` comes behind the module's last launch.
  void* (*load)(void* self, const void* image, size_t bytes, const char** why_not);
  void (*unload)(void* self, void* module);
  /// False where the module has no such kernel. What it tells stays valid until `unload`.
  bool (*find)(void* self, void* module, const char* name, FakeCudaKernel* out);
  /// Runs all blocks, and returns 0 or the CUresult that loses the device: 700 for a wrong address.
  int32_t (*run)(void* self, const FakeCudaKernel* kernel, const FakeCudaLaunch* launch);
};
/// Work of a stream that is no kernel of a module: that of a double of one of the vendor's libraries.
struct FakeCudaWork {
  void* self;
  /// When its stream has come to it; device memory may be touched. Returns 0 or a CUresult.
  int32_t (*run)(void* self, bool (*may_touch)(const void* address, size_t bytes));
  void (*drop)(void* self);  ///< once, behind the run or in its place
};
/// 0, or the CUresult of what is wrong with the stream; `drop` is then not called.
int32_t fake_cuda_enqueue(void* stream, const FakeCudaWork* work);
/// Until its capture ends, the stream waits for another one behind each of its pieces of work, as
/// where somebody forks and joins beside the thread that records: it ends in two nodes.
void fake_cuda_join(void* stream);
/// The calling thread's device, or -1.
int fake_cuda_current();
/// What a call of this function of a library gives in place of its own result; 0: nothing.
int32_t fake_cuda_instead_of(const char* function);

/// Valid until it is replaced; null takes it away. Calls come one at a time.
void fake_cuda_set_code(const FakeCudaCode* code);
FakeCudaCounts fake_cuda_counts();
/// Gives `result` in place of the call that is the `nth` of `function` from now on; 0 ends it.
void fake_cuda_fail(const char* function, uint64_t nth, int32_t result);
/// The name of the call that was made to fail last, or null.
const char* fake_cuda_failed();
void fake_cuda_seed(uint64_t seed);
/// Ends the loss of devices, as a new process would.
void fake_cuda_revive();
}
