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

/* What a parameter of a launch holds, for recordings (below), which change it where the next call
 * has another value. VALUE: the same for equal tn_call.syms. ADDRESS: device memory; a kernel that
 * finds further addresses in memory is launched without arg_info. NUMBER: read from `source_bytes`
 * of host memory at `source`, the rest is 0. SEED, OFFSET: from reserve_random. */
enum { TN_CUDA_ARG_VALUE = 0, TN_CUDA_ARG_ADDRESS = 1, TN_CUDA_ARG_NUMBER = 2, TN_CUDA_ARG_SEED = 3,
       TN_CUDA_ARG_OFFSET = 4 };
typedef struct tn_cuda_arg {           /* frozen, 16 bytes */
  uint32_t kind;                       /* TN_CUDA_ARG_... */
  uint16_t bytes, source_bytes;        /* of the parameter; of what NUMBER was read from */
  const void* source;
} tn_cuda_arg;

/* WAIT: returns when the kernel is done, with its error. BEGINS_WITH_WAIT: before it reads or writes
 * anything, each thread of the kernel waits for the work before it (griddepcontrol.wait), so that it
 * may be launched while that still runs. */
enum { TN_CUDA_LAUNCH_WAIT = 1, TN_CUDA_LAUNCH_BEGINS_WITH_WAIT = 2 };
typedef struct tn_cuda_launch {        /* borrowed for the call */
  uint32_t struct_size, flags;         /* TN_CUDA_LAUNCH_... */
  uint32_t grid[3], block[3];          /* a grid without blocks is not launched */
  uint32_t shared_bytes, _r0;          /* dynamic shared memory of a block */
  tn_stream* stream;                   /* of the module's device; NULL: the device's standard one */
  void* const* args;                   /* where the value of each parameter lies; copied */
  const tn_cuda_arg* arg_info;         /* [n_args] of all parameters. NULL: a recording takes the
                                          launch for work that may touch any memory */
  uint32_t n_args, _r1;
} tn_cuda_launch;

/* What a kernel writes at the address of error_flag, with one store of 16 bytes, when it meets a
 * value that it cannot take. It then goes on without touching memory by that value. */
typedef struct tn_cuda_error_flag {    /* frozen, 16 bytes, aligned to 16 */
  int64_t check;                       /* what add_check gave; 0 = nothing happened */
  int64_t value;
} tn_cuda_error_flag;

/* ---- functions that are recorded: CUDA graphs ----
 *
 *   tn_cuda_function_info info = {.struct_size = sizeof info, .device = 0, .name = ..., .n_inputs =
 *       ..., .inputs = ..., .self = me, .launch = launch_all, .drop = drop_me};
 *   cuda->function_new(&info, &function);
 *   cuda->function_run(function, call);          each call; runs `launch`, records it, or replays
 *   cuda->function_drop(function);
 *
 * A function is work that is the same for equal inputs in all but addresses and numbers. Its first
 * call runs `launch` as it is (the warm-up), the second one records what it launches and runs the
 * recording, later ones run the recording without `launch`. Where that cannot be, `launch` is
 * called, and the reason is counted and told. One recording serves calls of equal dtypes, sizes,
 * strides and symbols.
 *
 * While it is recorded, `launch` gets its memory (host->tensor->empty) from an arena that all
 * functions of the device and thread share; it may neither wait nor copy from or to the host, and
 * what it launches has not run when it returns. It is called again where the recording fails, so it
 * changes nothing but device memory. Nothing that it launches may lie on another stream than
 * call->stream, which is the thread's current one.
 */
typedef struct tn_cuda_function tn_cuda_function;

/* Of an input. STATIC: its address rarely changes (parameters, buffers). WRITTEN: the function
 * writes to it. NUMBER: a CPU tensor without dimensions; other tensors are of the device. BY_PLACE:
 * its offset within its storage matters, too (as_strided). */
enum { TN_CUDA_INPUT_STATIC = 1, TN_CUDA_INPUT_WRITTEN = 2, TN_CUDA_INPUT_NUMBER = 4,
       TN_CUDA_INPUT_BY_PLACE = 8 };
/* Of an output. SAVED: only read by other functions of the device, such as what a forward keeps for
 * its backward; its memory stays in the arena, and no later recording touches it while a tensor
 * holds it. Others go to the user: `outputs` below says where their memory is. */
