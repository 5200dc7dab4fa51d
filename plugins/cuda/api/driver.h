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
struct OpaqueGraph;
struct OpaqueGraphExec;
struct OpaqueGraphNode;
struct OpaqueGraphEdge;
using Context = OpaqueContext*;
using Stream = OpaqueStream*;
using Event = OpaqueEvent*;
using Pool = OpaquePool*;
using Module = OpaqueModule*;
using Function = OpaqueFunction*;
using LinkState = OpaqueLink*;
using Graph = OpaqueGraph*;
using GraphExec = OpaqueGraphExec*;
using GraphNode = OpaqueGraphNode*;
using MemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle

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
  error_capture_unsupported = 900,
  error_capture_invalidated = 901,
  error_capture_isolation = 905,
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

enum : int32_t { launch_programmatic_serialization = 6 };  // CUlaunchAttributeID

enum JitOption : int32_t { jit_error_log = 5, jit_error_log_bytes = 6 };

enum : int32_t { jit_input_ptx = 1 };

enum : int32_t {  // CUmemPool_attribute, uint64_t each
  pool_release_threshold = 4,
  pool_reserved_current = 5,
  pool_used_current = 7,
  pool_used_high = 8,
};

enum : int32_t {
  capture_relaxed = 2,          // CUstreamCaptureMode
  capture_active = 1,           // CUstreamCaptureStatus
  granularity_recommended = 1,  // CUmemAllocationGranularity_flags
  memory_of_device = 2,         // CUmemorytype
  access_read_and_write = 3,    // CUmemAccess_flags
};

enum : unsigned {
  stream_non_blocking = 1,
  set_dependencies = 1,  // CUstreamUpdateCaptureDependencies_flags
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

/// CUmemAllocationProp.
struct MemoryProperties {
  int32_t allocation_type = 1;  // pinned to the device
  int32_t handle_types = 0;     // shared with no other process
  int32_t location_type = 1;    // a device
  int32_t location_id = 0;
  void* win32_handle_data = nullptr;
  unsigned char flags[8] = {};
};

/// CUmemAccessDesc.
struct MemoryAccess {
  int32_t location_type = 1;  // a device
  int32_t location_id = 0;
  int32_t flags = access_read_and_write;
};

/// CUDA_KERNEL_NODE_PARAMS.
struct KernelNode {
  Function function = nullptr;
  unsigned grid[3] = {}, block[3] = {};
  unsigned shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;
};

/// CUlaunchAttribute, of which one kind is used.
struct LaunchAttribute {
  int32_t kind = 0;
  int32_t unused = 0;
  int32_t is_allowed = 0;
  char rest[60] = {};
};
/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3] = {}, block[3] = {};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned n_attributes = 0;
};

/// CUDA_MEMCPY3D: of bytes in one row, on one device.
struct CopyNode {
  struct Side {
    size_t x = 0, y = 0, z = 0, lod = 0;
    int32_t memory_type = memory_of_device;
    const void* host = nullptr;
    Address device = 0;
    void* array = nullptr;
    void* reserved = nullptr;
    size_t pitch = 0, height = 0;
  } from, to;
  size_t bytes = 0, height = 1, depth = 1;
};

/// CUDA_MEMSET_NODE_PARAMS: of elements in one row.
struct SetNode {
  Address to = 0;
  size_t pitch = 0;
  unsigned value = 0, element_bytes = 1;
  size_t elements = 0, rows = 1;
};

