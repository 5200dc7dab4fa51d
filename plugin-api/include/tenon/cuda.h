/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/cuda.h - code on NVIDIA GPUs: extension "tenon.cuda", version 1. Valid C11 and C++17; the
 * rules of tenon/plugin.h hold.
 *
 *   const tn_cuda_api* cuda = host->extension(TN_CUDA_ID, TN_CUDA_VERSION);
 *   tn_cuda_module* module; tn_cuda_kernel* kernel;
 *   cuda->assemble(0, ptx, &sink);                       once: PTX to machine code, 20 ms
 *   cuda->module_load(0, code, &module);                 0.1 ms
 *   cuda->kernel(module, name, &kernel);
 *   void* args[] = {&pointer, &count};
 *   cuda->launch(kernel, &(tn_cuda_launch){...});
 *
 * The plugin cuda offers it; the manifest of a plugin that uses it says
 * `requires = ["tenon.cuda/1"]`. Memory, streams, events and copies are the host's:
 * host->tensor->empty, tn_call.stream. A device index of -1 means 0. Any threads; the driver is
 * opened by the first call that needs a device, and without one each of them fails with
 * TN_UNAVAILABLE and the reason.
 */
#ifndef TENON_CUDA_H
#define TENON_CUDA_H
#include <tenon/plugin.h>
/* clang-format off */
#ifdef __cplusplus
extern "C" {
#endif

#define TN_CUDA_ID "tenon.cuda"
#define TN_CUDA_VERSION 1u

typedef struct tn_cuda_module tn_cuda_module; /* machine code, loaded on one device */
typedef struct tn_cuda_kernel tn_cuda_kernel; /* belongs to its module */

/* What a device is made of. */
typedef struct tn_cuda_facts {
  uint32_t struct_size, warp;          /* threads of a warp */
  int32_t capability_major, capability_minor;
  uint32_t multiprocessors;
  uint32_t threads_per_block, threads_per_multiprocessor, blocks_per_multiprocessor;
  uint32_t registers_per_block, registers_per_multiprocessor; /* of 32 bits */
  uint32_t shared_per_block;           /* bytes that every launch may have */
  uint32_t shared_per_block_most;      /* with shared_bytes of a launch, beside the kernel's own */
  uint32_t shared_per_multiprocessor;
  uint32_t driver_version;             /* 13000 */
  uint64_t l2_bytes;
  tn_str arch;                         /* "sm_90"; a driver that is none of NVIDIA's may say
                                          another: "simt" takes code of the host's processor */
} tn_cuda_facts;

typedef struct tn_cuda_kernel_facts {
  uint32_t struct_size, registers;     /* of a thread */
  uint32_t local_bytes;                /* of a thread, in memory: spilled registers and arrays */
  uint32_t shared_bytes;               /* of a block, beside what a launch asks for */
  uint32_t threads_per_block;          /* at most */
  uint32_t _r0;
} tn_cuda_kernel_facts;

enum { TN_CUDA_LAUNCH_WAIT = 1 };      /* returns when the kernel is done, with its error */
typedef struct tn_cuda_launch {        /* borrowed for the call */
  uint32_t struct_size, flags;         /* TN_CUDA_LAUNCH_... */
  uint32_t grid[3], block[3];          /* a grid without blocks is not launched */
  uint32_t shared_bytes, _r0;          /* dynamic shared memory of a block */
  tn_stream* stream;                   /* of the module's device; NULL: the device's standard one */
  void* const* args;                   /* where the value of each parameter lies; copied */
} tn_cuda_launch;

/* What a kernel writes at the address of error_flag, with one store of 16 bytes, when it meets a
 * value that it cannot take. It then goes on without touching memory by that value. */
typedef struct tn_cuda_error_flag {    /* frozen, 16 bytes, aligned to 16 */
  int64_t check;                       /* what add_check gave; 0 = nothing happened */
  int64_t value;
} tn_cuda_error_flag;

typedef struct tn_cuda_api {
  uint32_t struct_size, _r0;
  /* Its texts stay valid until the process ends. */
  tn_status* (*facts)(int32_t dev, tn_cuda_facts* inout);

  /* PTX to machine code of the device, by the driver. The error has what the assembler says. */
  tn_status* (*assemble)(int32_t dev, tn_str ptx, const tn_sink* code);
  /* `image` is PTX text or machine code (cubin, fatbin). Equal images are loaded once a device.
   * `out` is a reference, to be released. */
  tn_status* (*module_load)(int32_t dev, tn_str image, tn_cuda_module** out);
  /* Behind the last launch: what is on a stream need not be done. */
  void (*module_release)(tn_cuda_module*);
  /* TN_NOT_FOUND where the module has no such kernel. Lives as long as the module. */
  tn_status* (*kernel)(tn_cuda_module*, tn_str name, tn_cuda_kernel** out);
  tn_status* (*kernel_facts)(tn_cuda_kernel*, tn_cuda_kernel_facts* inout);
  /* Enqueues. The error names kernel, grid, block and the driver's call. */
  tn_status* (*launch)(tn_cuda_kernel*, const tn_cuda_launch*);

  /* A function of a library of the vendor's, opened at the first question for it and never closed:
   * library("libcublasLt.so.13", ...). TN_UNAVAILABLE with the reason where the library is not
   * found, TN_NOT_FOUND where it has no such function. */
  tn_status* (*library_symbol)(tn_str library, tn_str name, void** out);
  /* The path of a file of the toolkit, "nvvm/libdevice/libdevice.10.bc", or of a library as above.
   * TN_UNAVAILABLE with the reason. The text stays valid until the process ends. */
  tn_status* (*find_file)(tn_str file, tn_str* path);

  /* 16 bytes of pinned memory of the calling thread, for a number on its way back. */
  tn_status* (*slot)(void** out);

  /* A message for kernels to point at; "{}" in it stands for the value. Kept for good, equal texts
   * once. `check` > 0 is the same in no other process: pass it as a parameter. */
  tn_status* (*add_check)(tn_str text, int64_t* check);
  /* Where kernels of the device write a tn_cuda_error_flag; host memory that they can reach. Who
   * waits for a stream or an event of the device, or copies from it, is told: TN_OUT_OF_RANGE with
   * the message of the check. The flag is then cleared. */
  tn_status* (*error_flag)(int32_t dev, tn_cuda_error_flag** out);

  /* For libraries of the vendor's: makes the device that of the calling thread, and gives the
   * driver's handle of a stream of it, a CUstream; that of NULL is NULL. A host of before has not
   * this slot: ask struct_size. */
  tn_status* (*native_stream)(int32_t dev, tn_stream* stream, void** out);
} tn_cuda_api;

/* clang-format on */
#ifdef __cplusplus
}
#endif
#endif
