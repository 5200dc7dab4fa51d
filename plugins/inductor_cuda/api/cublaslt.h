// The part of NVIDIA's cuBLASLt that this plugin calls, declared here so that neither the build nor
// the product needs a toolkit. The test cublaslt_api_matches compares it with the toolkit's own
// header, function by function, where one is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace inductor_cuda::lt {

using Status = int32_t;  // cublasStatus_t
struct OpaqueHandle;
struct OpaqueOperation;
struct OpaqueLayout;
struct OpaquePreference;
struct OpaqueStream;
using Handle = OpaqueHandle*;          // of the device that is the thread's own when it is made
using Operation = OpaqueOperation*;    // cublasLtMatmulDesc_t
using Layout = OpaqueLayout*;          // cublasLtMatrixLayout_t
using Preference = OpaquePreference*;  // cublasLtMatmulPreference_t
using Stream = OpaqueStream*;

enum : Status {
  success = 0,
  not_initialized = 1,
  invalid_value = 7,
  architecture_mismatch = 8,
  execution_failed = 13,
  internal_error = 14,
  not_supported = 15,
};

enum Compute : int32_t { compute_f32 = 68, compute_tf32 = 77, compute_f64 = 70 };
enum Type : int32_t { type_f32 = 0, type_f64 = 1, type_f16 = 2, type_bf16 = 14 };
enum Transposition : int32_t { as_is = 0, transposed = 1 };

enum OperationAttribute : int32_t {
  operation_left_transposition = 3,
  operation_right_transposition = 4,
  operation_epilogue = 7,
  operation_bias = 8,  // an address on the device
};
enum Epilogue : uint32_t {
  epilogue_none = 1,
  epilogue_relu = 2,
  epilogue_bias = 4,
  epilogue_relu_bias = 6,
  epilogue_gelu = 32,  // the form with tanh
  epilogue_gelu_bias = 36,
};

enum LayoutAttribute : int32_t { layout_batches = 5, layout_batch_stride = 6 };

enum PreferenceAttribute : int32_t {
  preference_workspace_bytes = 1,
  preference_reductions = 3,
  preference_alignment_left = 5,  // in bytes
  preference_alignment_right = 6,
  preference_alignment_added = 7,
  preference_alignment_result = 8,
};
/// Ways to sum up what blocks have, as bits.
enum Reduction : uint32_t {
  reduction_in_place = 1,
  reduction_in_sums = 2,
  reduction_in_results = 4,
  reduction_any = 7
};

/// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct Candidate {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int32_t reserved[4];
};

/// F(result, name, parameters): every function that is called. Matrices are column by column;
/// result = alpha * (left x right) + beta * added.
#define TENON_CUBLASLT_FUNCTIONS(F)                                                               \
  F(Status, cublasLtCreate, (Handle * handle))                                                    \
  F(const char*, cublasLtGetStatusName, (Status status))                                          \
  F(size_t, cublasLtGetVersion, ())                                                               \
  F(Status, cublasLtMatmulDescCreate, (Operation * operation, Compute compute, Type scale))       \
  F(Status, cublasLtMatmulDescDestroy, (Operation operation))                                     \
  F(Status, cublasLtMatmulDescSetAttribute,                                                       \
    (Operation operation, OperationAttribute attribute, const void* value, size_t bytes))         \
  F(Status, cublasLtMatrixLayoutCreate,                                                           \
    (Layout * layout, Type type, uint64_t rows, uint64_t columns, int64_t column_stride))         \
  F(Status, cublasLtMatrixLayoutDestroy, (Layout layout))                                         \
  F(Status, cublasLtMatrixLayoutSetAttribute,                                                     \
    (Layout layout, LayoutAttribute attribute, const void* value, size_t bytes))                  \
  F(Status, cublasLtMatmulPreferenceCreate, (Preference * preference))                            \
  F(Status, cublasLtMatmulPreferenceDestroy, (Preference preference))                             \
  F(Status, cublasLtMatmulPreferenceSetAttribute,                                                 \
    (Preference preference, PreferenceAttribute attribute, const void* value, size_t bytes))      \
  F(Status, cublasLtMatmulAlgoGetHeuristic,                                                       \
    (Handle handle, Operation operation, Layout left, Layout right, Layout added, Layout result,  \
     Preference preference, int wanted, Candidate* candidates, int* found))                       \
  F(Status, cublasLtMatmul,                                                                       \
    (Handle handle, Operation operation, const void* alpha, const void* left, Layout left_layout, \
     const void* right, Layout right_layout, const void* beta, const void* added,                 \
     Layout added_layout, void* result, Layout result_layout, const Algorithm* algorithm,         \
     void* workspace, size_t workspace_bytes, Stream stream))

/// The library's functions, all of them or none.
struct Functions {
#define TENON_CUBLASLT_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  TENON_CUBLASLT_FUNCTIONS(TENON_CUBLASLT_MEMBER)
#undef TENON_CUBLASLT_MEMBER
};

/// Their types in order, for comparing them with another declaration.
#define TENON_CUBLASLT_TYPE(result, name, parameters) , result(*) parameters
template <class, class... Functions>
using TypesAfterFirst = std::tuple<Functions...>;
using FunctionTypes = TypesAfterFirst<void TENON_CUBLASLT_FUNCTIONS(TENON_CUBLASLT_TYPE)>;
#undef TENON_CUBLASLT_TYPE

}  // namespace inductor_cuda::lt
