// The layout of the plugin ABI as text: every field with its offset and size, every code with its
// number. plugin-api/abi/v1.layout is what this prints for 1.0; a test compares the two.
#pragma once

#include <tenon/custom_ops.h>
#include <tenon/device.h>
#include <tenon/plugin.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tenon::tools {

struct LayoutField {
  const char* name;
  size_t offset, size;
};
struct LayoutStruct {
  const char* name;
  size_t size;
  std::vector<LayoutField> fields;
};
struct LayoutCode {
  const char* name;
  int number;
};

#define TENON_PARENS ()
#define TENON_EXPAND(...) TENON_EXPAND_2(TENON_EXPAND_2(TENON_EXPAND_2(__VA_ARGS__)))
#define TENON_EXPAND_2(...) TENON_EXPAND_1(TENON_EXPAND_1(TENON_EXPAND_1(__VA_ARGS__)))
#define TENON_EXPAND_1(...) TENON_EXPAND_0(TENON_EXPAND_0(TENON_EXPAND_0(__VA_ARGS__)))
#define TENON_EXPAND_0(...) __VA_ARGS__
#define TENON_FIELDS(type, field, ...)                             \
  LayoutField{#field, offsetof(type, field), sizeof(type::field)}, \
      __VA_OPT__(TENON_MORE_FIELDS TENON_PARENS(type, __VA_ARGS__))
#define TENON_MORE_FIELDS() TENON_FIELDS
#define TENON_LAYOUT(type, ...)                                            \
  LayoutStruct {                                                           \
#type, sizeof(type), { TENON_EXPAND(TENON_FIELDS(type, __VA_ARGS__)) } \
  }
#define TENON_CODES(code, ...) \
  LayoutCode{#code, code}, __VA_OPT__(TENON_MORE_CODES TENON_PARENS(__VA_ARGS__))
#define TENON_MORE_CODES() TENON_CODES

/// Every struct of the headers, in their order, with every field.
inline std::vector<LayoutStruct> abi_structs() {
  return {
      TENON_LAYOUT(tn_str, data, size),
      TENON_LAYOUT(tn_sink, ctx, write),
      TENON_LAYOUT(tn_tensor, struct_size, dtype, device_type, device_index, ndim, flags, data,
                   sizes, strides, numel, storage_offset, storage, storage_bytes, storage_id,
                   version),
      TENON_LAYOUT(tn_tensor_api, struct_size, _r0, retain, release, empty, as_strided, from_memory,
                   copy, to_dlpack, from_dlpack),
      TENON_LAYOUT(tn_dim, value, expr, flags),
      TENON_LAYOUT(tn_value_info, struct_size, kind, source, source_index, result_index, flags,
                   dtype, device_type, device_index, layout, memory_format, ndim, n_uses, expr,
                   alias_group, _r0, sizes, strides, storage_offset, name),
      TENON_LAYOUT(tn_arg, kind, count, u, _r0),
      TENON_LAYOUT(tn_node_info, struct_size, op, n_args, n_results, first_result, recompute, tags,
                   args, op_name, name, module_path, source_file, source_function, source_line,
                   seq_nr),
      TENON_LAYOUT(tn_graph_api, struct_size, _r0, node_count, value_count, inputs, outputs,
                   symbols, users, node, value, constant, node_meta, hash, dump),
      TENON_LAYOUT(tn_expr_info, struct_size, op, n_operands, flags, operands, value, hint, lower,
                   upper, name, source),
      TENON_LAYOUT(tn_sym_api, struct_size, _r0, info, text, make, constant, known, guard, eval,
                   keep, eval_kept, free_kept),
      TENON_LAYOUT(tn_op_arg, name, type, default_text, alias, flags, _r0, _r1),
      TENON_LAYOUT(tn_op_info, struct_size, n_args, n_returns, n_decomposition_sets, tags, name,
                   schema, args, returns, decomposition_sets),
      TENON_LAYOUT(tn_instr, code, dtype, a, b, c),
      TENON_LAYOUT(tn_formula, struct_size, n_inputs, n_outputs, n_instr, instr, outputs,
                   input_args, input_dtypes, promote, _r0),
      TENON_LAYOUT(tn_ops_api, struct_size, _r0, count, find, info, has_kernel, decompose, formula),
      TENON_LAYOUT(tn_call, struct_size, flags, n_inputs, n_outputs, n_syms, _r0, inputs, outputs,
                   syms, stream),
      TENON_LAYOUT(tn_run_api, struct_size, _r0, run_op, interpret, compile_with, extract),
      TENON_LAYOUT(tn_opt_api, struct_size, _r0, get_bool, get_i64, get_f64, get_str, get_list,
                   config_bool, config_i64, config_f64, config_str),
      TENON_LAYOUT(tn_svc_api, struct_size, _r0, log, log_level, alloc, free, num_threads,
                   parallel_for, cache_get, cache_put, blob_bytes, blob_release, progress, trace_on,
                   trace, rng_reserve, debug_dir, parallel_chunks),
      TENON_LAYOUT(tn_host, struct_size, abi_major, abi_minor, _r0, host_version, status_new,
                   status_wrap, status_at, status_code, status_message, status_free, extension,
                   tensor, graph, sym, ops, run, opt, svc, extension_at),
      TENON_LAYOUT(tn_compile_request, struct_size, stage, flags, ctx, graph, options,
                   example_inputs, static_inputs, mutated_inputs, aliased_outputs, n_inputs,
                   n_static, n_mutated, n_outputs, n_saved, _r0, cache_key, compile_id),
      TENON_LAYOUT(tn_artifact_api, struct_size, flags, call, destroy, serialize, describe,
                   set_constants),
      TENON_LAYOUT(tn_artifact, api, self),
      TENON_LAYOUT(tn_verdicts, struct_size, n_nodes, verdict, group, host_data, reason),
      TENON_LAYOUT(tn_backend, struct_size, _r0, name, self, compile, supports, load, fingerprint,
                   reset, judge),
      TENON_LAYOUT(tn_kernels, struct_size, n_ops, device_type, _r0, self, ops, run),
      TENON_LAYOUT(tn_device_props, struct_size, compute_units, total_bytes, free_bytes,
                   capability_major, capability_minor, name, arch),
      TENON_LAYOUT(tn_device_memory, struct_size, _r0, allocated_bytes, reserved_bytes, peak_bytes,
                   allocations),
      TENON_LAYOUT(tn_device_provider, struct_size, _r0, type_name, self, count, props, alloc, free,
                   host_alloc, host_free, copy, fill, stream_new, stream_free, stream_sync,
                   stream_native, device_sync, event_new, event_free, event_record, event_wait,
                   event_done, event_elapsed_ms, has_kernel, run_op, capture_begin, capture_end,
                   stream_wrap, trim, memory_stats, describe),
      TENON_LAYOUT(tn_extension, struct_size, version, id, table),
      TENON_LAYOUT(tn_plugin, struct_size, abi_major, abi_minor, _r0, backends, devices, extensions,
                   kernels, n_backends, n_devices, n_extensions, n_kernels, shutdown),
      // tenon/custom_ops.h
      TENON_LAYOUT(tn_op_call, struct_size, op, n_args, n_out, args, values, out, stream),
      TENON_LAYOUT(tn_meta_call, struct_size, op, n_out, _r0, graph, host_data, set_result),
      TENON_LAYOUT(tn_vjp_call, struct_size, op, n_args, n_results, n_out, _r0, args, values,
                   results, grads, out),
      TENON_LAYOUT(tn_op_def, struct_size, flags, schema, tags, self, formula, formula_types,
                   like_arg, meta, kernel, decompose, vjp),
      TENON_LAYOUT(tn_custom_ops_api, struct_size, _r0, add),
  };
}

/// Every enumerator of the headers.
inline std::vector<LayoutCode> abi_codes() {
  std::vector<LayoutCode> codes;
  auto add = [&](std::initializer_list<LayoutCode> list) {
    codes.insert(codes.end(), list.begin(), list.end());
  };
  add({TENON_EXPAND(TENON_CODES(
      TN_OK, TN_CANCELLED, TN_UNKNOWN, TN_INVALID_ARGUMENT, TN_TIMEOUT, TN_NOT_FOUND,
      TN_ALREADY_EXISTS, TN_PERMISSION_DENIED, TN_OUT_OF_MEMORY, TN_FAILED_PRECONDITION, TN_ABORTED,
      TN_OUT_OF_RANGE, TN_UNIMPLEMENTED, TN_INTERNAL, TN_UNAVAILABLE, TN_DATA_LOSS, TN_DECLINED))});
  add({TENON_EXPAND(TENON_CODES(TN_LOG_TRACE, TN_LOG_DEBUG, TN_LOG_INFO, TN_LOG_WARN, TN_LOG_ERROR,
                                TN_LOG_CRITICAL))});
  add({TENON_EXPAND(TENON_CODES(TN_U8, TN_I8, TN_I16, TN_I32, TN_I64, TN_F16, TN_F32, TN_F64,
                                TN_C32, TN_C64, TN_C128, TN_BOOL, TN_BF16, TN_F8_E5M2, TN_F8_E4M3FN,
                                TN_U16, TN_U32, TN_U64, TN_F8_E8M0FNU, TN_F4_E2M1FN_X2))});
  add({TENON_EXPAND(TENON_CODES(TN_DEV_CPU, TN_DEV_CUDA, TN_DEV_META, TN_DEV_FIRST_DYNAMIC))});
  add({TENON_EXPAND(TENON_CODES(TN_LAYOUT_STRIDED))});
  add({TENON_EXPAND(TENON_CODES(TN_FORMAT_CONTIGUOUS, TN_FORMAT_PRESERVE, TN_FORMAT_CHANNELS_LAST,
                                TN_FORMAT_CHANNELS_LAST_3D))});
  add({TENON_EXPAND(TENON_CODES(TN_T_FAKE, TN_T_REQUIRES_GRAD, TN_T_CONTIGUOUS, TN_T_CHANNELS_LAST,
                                TN_T_PINNED, TN_T_CONJ, TN_T_NEG))});
  add({TENON_EXPAND(TENON_CODES(TN_DIM_HAS_HINT, TN_DIM_UNBACKED, TN_DIM_REAL))});
  add({TENON_EXPAND(TENON_CODES(TN_VAL_TENSOR, TN_VAL_TENSOR_LIST, TN_VAL_SYMINT, TN_VAL_SYMFLOAT,
                                TN_VAL_SYMBOOL, TN_VAL_NONE, TN_VAL_TOKEN, TN_VAL_RNG_STATE))});
  add({TENON_EXPAND(TENON_CODES(TN_SRC_INPUT, TN_SRC_CONSTANT, TN_SRC_NODE))});
  add({TENON_EXPAND(TENON_CODES(TN_V_PARAMETER, TN_V_BUFFER, TN_V_STATIC_ADDRESS, TN_V_MUTATED,
                                TN_V_REQUIRES_GRAD, TN_V_SAVED, TN_V_TANGENT, TN_V_USER_OUTPUT))});
  add({TENON_EXPAND(TENON_CODES(
      TN_ARG_NONE, TN_ARG_VALUE, TN_ARG_VALUES, TN_ARG_INT, TN_ARG_FLOAT, TN_ARG_BOOL,
      TN_ARG_COMPLEX, TN_ARG_STRING, TN_ARG_DTYPE, TN_ARG_DEVICE, TN_ARG_LAYOUT,
      TN_ARG_MEMORY_FORMAT, TN_ARG_INTS, TN_ARG_FLOATS, TN_ARG_BOOLS, TN_ARG_STRINGS, TN_ARG_SYMINT,
      TN_ARG_SYMINTS, TN_ARG_GRAPH, TN_ARG_OPAQUE, TN_ARG_SYMFLOAT, TN_ARG_SYMBOOL))});
  add({TENON_EXPAND(TENON_CODES(TN_TAG_POINTWISE, TN_TAG_REDUCTION, TN_TAG_VIEW, TN_TAG_INPLACE,
                                TN_TAG_RANDOM, TN_TAG_DATA_DEPENDENT, TN_TAG_CORE, TN_TAG_MATMUL,
                                TN_TAG_CONV, TN_TAG_SIDE_EFFECT, TN_TAG_HIGHER_ORDER,
                                TN_TAG_CREATION, TN_TAG_NONDETERMINISTIC, TN_TAG_MAYBE_ALIAS,
                                TN_TAG_BY_PLACE, TN_TAG_ROUNDS_NUMBERS))});
  add({TENON_EXPAND(TENON_CODES(TN_RECOMPUTE_NONE, TN_RECOMPUTE_MUST_SAVE, TN_RECOMPUTE_PREFER,
                                TN_RECOMPUTE_MUST))});
  add({TENON_EXPAND(TENON_CODES(TN_DUMP_TEXT, TN_DUMP_CANONICAL, TN_DUMP_CPP_REPRO, TN_DUMP_DOT))});
  add({TENON_EXPAND(TENON_CODES(
      TN_EX_CONST, TN_EX_SYMBOL, TN_EX_ADD, TN_EX_MUL, TN_EX_FLOORDIV, TN_EX_CEILDIV, TN_EX_MOD,
      TN_EX_MIN, TN_EX_MAX, TN_EX_POW, TN_EX_TRUEDIV, TN_EX_TO_FLOAT, TN_EX_TRUNC, TN_EX_EQ,
      TN_EX_NE, TN_EX_LT, TN_EX_LE, TN_EX_AND, TN_EX_OR, TN_EX_NOT, TN_EX_SELECT))});
  add({TENON_EXPAND(TENON_CODES(TN_OA_KEYWORD_ONLY, TN_OA_WRITTEN))});
  add({TENON_EXPAND(TENON_CODES(
      TN_F_CONST, TN_F_CAST, TN_F_NEG, TN_F_ABS, TN_F_SIGN, TN_F_ADD, TN_F_SUB, TN_F_MUL, TN_F_DIV,
      TN_F_TRUNCDIV, TN_F_FLOORDIV, TN_F_FMOD, TN_F_MOD, TN_F_MIN, TN_F_MAX, TN_F_POW,
      TN_F_COPYSIGN, TN_F_ATAN2, TN_F_BAND, TN_F_BOR, TN_F_BXOR, TN_F_BNOT, TN_F_SHL, TN_F_SHR))});
  add({TENON_EXPAND(TENON_CODES(TN_F_EQ, TN_F_NE, TN_F_LT, TN_F_LE, TN_F_GT, TN_F_GE, TN_F_SELECT,
                                TN_F_SQRT, TN_F_RSQRT, TN_F_EXP, TN_F_EXP2, TN_F_EXPM1, TN_F_LOG,
                                TN_F_LOG2, TN_F_LOG10, TN_F_LOG1P, TN_F_SIN, TN_F_COS, TN_F_TAN,
                                TN_F_ASIN, TN_F_ACOS, TN_F_ATAN, TN_F_SINH, TN_F_COSH))});
  add({TENON_EXPAND(TENON_CODES(TN_F_TANH, TN_F_ASINH, TN_F_ACOSH, TN_F_ATANH, TN_F_SIGMOID,
                                TN_F_ERF, TN_F_ERFC, TN_F_ERFINV, TN_F_LGAMMA, TN_F_DIGAMMA,
                                TN_F_FLOOR, TN_F_CEIL, TN_F_TRUNC, TN_F_ROUND))});
  add({TENON_EXPAND(
      TENON_CODES(TN_FP_POINTWISE, TN_FP_INIT, TN_FP_STEP, TN_FP_COMBINE, TN_FP_FINISH))});
  add({TENON_EXPAND(
      TENON_CODES(TN_PROMOTE_SAME, TN_PROMOTE_TO_FLOAT, TN_PROMOTE_TO_BOOL, TN_PROMOTE_NONE))});
  add({TENON_EXPAND(TENON_CODES(TN_CALL_STEAL_INPUTS, TN_CALL_OUTPUTS_GIVEN))});
  add({TENON_EXPAND(
      TENON_CODES(TN_TRACE_BEGIN, TN_TRACE_END, TN_TRACE_INSTANT, TN_TRACE_COUNTER))});
  add({TENON_EXPAND(TENON_CODES(TN_STAGE_CAPTURED, TN_STAGE_FORWARD, TN_STAGE_BACKWARD,
                                TN_STAGE_INFERENCE, TN_STAGE_SINGLE_OP))});
  add({TENON_EXPAND(TENON_CODES(TN_RQ_DYNAMIC, TN_RQ_DETERMINISTIC, TN_RQ_GRAD_ENABLED, TN_RQ_BOXED,
                                TN_RQ_FREEZING, TN_RQ_DRY_RUN, TN_RQ_BACKWARD_TAPE,
                                TN_RQ_ALLOWS_TF32))});
  add({TENON_EXPAND(TENON_CODES(TN_AF_STEALS_INPUTS, TN_AF_SERIAL_ONLY, TN_AF_WRITES_GIVEN_OUTPUTS,
                                TN_AF_FIXED_ADDRESSES, TN_AF_OWNS_STATIC_INPUTS))});
  add({TENON_EXPAND(TENON_CODES(TN_DESC_SOURCE, TN_DESC_IR, TN_DESC_ASM, TN_DESC_GRAPH,
                                TN_DESC_MEMORY_PLAN, TN_DESC_STATS_JSON))});
  add({TENON_EXPAND(TENON_CODES(TN_NOT_SUPPORTED, TN_SUPPORTED, TN_SUPPORTED_IF_FUSED))});
  add({TENON_EXPAND(TENON_CODES(TN_COPY_H2D, TN_COPY_D2H, TN_COPY_D2D, TN_COPY_H2H))});
  add({TENON_EXPAND(TENON_CODES(TN_OP_PT2_COMPLIANT, TN_OP_LIKE))});
  add({TENON_EXPAND(TENON_CODES(TN_TYPES_FLOAT, TN_TYPES_INT, TN_TYPES_BOOL))});
  return codes;
}

inline std::string abi_layout() {
  std::string out =
      "abi " + std::to_string(TN_ABI_MAJOR) + "." + std::to_string(TN_ABI_MINOR) + "\n";
  for (const LayoutStruct& s : abi_structs()) {
    out += std::string("struct ") + s.name + " size " + std::to_string(s.size) + "\n";
    for (const LayoutField& f : s.fields)
      out += std::string("  ") + f.name + " " + std::to_string(f.offset) + " " +
             std::to_string(f.size) + "\n";
  }
  for (const LayoutCode& c : abi_codes())
    out += std::string("code ") + c.name + " " + std::to_string(c.number) + "\n";
  return out;
}

#undef TENON_LAYOUT
#undef TENON_FIELDS
#undef TENON_MORE_FIELDS
#undef TENON_CODES
#undef TENON_MORE_CODES
#undef TENON_PARENS
#undef TENON_EXPAND
#undef TENON_EXPAND_2
#undef TENON_EXPAND_1
#undef TENON_EXPAND_0

}  // namespace tenon::tools
