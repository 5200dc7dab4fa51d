// The part of NVIDIA's driver interface that this plugin calls, declared here so that neither the
// build nor the product needs a toolkit. The test cuda_api_matches compares it with the toolkit's
// own header, function by function, where one is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace tenon::cuda::api {

/// The interface that the symbols are asked for, and the oldest driver that has it.
inline constexpr int driver_version = 13000;

using Result = int32_t;              // CUresult
using Ordinal = int32_t;             // CUdevice
using Address = unsigned long long;  // CUdeviceptr
struct OpaqueContext;
struct OpaqueStream;
struct OpaqueEvent;
struct OpaquePool;
struct OpaqueModule;
struct OpaqueFunction;
struct OpaqueLink;
using Context = OpaqueContext*;
using Stream = OpaqueStream*;
using Event = OpaqueEvent*;
using Pool = OpaquePool*;
using Module = OpaqueModule*;
using Function = OpaqueFunction*;
using LinkState = OpaqueLink*;

enum : Result {
  success = 0,
  error_invalid_value = 1,
  error_out_of_memory = 2,
  error_not_initialized = 3,
  error_deinitialized = 4,
  error_no_device = 100,
  error_invalid_image = 200,
  error_ecc_uncorrectable = 214,
  error_invalid_ptx = 218,
  error_nvlink_uncorrectable = 220,
  error_contained = 226,
  error_not_found = 500,
  error_not_ready = 600,
  error_illegal_address = 700,
  error_launch_timeout = 702,
  error_context_is_destroyed = 709,
  error_assert = 710,
  error_hardware_stack = 714,
  error_illegal_instruction = 715,
  error_misaligned_address = 716,
  error_invalid_address_space = 717,
  error_invalid_pc = 718,
  error_launch_failed = 719,
  error_system_driver_mismatch = 803,
};

enum : int32_t {  // CUdevice_attribute
  attribute_threads_per_block = 1,
  attribute_shared_per_block = 8,
  attribute_warp = 10,
  attribute_registers_per_block = 12,
  attribute_multiprocessors = 16,
  attribute_l2_bytes = 38,
  attribute_threads_per_multiprocessor = 39,
  attribute_capability_major = 75,
  attribute_capability_minor = 76,
  attribute_shared_per_multiprocessor = 81,
  attribute_registers_per_multiprocessor = 82,
  attribute_shared_per_block_most = 97,
  attribute_blocks_per_multiprocessor = 106,
  attribute_memory_pools = 115,
};

enum : int32_t {  // CUfunction_attribute
  function_threads_per_block = 0,
  function_shared_bytes = 1,
  function_local_bytes = 3,
  function_registers = 4,
  function_dynamic_shared_bytes = 8,
};

enum JitOption : int32_t { jit_error_log = 5, jit_error_log_bytes = 6 };

enum : int32_t { jit_input_ptx = 1 };

enum : int32_t {  // CUmemPool_attribute, uint64_t each
  pool_release_threshold = 4,
  pool_reserved_current = 5,
  pool_used_current = 7,
  pool_used_high = 8,
};

enum : unsigned {
  stream_non_blocking = 1,
  event_disable_timing = 2,
  host_portable = 1,
  host_mapped = 2
};

/// CUmemPoolProps.
struct PoolProperties {
  int32_t allocation_type = 1;  // pinned to the device, the only one
  int32_t handle_types = 0;     // shared with no other process
  int32_t location_type = 1;    // a device
  int32_t location_id = 0;
  void* security_attributes = nullptr;
  size_t max_size = 0;  // as much as there is
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};

