// The part of NVIDIA's cuDNN that this plugin calls, its graph interface, declared here so that
// neither the build nor the product needs it. The test cudnn_api_matches compares it with the
// library's own header, where one is installed.
//
// A graph of operations over tensors is made of descriptors, each filled with attributes and
// finished. The library's heuristic names engines for it, an engine becomes a plan, and a plan runs
// over a pack of addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace inductor_cuda::dnn {

using Status = int32_t;  // cudnnStatus_t
struct OpaqueHandle;
struct OpaqueStream;
using Handle = OpaqueHandle*;  // of the device that is the thread's own when it is made
using Stream = OpaqueStream*;
using Descriptor = void*;

enum : Status {
  success = 0,
  not_initialized = 1001,
  bad_param = 2000,
  not_supported = 3000,  // and the rest of the thousand
  internal_error = 4000,
};

enum DescriptorType : int32_t {
  pointwise_descriptor = 0,
  convolution_descriptor = 1,
  engine_config_descriptor = 3,
  heuristic_descriptor = 4,
  plan_descriptor = 5,
  forward_descriptor = 10,
  of_weights_descriptor = 11,
  of_source_descriptor = 12,
  pointwise_operation_descriptor = 13,
  graph_descriptor = 15,
  pack_descriptor = 16,
  tensor_descriptor = 17,
  product_descriptor = 18,
  product_operation_descriptor = 19,
  reduction_descriptor = 21,
  reduction_operation_descriptor = 22,
  engine_descriptor = 2,
  reshape_operation_descriptor = 31,
};

enum AttributeType : int32_t {
  type_handle = 0,
  type_data_type = 1,
  type_boolean = 2,
  type_int64 = 3,
  type_float = 4,
  type_address = 6,
  type_convolution_mode = 7,
  type_heuristic_mode = 8,
  type_numerical_note = 11,
  type_pointwise_mode = 14,
  type_descriptor = 15,
  type_reduction = 18,
  type_behavior_note = 19,
  type_text = 24,
};

enum Attribute : int32_t {
  pointwise_mode = 0,
  pointwise_precision = 1,
  pointwise_axis = 9,
  convolution_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_dimensions = 106,
  heuristic_mode = 200,
  heuristic_graph = 201,
  heuristic_results = 202,
  engine_config_engine = 300,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace_bytes = 402,
  plan_description = 405,  // JSON
  forward_alpha = 700,     // then: beta, the convolution, weights, source, result
  of_source_alpha = 706,
  of_weights_alpha = 712,
  pointwise_operation_pointwise = 750,
  pointwise_operation_x = 751,
  pointwise_operation_b = 752,
  pointwise_operation_y = 753,
  pointwise_operation_t = 758,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  pack_ids = 1000,
  pack_addresses = 1001,
  pack_workspace = 1003,
  engine_numerical_notes = 1303,
  engine_behavior_notes = 1305,
  product_type = 1500,
  product_operation_a = 1520,
  product_operation_b = 1521,
  product_operation_c = 1522,
  product_operation_product = 1523,
  reduction_operator = 1600,
  reduction_type = 1601,
  reduction_operation_x = 1610,
  reduction_operation_y = 1611,
  reduction_operation_reduction = 1612,
  reshape_operation_x = 2200,
  reshape_operation_y = 2201,
};

enum DataType : int32_t {
  data_f32 = 0,
  data_f16 = 2,
  data_bf16 = 9,
  data_bool = 11,
};
enum ConvolutionMode : int32_t { cross_correlation = 1 };
enum HeuristicMode : int32_t { heuristic_b = 1, heuristic_fallback = 2, heuristic_a = 3 };
enum ReductionMode : int32_t { reduction_add = 0, reduction_max = 3 };
enum PointwiseMode : int32_t {
  mode_add = 0,
  mode_mul = 1,
  mode_div = 6,
  mode_sub = 9,
  mode_exp = 13,
  mode_log = 15,
  mode_relu = 100,
  mode_ge = 303,
  mode_index = 501,
  mode_select = 601,
};
enum NumericalNote : int32_t {
  note_tensor_core = 0,
  note_down_convert = 1,
  note_reduced_precision = 2,
  note_fft = 3,
  note_nondeterministic = 4,
  note_winograd = 5,
};

enum BehaviorNote : int32_t { note_runtime_compilation = 0 };

/// F(result, name, parameters): every function that is called.
#define TENON_CUDNN_FUNCTIONS(F)                                                          \
  F(Status, cudnnCreate, (Handle * handle))                                               \
  F(Status, cudnnSetStream, (Handle handle, Stream stream))                               \
  F(const char*, cudnnGetErrorString, (Status status))                                    \
  F(size_t, cudnnGetVersion, ())                                                          \
  F(Status, cudnnBackendCreateDescriptor, (DescriptorType type, Descriptor * descriptor)) \
  F(Status, cudnnBackendDestroyDescriptor, (Descriptor descriptor))                       \
  F(Status, cudnnBackendFinalize, (Descriptor descriptor))                                \
  F(Status, cudnnBackendSetAttribute,                                                     \
    (Descriptor descriptor, Attribute attribute, AttributeType type, int64_t count,       \
     const void* elements))                                                               \
  F(Status, cudnnBackendGetAttribute,                                                     \
    (Descriptor descriptor, Attribute attribute, AttributeType type, int64_t wanted,      \
     int64_t * count, void* elements))                                                    \
  F(Status, cudnnBackendExecute, (Handle handle, Descriptor plan, Descriptor pack))

/// The library's functions, all of them or none.
struct Functions {
#define TENON_CUDNN_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  TENON_CUDNN_FUNCTIONS(TENON_CUDNN_MEMBER)
#undef TENON_CUDNN_MEMBER
};

/// Their types in order, for comparing them with another declaration.
#define TENON_CUDNN_TYPE(result, name, parameters) , result(*) parameters
template <class, class... Functions>
using TypesAfterFirst = std::tuple<Functions...>;
using FunctionTypes = TypesAfterFirst<void TENON_CUDNN_FUNCTIONS(TENON_CUDNN_TYPE)>;
#undef TENON_CUDNN_TYPE

}  // namespace inductor_cuda::dnn
