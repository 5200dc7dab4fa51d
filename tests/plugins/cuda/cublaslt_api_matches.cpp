// The plugin's own declarations of cuBLASLt beside NVIDIA's: compiling this file is the test.
#include "api/cublaslt.h"

#include "alike.h"

#include <cublasLt.h>

#include <cstddef>

namespace {

namespace lt = inductor_cuda::lt;

template <class, class... Functions>
using Rest = std::tuple<Functions...>;
#define THEIR_TYPE(result, name, parameters) , decltype(&::name)
using Theirs = Rest<void TENON_CUBLASLT_FUNCTIONS(THEIR_TYPE)>;
static_assert(all_alike<lt::FunctionTypes, Theirs>);

static_assert(sizeof(lt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(lt::Candidate) == sizeof(cublasLtMatmulHeuristicResult_t));
#define SAME_PLACE(ours, theirs) \
  static_assert(offsetof(lt::Candidate, ours) == offsetof(cublasLtMatmulHeuristicResult_t, theirs))
SAME_PLACE(algorithm, algo);
SAME_PLACE(workspace_bytes, workspaceSize);
SAME_PLACE(state, state);
SAME_PLACE(waves, wavesCount);

#define SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<int64_t>(lt::ours) == static_cast<int64_t>(theirs))
SAME_NUMBER(success, CUBLAS_STATUS_SUCCESS);
SAME_NUMBER(not_initialized, CUBLAS_STATUS_NOT_INITIALIZED);
SAME_NUMBER(invalid_value, CUBLAS_STATUS_INVALID_VALUE);
SAME_NUMBER(architecture_mismatch, CUBLAS_STATUS_ARCH_MISMATCH);
SAME_NUMBER(execution_failed, CUBLAS_STATUS_EXECUTION_FAILED);
SAME_NUMBER(internal_error, CUBLAS_STATUS_INTERNAL_ERROR);
SAME_NUMBER(not_supported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_NUMBER(compute_f32, CUBLAS_COMPUTE_32F);
SAME_NUMBER(compute_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME_NUMBER(compute_f64, CUBLAS_COMPUTE_64F);
SAME_NUMBER(type_f32, CUDA_R_32F);
SAME_NUMBER(type_f64, CUDA_R_64F);
SAME_NUMBER(type_f16, CUDA_R_16F);
SAME_NUMBER(type_bf16, CUDA_R_16BF);
SAME_NUMBER(as_is, CUBLAS_OP_N);
SAME_NUMBER(transposed, CUBLAS_OP_T);
SAME_NUMBER(operation_left_transposition, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_NUMBER(operation_right_transposition, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_NUMBER(operation_epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_NUMBER(operation_bias, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_NUMBER(epilogue_none, CUBLASLT_EPILOGUE_DEFAULT);
SAME_NUMBER(epilogue_relu, CUBLASLT_EPILOGUE_RELU);
SAME_NUMBER(epilogue_bias, CUBLASLT_EPILOGUE_BIAS);
SAME_NUMBER(epilogue_relu_bias, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME_NUMBER(epilogue_gelu, CUBLASLT_EPILOGUE_GELU);
SAME_NUMBER(epilogue_gelu_bias, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME_NUMBER(layout_batches, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME_NUMBER(layout_batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME_NUMBER(preference_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_NUMBER(preference_reductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_NUMBER(preference_alignment_left, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_NUMBER(preference_alignment_right, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_NUMBER(preference_alignment_added, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_NUMBER(preference_alignment_result, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME_NUMBER(reduction_in_place, CUBLASLT_REDUCTION_SCHEME_INPLACE);
SAME_NUMBER(reduction_in_sums, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME_NUMBER(reduction_in_results, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
SAME_NUMBER(reduction_any, CUBLASLT_REDUCTION_SCHEME_MASK);

}  // namespace