/// F(name, parameters): every function of the driver that is called.
#define TENON_CUDA_DRIVER_FUNCTIONS(F)                                                            \
  F(cuInit, (unsigned flags))                                                                     \
  F(cuDriverGetVersion, (int* version))                                                           \
  F(cuGetErrorName, (Result error, const char** name))                                            \
  F(cuGetErrorString, (Result error, const char** text))                                          \
  F(cuDeviceGetCount, (int* count))                                                               \
  F(cuDeviceGet, (Ordinal * device, int ordinal))                                                 \
  F(cuDeviceGetName, (char* name, int length, Ordinal device))                                    \
  F(cuDeviceTotalMem, (size_t * bytes, Ordinal device))                                           \
  F(cuDeviceGetAttribute, (int* value, int32_t attribute, Ordinal device))                        \
  F(cuDevicePrimaryCtxRetain, (Context * context, Ordinal device))                                \
  F(cuCtxSetCurrent, (Context context))                                                           \
  F(cuCtxSynchronize, (Context context))                                                          \
  F(cuMemGetInfo, (size_t * free, size_t * total))                                                \
  F(cuMemPoolCreate, (Pool * pool, const PoolProperties* properties))                             \
  F(cuMemPoolDestroy, (Pool pool))                                                                \
  F(cuMemPoolSetAttribute, (Pool pool, int32_t attribute, void* value))                           \
  F(cuMemPoolGetAttribute, (Pool pool, int32_t attribute, void* value))                           \
  F(cuMemPoolTrimTo, (Pool pool, size_t bytes_to_keep))                                           \
  F(cuMemAllocFromPoolAsync, (Address * address, size_t bytes, Pool pool, Stream stream))         \
  F(cuMemFreeAsync, (Address address, Stream stream))                                             \
  F(cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                                \
  F(cuMemFreeHost, (void* memory))                                                                \
  F(cuMemcpyAsync, (Address to, Address from, size_t bytes, Stream stream))                       \
  F(cuMemsetD8Async, (Address to, unsigned char byte, size_t bytes, Stream stream))               \
  F(cuStreamCreateWithPriority, (Stream * stream, unsigned flags, int priority))                  \
  F(cuStreamDestroy, (Stream stream))                                                             \
  F(cuStreamSynchronize, (Stream stream))                                                         \
  F(cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                              \
  F(cuEventCreate, (Event * event, unsigned flags))                                               \
  F(cuEventDestroy, (Event event))                                                                \
  F(cuEventRecord, (Event event, Stream stream))                                                  \
  F(cuEventQuery, (Event event))                                                                  \
  F(cuEventSynchronize, (Event event))                                                            \
  F(cuEventElapsedTime, (float* milliseconds, Event begin, Event end))                            \
  F(cuModuleLoadDataEx,                                                                           \
    (Module * module, const void* image, unsigned n_options, JitOption* options, void** values))  \
  F(cuModuleUnload, (Module module))                                                              \
  F(cuModuleGetFunction, (Function * function, Module module, const char* name))                  \
  F(cuFuncGetAttribute, (int* value, int32_t attribute, Function function))                       \
  F(cuFuncSetAttribute, (Function function, int32_t attribute, int value))                        \
  F(cuLaunchKernel, (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,        \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, \
                     Stream stream, void** parameters, void** extra))                             \
  F(cuLinkCreate, (unsigned n_options, JitOption* options, void** values, LinkState* state))      \
  F(cuLinkAddData, (LinkState state, int32_t kind, void* data, size_t bytes, const char* name,    \
                    unsigned n_options, JitOption* options, void** values))                       \
  F(cuLinkComplete, (LinkState state, void** code, size_t* bytes))                                \
  F(cuLinkDestroy, (LinkState state))

/// The driver's functions, all of them or none.
struct Driver {
#define TENON_CUDA_MEMBER(name, parameters) Result(*name) parameters = nullptr;
  TENON_CUDA_DRIVER_FUNCTIONS(TENON_CUDA_MEMBER)
#undef TENON_CUDA_MEMBER
};

/// Their types in order, for comparing them with another declaration.
#define TENON_CUDA_TYPE(name, parameters) , Result(*) parameters
template <class, class... Functions>
using TypesAfterFirst = std::tuple<Functions...>;
using DriverFunctionTypes = TypesAfterFirst<void TENON_CUDA_DRIVER_FUNCTIONS(TENON_CUDA_TYPE)>;
#undef TENON_CUDA_TYPE

/// The driver's cuGetProcAddress, the only symbol that is looked up by name.
using GetProcAddress = Result (*)(const char* symbol, void** function, int version, uint64_t flags,
                                  int32_t* found);

}  // namespace tenon::cuda::api