enum { TN_CUDA_OUTPUT_SAVED = 1 };
typedef struct tn_cuda_value {         /* frozen, 24 bytes */
  uint32_t flags, _r0;                 /* TN_CUDA_INPUT_... or TN_CUDA_OUTPUT_... */
  tn_str name;                         /* for messages: "x"; of an output the op and source line
                                          that made it: "aten.relu.default at net.cpp:12" */
} tn_cuda_value;

/* FRESH: memory of their own; nothing overwrites them. POOL: memory of the arena, valid until the
 * next step begins; who then still holds one is told so by check_result. */
enum { TN_CUDA_OUTPUTS_FRESH = 0, TN_CUDA_OUTPUTS_POOL = 1 };
/* RECORD_AT_ONCE: no warm-up (skip_cudagraph_warmup). FORCE_WARMUP: not even then
 * (force_cudagraphs_warmup). FORWARD: a backward will take the saved outputs. OR_ERROR: what would
 * run `launch` for a reason is an error (cudagraph_or_error). NO_MANAGED_WRITES: runs directly
 * where a written input is another function's output in the arena. SYNC: each call waits for its
 * end.
 * POISON: freed memory of the arena becomes NaN. CHECKED: the arena's book is compared with the
 * live tensors after each recording (slow_path_cudagraph_asserts). DIRECT: never recorded, such as
 * by an option; the reason `disabled` is counted. NOT_DYNAMIC: with symbols, run directly
 * (cudagraph_skip_dynamic_graphs). */
enum { TN_CUDA_FN_RECORD_AT_ONCE = 1, TN_CUDA_FN_FORCE_WARMUP = 2, TN_CUDA_FN_FORWARD = 4,
       TN_CUDA_FN_OR_ERROR = 8, TN_CUDA_FN_NO_MANAGED_WRITES = 16, TN_CUDA_FN_SYNC = 32,
       TN_CUDA_FN_POISON = 64, TN_CUDA_FN_CHECKED = 128, TN_CUDA_FN_DIRECT = 256,
       TN_CUDA_FN_NOT_DYNAMIC = 512 };
typedef struct tn_cuda_function_info { /* borrowed for the call, texts too */
  uint32_t struct_size, flags;         /* TN_CUDA_FN_... */
  int32_t device; uint32_t outputs;    /* TN_CUDA_OUTPUTS_... */
  tn_str name;                         /* of the compiled graph, for messages and reports */
  uint32_t n_inputs, n_outputs, n_syms, n_capture_sizes;
  const tn_cuda_value* input_info;     /* [n_inputs] in the order of tn_call.inputs */
  const tn_cuda_value* output_info;    /* [n_outputs] */
  const int64_t* capture_sizes;        /* [n_capture_sizes * n_syms]: only these tuples of symbols
                                          are recorded; none: all */
  uint32_t max_sizes;                  /* recorded tuples kept, the oldest goes; 0: 32 */
  uint32_t size_warn_limit;            /* one warning above as many; 0: 8 */
  uint32_t rerecord_limit;             /* recordings of one tuple, then it runs directly; 0: 128 */
  uint32_t min_nodes;                  /* fewer nodes run directly: `too_small`; 0: any */
  uint64_t arena_bytes;                /* what the arena begins with; 0: grows as needed */
  void* self;
  /* As an artifact's call: outputs are new references. Any threads. */
  tn_status* (*launch)(void* self, tn_call*);
  void (*drop)(void* self);            /* optional; once, when the function is dropped */
  /* [n_constants] CPU tensors that `launch` may copy to the device: they never change. Kept. */
  tn_tensor* const* constants;
  uint32_t n_constants, _r0;
} tn_cuda_function_info;

/* Why a graph is not recorded at all, told by who decides it. Ids: cpu_node, multiple_devices,
 * mutated_inputs, input_storage_mutation, data_dependent, unsafe_op, sparse, dynamic_shapes,
 * rerecord_limit, too_small, capture_failed, memory, disabled. */
