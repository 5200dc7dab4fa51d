// The plugin's own declarations of the driver beside NVIDIA's: compiling this file is the test.
#include "api/driver.h"

#include "alike.h"

// Last: it defines macros with the names of the functions.
#include <cuda.h>
#include <cudaTypedefs.h>

// The driver gives the form of CUDA 13.0, which cuda.h does not declare.
std::remove_pointer_t<PFN_cuCtxSynchronize_v13000> synchronize_context;
#define cuCtxSynchronize synchronize_context

namespace {

namespace api = tenon::cuda::api;

template <class, class... Functions>
using Rest = std::tuple<Functions...>;
#define THEIR_TYPE(name, parameters) , decltype(&::name)
using Theirs = Rest<void TENON_CUDA_DRIVER_FUNCTIONS(THEIR_TYPE)>;
static_assert(all_alike<api::DriverFunctionTypes, Theirs>);

static_assert(sizeof(api::Ordinal) == sizeof(CUdevice) &&
              sizeof(api::Address) == sizeof(CUdeviceptr));

static_assert(sizeof(api::PoolProperties) == sizeof(CUmemPoolProps));
#define SAME_PLACE(ours, theirs) \
  static_assert(offsetof(api::PoolProperties, ours) == offsetof(CUmemPoolProps, theirs))
SAME_PLACE(allocation_type, allocType);
SAME_PLACE(handle_types, handleTypes);
SAME_PLACE(location_type, location.type);
SAME_PLACE(location_id, location.id);
SAME_PLACE(security_attributes, win32SecurityAttributes);
SAME_PLACE(max_size, maxSize);
SAME_PLACE(usage, usage);
static_assert(api::PoolProperties{}.allocation_type == int{CU_MEM_ALLOCATION_TYPE_PINNED});
static_assert(api::PoolProperties{}.location_type == int{CU_MEM_LOCATION_TYPE_DEVICE});

#undef SAME_PLACE

static_assert(sizeof(api::MemoryProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(api::MemoryProperties, location_id) ==
              offsetof(CUmemAllocationProp, location.id));
static_assert(api::MemoryProperties{}.allocation_type == int{CU_MEM_ALLOCATION_TYPE_PINNED});
static_assert(api::MemoryProperties{}.location_type == int{CU_MEM_LOCATION_TYPE_DEVICE});
static_assert(sizeof(api::MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(api::MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(api::MemoryHandle) == sizeof(CUmemGenericAllocationHandle));

static_assert(sizeof(api::KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
#define SAME_PLACE(ours, theirs) \
  static_assert(offsetof(api::KernelNode, ours) == offsetof(CUDA_KERNEL_NODE_PARAMS, theirs))
SAME_PLACE(grid, gridDimX);
SAME_PLACE(block, blockDimX);
SAME_PLACE(shared_bytes, sharedMemBytes);
SAME_PLACE(parameters, kernelParams);
SAME_PLACE(context, ctx);
#undef SAME_PLACE
static_assert(sizeof(api::LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(api::LaunchAttribute, is_allowed) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(api::LaunchConfig) == sizeof(CUlaunchConfig));
#define SAME_PLACE(ours, theirs) \
  static_assert(offsetof(api::LaunchConfig, ours) == offsetof(CUlaunchConfig, theirs))
SAME_PLACE(grid, gridDimX);
SAME_PLACE(block, blockDimX);
SAME_PLACE(shared_bytes, sharedMemBytes);
SAME_PLACE(stream, hStream);
SAME_PLACE(attributes, attrs);
SAME_PLACE(n_attributes, numAttrs);
#undef SAME_PLACE
static_assert(sizeof(api::CopyNode) == sizeof(CUDA_MEMCPY3D));
#define SAME_PLACE(ours, theirs) \
  static_assert(offsetof(api::CopyNode, ours) == offsetof(CUDA_MEMCPY3D, theirs))
SAME_PLACE(from.memory_type, srcMemoryType);
SAME_PLACE(from.device, srcDevice);
SAME_PLACE(from.height, srcHeight);
SAME_PLACE(to.memory_type, dstMemoryType);
SAME_PLACE(to.device, dstDevice);
SAME_PLACE(bytes, WidthInBytes);
SAME_PLACE(depth, Depth);
#undef SAME_PLACE
static_assert(sizeof(api::SetNode) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(offsetof(api::SetNode, element_bytes) ==
              offsetof(CUDA_MEMSET_NODE_PARAMS, elementSize));
static_assert(offsetof(api::SetNode, elements) == offsetof(CUDA_MEMSET_NODE_PARAMS, width));

#define SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<int64_t>(api::ours) == static_cast<int64_t>(theirs))
SAME_NUMBER(success, CUDA_SUCCESS);
SAME_NUMBER(error_invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME_NUMBER(error_out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(error_not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_NUMBER(error_deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_NUMBER(error_no_device, CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(error_invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME_NUMBER(error_invalid_ptx, CUDA_ERROR_INVALID_PTX);
SAME_NUMBER(error_not_found, CUDA_ERROR_NOT_FOUND);
SAME_NUMBER(error_ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_NUMBER(error_nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_NUMBER(error_contained, CUDA_ERROR_CONTAINED);
SAME_NUMBER(error_not_ready, CUDA_ERROR_NOT_READY);
SAME_NUMBER(error_illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_NUMBER(error_launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_NUMBER(error_context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_NUMBER(error_assert, CUDA_ERROR_ASSERT);
SAME_NUMBER(error_hardware_stack, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_NUMBER(error_illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME_NUMBER(error_misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME_NUMBER(error_invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME_NUMBER(error_invalid_pc, CUDA_ERROR_INVALID_PC);
SAME_NUMBER(error_launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME_NUMBER(error_system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_NUMBER(attribute_multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(attribute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(attribute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(attribute_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_NUMBER(attribute_shared_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME_NUMBER(attribute_warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME_NUMBER(attribute_registers_per_block, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
SAME_NUMBER(attribute_l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_NUMBER(attribute_threads_per_multiprocessor,
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME_NUMBER(attribute_shared_per_multiprocessor,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME_NUMBER(attribute_registers_per_multiprocessor,
            CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME_NUMBER(attribute_shared_per_block_most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(attribute_blocks_per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
SAME_NUMBER(launch_programmatic_serialization,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_NUMBER(function_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_NUMBER(function_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_NUMBER(function_local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME_NUMBER(function_registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_NUMBER(function_dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(jit_error_log, CU_JIT_ERROR_LOG_BUFFER);
SAME_NUMBER(jit_error_log_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_NUMBER(jit_input_ptx, CU_JIT_INPUT_PTX);
SAME_NUMBER(attribute_memory_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME_NUMBER(pool_release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_NUMBER(pool_reserved_current, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
SAME_NUMBER(pool_used_current, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
SAME_NUMBER(pool_used_high, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME_NUMBER(error_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_NUMBER(error_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_NUMBER(error_capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME_NUMBER(capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(capture_active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_NUMBER(set_dependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
SAME_NUMBER(granularity_recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME_NUMBER(memory_of_device, CU_MEMORYTYPE_DEVICE);
SAME_NUMBER(access_read_and_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_NUMBER(stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(host_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME_NUMBER(host_mapped, CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(api::driver_version <= CUDA_VERSION);

}  // namespace