/// F(name, parameters): every function of the driver that is called.
#define TENON_CUDA_DRIVER_FUNCTIONS(F)                                                             \
  F(cuInit, (unsigned flags))                                                                      \
  F(cuDriverGetVersion, (int* version))                                                            \
  F(cuGetErrorName, (Result error, const char** name))                                             \
  F(cuGetErrorString, (Result error, const char** text))                                           \
  F(cuDeviceGetCount, (int* count))                                                                \
  F(cuDeviceGet, (Ordinal * device, int ordinal))                                                  \
  F(cuDeviceGetName, (char* name, int length, Ordinal device))                                     \
  F(cuDeviceTotalMem, (size_t * bytes, Ordinal device))                                            \
  F(cuDeviceGetAttribute, (int* value, int32_t attribute, Ordinal device))                         \
  F(cuDevicePrimaryCtxRetain, (Context * context, Ordinal device))                                 \
  F(cuCtxSetCurrent, (Context context))                                                            \
  F(cuCtxSynchronize, (Context context))                                                           \
  F(cuMemGetInfo, (size_t * free, size_t * total))                                                 \
  F(cuMemPoolCreate, (Pool * pool, const PoolProperties* properties))                              \
  F(cuMemPoolDestroy, (Pool pool))                                                                 \
  F(cuMemPoolSetAttribute, (Pool pool, int32_t attribute, void* value))                            \
  F(cuMemPoolGetAttribute, (Pool pool, int32_t attribute, void* value))                            \
  F(cuMemPoolTrimTo, (Pool pool, size_t bytes_to_keep))                                            \
  F(cuMemAllocFromPoolAsync, (Address * address, size_t bytes, Pool pool, Stream stream))          \
  F(cuMemFreeAsync, (Address address, Stream stream))                                              \
  F(cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                                 \
  F(cuMemFreeHost, (void* memory))                                                                 \
  F(cuMemcpyAsync, (Address to, Address from, size_t bytes, Stream stream))                        \
  F(cuMemsetD8Async, (Address to, unsigned char byte, size_t bytes, Stream stream))                \
  F(cuStreamCreateWithPriority, (Stream * stream, unsigned flags, int priority))                   \
  F(cuStreamDestroy, (Stream stream))                                                              \
  F(cuStreamSynchronize, (Stream stream))                                                          \
  F(cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                               \
  F(cuEventCreate, (Event * event, unsigned flags))                                                \
  F(cuEventDestroy, (Event event))                                                                 \
  F(cuEventRecord, (Event event, Stream stream))                                                   \
  F(cuEventQuery, (Event event))                                                                   \
  F(cuEventSynchronize, (Event event))                                                             \
  F(cuEventElapsedTime, (float* milliseconds, Event begin, Event end))                             \
  F(cuModuleLoadDataEx,                                                                            \
    (Module * module, const void* image, unsigned n_options, JitOption* options, void** values))   \
  F(cuModuleUnload, (Module module))                                                               \
  F(cuModuleGetFunction, (Function * function, Module module, const char* name))                   \
  F(cuFuncGetAttribute, (int* value, int32_t attribute, Function function))                        \
  F(cuFuncSetAttribute, (Function function, int32_t attribute, int value))                         \
  F(cuLaunchKernel, (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,         \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,  \
                     Stream stream, void** parameters, void** extra))                              \
  F(cuLaunchKernelEx,                                                                              \
    (const LaunchConfig* how, Function function, void** parameters, void** extra))                 \
  F(cuLinkCreate, (unsigned n_options, JitOption* options, void** values, LinkState* state))       \
  F(cuLinkAddData, (LinkState state, int32_t kind, void* data, size_t bytes, const char* name,     \
                    unsigned n_options, JitOption* options, void** values))                        \
  F(cuLinkComplete, (LinkState state, void** code, size_t* bytes))                                 \
  F(cuLinkDestroy, (LinkState state))                                                              \
  F(cuMemsetD16Async, (Address to, unsigned short value, size_t elements, Stream stream))          \
  F(cuMemsetD32Async, (Address to, unsigned value, size_t elements, Stream stream))                \
  F(cuMemAddressReserve,                                                                           \
    (Address * address, size_t bytes, size_t alignment, Address at, unsigned long long flags))     \
  F(cuMemAddressFree, (Address address, size_t bytes))                                             \
  F(cuMemGetAllocationGranularity,                                                                 \
    (size_t * bytes, const MemoryProperties* properties, int32_t option))                          \
  F(cuMemCreate, (MemoryHandle * memory, size_t bytes, const MemoryProperties* properties,         \
                  unsigned long long flags))                                                       \
  F(cuMemRelease, (MemoryHandle memory))                                                           \
  F(cuMemMap,                                                                                      \
    (Address address, size_t bytes, size_t offset, MemoryHandle memory, unsigned long long flags)) \
  F(cuMemUnmap, (Address address, size_t bytes))                                                   \
  F(cuMemSetAccess, (Address address, size_t bytes, const MemoryAccess* access, size_t n))         \
  F(cuStreamBeginCapture, (Stream stream, int32_t mode))                                           \
  F(cuStreamEndCapture, (Stream stream, Graph * graph))                                            \
  F(cuStreamGetCaptureInfo, (Stream stream, int32_t * status, uint64_t * id, Graph * graph,        \
                             const GraphNode** last, const OpaqueGraphEdge** edges, size_t* n))    \
  F(cuStreamUpdateCaptureDependencies,                                                             \
    (Stream stream, GraphNode * nodes, const OpaqueGraphEdge* edges, size_t n, unsigned flags))    \
  F(cuGraphGetNodes, (Graph graph, GraphNode * nodes, size_t * n))                                 \
  F(cuGraphInstantiateWithFlags, (GraphExec * executable, Graph graph, unsigned long long flags))  \
  F(cuGraphLaunch, (GraphExec executable, Stream stream))                                          \
  F(cuGraphExecKernelNodeSetParams,                                                                \
    (GraphExec executable, GraphNode node, const KernelNode* parameters))                          \
  F(cuGraphExecMemcpyNodeSetParams,                                                                \
    (GraphExec executable, GraphNode node, const CopyNode* parameters, Context context))           \
  F(cuGraphExecMemsetNodeSetParams,                                                                \
    (GraphExec executable, GraphNode node, const SetNode* parameters, Context context))            \
  F(cuGraphExecDestroy, (GraphExec executable))                                                    \
  F(cuGraphDestroy, (Graph graph))

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