typedef struct tn_cuda_skip {          /* borrowed */
  uint32_t struct_size, _r0;
  tn_str function, reason;             /* the graph's name; an id of the above */
  tn_str sentence;                     /* "aten.nonzero has a size that depends on values" */
  tn_str node, source;                 /* "nonzero_1", "net.cpp:12"; may be empty */
} tn_cuda_skip;

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

  /* TN_INVALID_ARGUMENT for a description that does not hold. */
  tn_status* (*function_new)(const tn_cuda_function_info*, tn_cuda_function** out);
  /* The call of an artifact: borrows inputs, gives new outputs. Errors are those of `launch`; a
   * driver that refuses to record or to replay is a reason to call `launch`, not an error. Any
   * threads, one at a time each. With TN_CALL_OUTPUTS_GIVEN the outputs are filled. */
  tn_status* (*function_run)(tn_cuda_function*, tn_call*);
  /* No call in flight. What its outputs hold stays valid. Runs info.drop. */
  void (*function_drop)(tn_cuda_function*);
  /* A JSON object: name, sizes, recordings with nodes, bytes and why they were made, replays,
   * warm-ups, direct calls by reason. */
  tn_status* (*function_describe)(tn_cuda_function*, const tn_sink*);

  /* A new step of the user's loop begins (cudagraph_mark_step_begin): results in the arena are over
   * at the next call. */
  void (*mark_step)(void);
  /* The calling thread begins a compiled call that no other one is around. Where nobody says it,
   * each function_run without an input from the arena counts as one. */
  void (*begin_call)(void);
  /* Counts a graph that is not recorded and logs it once a graph and reason. */
  void (*note_skip)(const tn_cuda_skip*);
  /* A JSON object over all devices: functions, arenas, skips by reason, replays. */
  tn_status* (*describe_functions)(const tn_sink*);
  /* Waits for the devices, forgets all recordings and gives back memory that no tensor holds.
   * Functions stay and begin anew. */
  tn_status* (*reset_functions)(void);

  /* How many results there are whose memory a later step has taken and that tensors still hold:
   * while it is 0 check_result need not be asked. */
  const uint64_t* overwritten_results;
  /* TN_FAILED_PRECONDITION, with what made the result and what to do, for a tn_tensor.storage_id of
   * such a result. */
  tn_status* (*check_result)(uint64_t storage_id);

  /* Whether the stream is being recorded: what cannot be recorded may choose another way. */
  int32_t (*is_recording)(tn_stream*);
  /* Who launches otherwise than by `launch` (a vendor's library) says so behind the call: what has
   * come to the stream since the last launch touches the allocations that these addresses lie in,
   * and no other. Without it a recording copies what such work could read or write. */
  tn_status* (*note_foreign_work)(tn_stream*, void* const* addresses, uint32_t n);
  /* As host->svc->rng_reserve, for parameters SEED and OFFSET: a replay draws anew. */
  tn_status* (*reserve_random)(int32_t dev, tn_stream*, uint64_t n_4tuples, uint64_t* seed,
                               uint64_t* offset);

  /* For libraries of the vendor's: makes the device that of the calling thread, and gives the
   * driver's handle of a stream of it, a CUstream; that of NULL is NULL. A host of before has not
   * this slot: ask struct_size. */
  tn_status* (*native_stream)(int32_t dev, tn_stream* stream, void** out);

  /* Branches of a recording. What comes to a stream while it is recorded waits for all that came
   * before, unless it is told where to go on: mark_place gives a place behind what came last, and
   * what comes after continue_from waits for what came before these places alone. So pieces of work
   * that need nothing of each other run at once. The last call names the ends of all branches.
   * Memory that the function gives back on one branch another one may get: it keeps what it has
   * until its end. Without a recording nothing happens. Newer than native_stream. */
  tn_status* (*mark_place)(tn_stream*, uint32_t* place);
  tn_status* (*continue_from)(tn_stream*, const uint32_t* places, uint32_t n);

  /* Around what the calling thread enqueues otherwise than through this plugin, on the handle that
   * native_stream gives: another thread that begins to record the stream waits for the end, and
   * one that records it already is waited for. Without it the work may become a part of that recording,
   * and not run when it was meant to. Pairs may lie in one another. Newer than continue_from. */
  tn_status* (*enter_stream)(tn_stream*);
  void (*leave_stream)(tn_stream*);
} tn_cuda_api;

/* clang-format on */
#ifdef __cplusplus
}
#endif
#endif
