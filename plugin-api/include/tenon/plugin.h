/* SPDX-License-Identifier: Apache-2.0 */
/* tenon/plugin.h - the Tenon plugin ABI, major 1, minor 0. Valid C11 and C++17.
 *
 * A plugin is one shared object that exports `tenon_plugin_entry_v1` and nothing else, carries its
 * manifest (TOML) in an ELF note, and imports nothing from the host: it gets a table of functions
 * (tn_host) and gives one back (tn_plugin). Authors in C++ include <tenon/plugin.hpp> instead.
 *
 * Rules that hold for every function below
 *   errors   A function that can fail returns tn_status*: NULL is success, anything else belongs to
 *            the receiver, who frees it with host->status_free or passes it on. No exception and no
 *            longjmp crosses, in either direction. On failure out-parameters are left untouched.
 *   growth   Within a major, fields are only appended. A struct that starts with struct_size says
 *            how much of it exists: its owner writes the field, readers ask TN_HAS(p, field), and
 *            who fills an "inout" struct writes at most struct_size bytes. Unknown enumerators are
 *            answered with TN_UNIMPLEMENTED or TN_DECLINED; unknown flag bits 0..31 are ignored,
 *            bits 32..63 refused. Structs marked frozen never change. _rN fields are zero.
 *   unfrozen What says [not frozen] has no user in this project yet (it comes with the device
 *            plugins) and may change until then. What says [reserved] has a number and no meaning:
 *            nobody sends it, and who gets it declines. abi/v1.reserved has the reasons.
 *   strings  tn_str is UTF-8, not terminated, borrowed: during the call, or while its object lives.
 *   threads  Host tables may be called from any thread, also from inside compile and call; not from
 *            status_free, deleters or sinks. Each plugin table says its own rule.
 *   process  Plugins do not call exit, install signal handlers, or change the floating-point
 *            environment, locale, working directory or affinity of a calling thread.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H
/* clang-format off */
#include <stddef.h>
#include <stdint.h>
#include <tenon/formula_codes.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TN_ABI_MAJOR 1u
#define TN_ABI_MINOR 0u
#define TN_EXPORT __attribute__((visibility("default")))
/* Does the peer's table reach as far as `field`, and is the field set? */
#define TN_HAS(p, field)                                                                           \
  ((p) && (p)->struct_size >= offsetof(__typeof__(*(p)), field) + sizeof((p)->field) && (p)->field)

/* ---- 1. basics ---- */
typedef struct tn_str { const char* data; size_t size; } tn_str;             /* frozen */
#define TN_STR(literal) { literal, sizeof(literal) - 1 }
typedef struct tn_sink { void* ctx; void (*write)(void* ctx, const char* data, size_t n); } tn_sink;
typedef struct tn_status tn_status;    /* NULL = success; host-made, host-freed             */
typedef struct tn_graph tn_graph;      /* borrowed: until the compile it was given to ends  */
typedef struct tn_ctx tn_ctx;          /* one compilation; borrowed likewise                */
typedef struct tn_options tn_options;  /* resolved options; borrowed likewise               */
typedef struct tn_stream tn_stream;    /* queue of a device; NULL on the CPU [not frozen]   */
typedef struct tn_event tn_event;      /* made and freed by a device provider [not frozen]  */
typedef struct tn_blob tn_blob;        /* counted bytes owned by the host                   */
typedef struct tn_artifact tn_artifact;

enum { TN_OK = 0, TN_CANCELLED = 1, TN_UNKNOWN = 2, TN_INVALID_ARGUMENT = 3, TN_TIMEOUT = 4,
       TN_NOT_FOUND = 5, TN_ALREADY_EXISTS = 6, TN_PERMISSION_DENIED = 7, TN_OUT_OF_MEMORY = 8,
       TN_FAILED_PRECONDITION = 9, TN_ABORTED = 10, TN_OUT_OF_RANGE = 11,
       TN_UNIMPLEMENTED = 12,          /* an op or feature is missing */
       TN_INTERNAL = 13,               /* a bug in who says it */
       TN_UNAVAILABLE = 14,            /* a device is lost or absent */
       TN_DATA_LOSS = 15,              /* stored bytes are damaged */
       TN_DECLINED = 100 };            /* "not for me": the host takes the fallback and counts it */
enum { TN_LOG_TRACE, TN_LOG_DEBUG, TN_LOG_INFO, TN_LOG_WARN, TN_LOG_ERROR, TN_LOG_CRITICAL };
enum { TN_U8 = 0, TN_I8 = 1, TN_I16 = 2, TN_I32 = 3, TN_I64 = 4, TN_F16 = 5, TN_F32 = 6, TN_F64 = 7,
       TN_C32 = 8, TN_C64 = 9, TN_C128 = 10, TN_BOOL = 11, TN_BF16 = 15, TN_F8_E5M2 = 23,
       TN_F8_E4M3FN = 24,              /* the numbers of ATen's ScalarType */
       TN_U16 = 27, TN_U32 = 28, TN_U64 = 29,                              /* [reserved] */
       TN_F8_E8M0FNU = 44, TN_F4_E2M1FN_X2 = 45 };                         /* [reserved] */
enum { TN_DEV_CPU = 0, TN_DEV_CUDA = 1, TN_DEV_META = 2,
       TN_DEV_FIRST_DYNAMIC = 16 };    /* from here on by name at registration: never hard-code */
enum { TN_LAYOUT_STRIDED = 0 };
enum { TN_FORMAT_CONTIGUOUS = 0, TN_FORMAT_PRESERVE = 1, TN_FORMAT_CHANNELS_LAST = 2,
       TN_FORMAT_CHANNELS_LAST_3D = 3 };

/* ---- 2. tensors ---- */
/* The first part of the host's tensor object: fields are read without a call and never written.
 * Stable during a call; whoever retains a handle beyond it reads the fields anew, because in-place
 * metadata ops (t_, resize_, set_) change the same object. Sizes, strides and offsets count
 * elements, storage_bytes counts bytes; an element has at least one byte (of packed types, such as
 * TN_F4_E2M1FN_X2, it holds several numbers), and scales are tensors of their own. Bytes outside of
 * storage .. storage + storage_bytes may not be read: there need be no memory. */
typedef struct tn_tensor {
  uint32_t struct_size;
  int32_t dtype;
  int32_t device_type, device_index;   /* index -1 = the only one */
  int32_t ndim;                        /* 0 = one element without dimensions */
  uint32_t flags;                      /* TN_T_... */
  void* data;                          /* first element; NULL for fakes, maybe for numel 0 */
  const int64_t* sizes;                /* [ndim] */
  const int64_t* strides;              /* [ndim], in elements; may be 0, never negative */
  int64_t numel, storage_offset;       /* in elements; `data` already includes the offset */
  void* storage;                       /* first byte of the storage that views share */
  uint64_t storage_bytes, storage_id;  /* an id is never used twice in a process */
  const uint64_t* version;             /* counts writes to the storage; read it by TN_VERSION */
} tn_tensor;
/* Other threads may write at the same time: a relaxed atomic load. All views of a storage share the
 * counter; equal storage_id and version mean equal contents. */
#define TN_VERSION(t) __atomic_load_n((t)->version, __ATOMIC_RELAXED)
enum { TN_T_FAKE = 1, TN_T_REQUIRES_GRAD = 2, TN_T_CONTIGUOUS = 4, TN_T_CHANNELS_LAST = 8,
       TN_T_PINNED = 16 /* [not frozen] */, TN_T_CONJ = 32, TN_T_NEG = 64 };

typedef struct tn_tensor_api {         /* every `out` is a new reference, to be released */
  uint32_t struct_size, _r0;
  void (*retain)(tn_tensor*); void (*release)(tn_tensor*);
  /* strides NULL = contiguous; undefined contents, 64-byte aligned on CPUs. The host counts it. */
  tn_status* (*empty)(const int64_t* sizes, const int64_t* strides, int32_t ndim, int32_t dtype,
                      int32_t device_type, int32_t device_index, tn_tensor** out);
  /* A view of the same storage; fails with TN_OUT_OF_RANGE where it would leave the storage. */
  tn_status* (*as_strided)(tn_tensor*, const int64_t* sizes, const int64_t* strides, int32_t ndim,
                           int64_t storage_offset, tn_tensor** out);
  /* Wraps memory of the plugin; deleter(deleter_arg) runs once, on any thread, after the last use,
   * also when this call fails. The plugin stays loaded until then. */
  tn_status* (*from_memory)(void* data, const int64_t* sizes, const int64_t* strides, int32_t ndim,
                            int32_t dtype, int32_t device_type, int32_t device_index,
                            void (*deleter)(void*), void* deleter_arg, tn_tensor** out);
  tn_status* (*copy)(tn_tensor* dst, const tn_tensor* src, tn_stream*); /* casts and broadcasts */
  tn_status* (*to_dlpack)(tn_tensor*, void** dl_managed_versioned);    /* owner calls its deleter */
  tn_status* (*from_dlpack)(void* dl_managed_versioned, tn_tensor** out); /* takes the capsule */
} tn_tensor_api;

/* ---- 3. graph view ---- */
/* Nodes 0..n-1 are in topological order, values 0..m-1; all lives until the compile ends. */
#define TN_EXPR_STATIC 0xFFFFFFFFu     /* "no expression": the number is constant */
#define TN_NO_VALUE 0xFFFFFFFFu        /* an absent value, or an unknown op */
typedef struct tn_dim {                /* frozen, 16 bytes */
  int64_t value;                       /* the constant, or the hint where flags say so */
  uint32_t expr, flags;                /* TN_EXPR_STATIC or an expression id; TN_DIM_... */
} tn_dim;
enum { TN_DIM_HAS_HINT = 1, TN_DIM_UNBACKED = 2,  /* unbacked: known at run time only, no hint */
       TN_DIM_REAL = 4 };              /* the int64_t of a value are the bits of a double */
enum { TN_VAL_TENSOR, TN_VAL_TENSOR_LIST /* [reserved] */, TN_VAL_SYMINT, TN_VAL_SYMFLOAT,
       TN_VAL_SYMBOOL, TN_VAL_NONE, TN_VAL_TOKEN, TN_VAL_RNG_STATE };  /* the last two [reserved] */
enum { TN_SRC_INPUT, TN_SRC_CONSTANT, TN_SRC_NODE };
/* PARAMETER inputs keep address and contents from call to call until TN_VERSION moves: what was
 * made of them (packed weights) is kept by (storage_id, TN_VERSION). */
enum { TN_V_PARAMETER = 1, TN_V_BUFFER = 2, TN_V_STATIC_ADDRESS = 4, TN_V_MUTATED = 8,
       TN_V_REQUIRES_GRAD = 16, TN_V_SAVED = 32, TN_V_TANGENT = 64, TN_V_USER_OUTPUT = 128 };
typedef struct tn_value_info {
  uint32_t struct_size, kind;          /* TN_VAL_...; decline kinds that you do not know */
  uint32_t source, source_index;       /* TN_SRC_..., and the input, constant or node */
  uint32_t result_index;               /* which result of the node */
  uint32_t flags;                      /* TN_V_... */
  int32_t dtype, device_type, device_index, layout, memory_format;
  int32_t ndim;                        /* tensors: length of sizes and strides */
  uint32_t n_uses;
  uint32_t expr;                       /* symbolic scalars: their expression */
  uint32_t alias_group, _r0;           /* values of equal non-zero group may share storage */
  const tn_dim* sizes; const tn_dim* strides; tn_dim storage_offset;
  tn_str name;
} tn_value_info;
/* Kinds of arguments; decline those that you do not know. SYM...: u.sym or u.syms is set. */
enum { TN_ARG_NONE, TN_ARG_VALUE, TN_ARG_VALUES, TN_ARG_INT, TN_ARG_FLOAT, TN_ARG_BOOL,
       TN_ARG_COMPLEX, TN_ARG_STRING, TN_ARG_DTYPE, TN_ARG_DEVICE, TN_ARG_LAYOUT,
       TN_ARG_MEMORY_FORMAT, TN_ARG_INTS, TN_ARG_FLOATS, TN_ARG_BOOLS, TN_ARG_STRINGS,
       TN_ARG_SYMINT, TN_ARG_SYMINTS, TN_ARG_GRAPH, TN_ARG_OPAQUE, TN_ARG_SYMFLOAT,
       TN_ARG_SYMBOOL };
typedef struct tn_arg {                /* frozen, 32 bytes; `kind` chooses the member of u */
  uint32_t kind, count;                /* count: elements behind a pointer member */
  union {
    int64_t i;                         /* INT, BOOL, DTYPE, LAYOUT, MEMORY_FORMAT */
    double f;
    double c[2];                       /* real, imaginary */
    int32_t device[2];                 /* type, index */
    uint32_t value;
    tn_dim sym;
    tn_str str;
    const uint32_t* values;            /* entries may be TN_NO_VALUE */
    const int64_t* ints; const double* floats; const uint8_t* bools; const tn_str* strings;
    const tn_dim* syms;
    const tn_graph* graph;             /* bodies of cond, while_loop, map, checkpoint regions */
    const void* opaque;                /* only passed through */
  } u;
  uint64_t _r0;
} tn_arg;
enum { TN_TAG_POINTWISE = 1, TN_TAG_REDUCTION = 2, TN_TAG_VIEW = 4, TN_TAG_INPLACE = 8,
       TN_TAG_RANDOM = 16, TN_TAG_DATA_DEPENDENT = 32, TN_TAG_CORE = 64, TN_TAG_MATMUL = 128,
       TN_TAG_CONV = 256, TN_TAG_SIDE_EFFECT = 512, TN_TAG_HIGHER_ORDER = 1024,
       TN_TAG_CREATION = 2048, TN_TAG_NONDETERMINISTIC = 4096, TN_TAG_MAYBE_ALIAS = 8192,
       TN_TAG_BY_PLACE = 16384,        /* strides and offsets of operands matter: as_strided */
       TN_TAG_ROUNDS_NUMBERS = 32768 };/* on CPUs: numbers beside f16 or bf16 are rounded to it first */
enum { TN_RECOMPUTE_NONE, TN_RECOMPUTE_MUST_SAVE, TN_RECOMPUTE_PREFER, TN_RECOMPUTE_MUST };
typedef struct tn_node_info {
  uint32_t struct_size;
  uint32_t op;                         /* id of this process: compare with ops->find, never store */
  uint32_t n_args, n_results;
  uint32_t first_result;               /* its values are first_result .. + n_results - 1 */
  uint32_t recompute;                  /* TN_RECOMPUTE_... */
  uint64_t tags;                       /* TN_TAG_... */
  const tn_arg* args;                  /* schema order, keywords resolved, defaults filled in */
  tn_str op_name;                      /* "aten.add.Tensor" */
  tn_str name;                         /* unique in the graph: "add_3" */
  tn_str module_path;                  /* "layers.0.attn" */
  tn_str source_file, source_function; /* where the traced program called it; may be empty */
  int32_t source_line, seq_nr;         /* seq_nr links forward and backward nodes; -1 = none */
} tn_node_info;
/* CANONICAL is stable (values renumbered): for keys, reproducers and other processes. */
enum { TN_DUMP_TEXT, TN_DUMP_CANONICAL, TN_DUMP_CPP_REPRO /* [reserved] */, TN_DUMP_DOT };
typedef struct tn_graph_api {
  uint32_t struct_size, _r0;
  uint32_t (*node_count)(const tn_graph*); uint32_t (*value_count)(const tn_graph*);
  uint32_t (*inputs)(const tn_graph*, const uint32_t** value_ids);     /* these four: the length */
  uint32_t (*outputs)(const tn_graph*, const uint32_t** value_ids);    /* may hold TN_NO_VALUE */
  uint32_t (*symbols)(const tn_graph*, const uint32_t** expr_ids);     /* order of tn_call.syms */
  uint32_t (*users)(const tn_graph*, uint32_t value, const uint32_t** node_ids);
  tn_status* (*node)(const tn_graph*, uint32_t node, tn_node_info* inout);
  tn_status* (*value)(const tn_graph*, uint32_t value, tn_value_info* inout);
  tn_status* (*constant)(const tn_graph*, uint32_t value, tn_tensor** borrowed);
  tn_str (*node_meta)(const tn_graph*, uint32_t node, tn_str key);     /* empty when absent */
  tn_status* (*hash)(const tn_graph*, uint8_t digest[32]);             /* of the canonical text */
  tn_status* (*dump)(const tn_graph*, int32_t format, const tn_sink*);
} tn_graph_api;

/* ---- 4. symbolic expressions ---- */
/* Hash-consed per graph: equal ids mean equal expressions. FLOORDIV and MOD have Python's signs. */
enum { TN_EX_CONST, TN_EX_SYMBOL, TN_EX_ADD, TN_EX_MUL, TN_EX_FLOORDIV, TN_EX_CEILDIV, TN_EX_MOD,
       TN_EX_MIN, TN_EX_MAX, TN_EX_POW, TN_EX_TRUEDIV, TN_EX_TO_FLOAT, TN_EX_TRUNC, TN_EX_EQ,
       TN_EX_NE, TN_EX_LT, TN_EX_LE, TN_EX_AND, TN_EX_OR, TN_EX_NOT, TN_EX_SELECT };
typedef struct tn_expr_info {
  uint32_t struct_size, op, n_operands;
  uint32_t flags;                      /* TN_DIM_... */
  const uint32_t* operands;
  int64_t value;                       /* TN_EX_CONST */
  int64_t hint;                        /* the value seen while tracing, where flags say so */
  int64_t lower, upper;                /* range; INT64_MIN and INT64_MAX stand for infinity */
  tn_str name, source;                 /* symbols only: "s0", "arg0.size(1)" */
} tn_expr_info;
typedef struct tn_exprs tn_exprs;      /* expressions that outlive their graph; any threads */
typedef struct tn_sym_api {
  uint32_t struct_size, _r0;
  tn_status* (*info)(const tn_graph*, uint32_t expr, tn_expr_info* inout);
  tn_status* (*text)(const tn_graph*, uint32_t expr, const tn_sink*);
  tn_status* (*make)(const tn_graph*, uint32_t op, const uint32_t* operands, uint32_t n,
                     uint32_t* out);   /* simplified by the host */
  tn_status* (*constant)(const tn_graph*, int64_t, uint32_t* out);
  int32_t (*known)(const tn_graph*, uint32_t bool_expr);  /* by ranges, guards: 1, 0, -1 unknown */
  /* Fixes the expression to its hint for this compile, guarded; TN_DECLINED on unbacked symbols. */
  tn_status* (*guard)(tn_ctx*, const tn_graph*, uint32_t expr, int64_t* value);
  tn_status* (*eval)(const tn_graph*, uint32_t expr, const int64_t* syms, int64_t* value);
  /* For artifacts: n expressions in their order, evaluated with the tn_call.syms of each call. */
  tn_status* (*keep)(const tn_graph*, const uint32_t* exprs, uint32_t n, tn_exprs** out);
  tn_status* (*eval_kept)(const tn_exprs*, const int64_t* syms, int64_t* values);  /* [n] */
  void (*free_kept)(tn_exprs*);
} tn_sym_api;

/* ---- 5. op table and scalar formulas ---- */
typedef struct tn_op_arg {             /* frozen, 80 bytes */
  tn_str name, type, default_text, alias;
  uint32_t flags, _r0; uint64_t _r1;   /* TN_OA_... */
} tn_op_arg;
enum { TN_OA_KEYWORD_ONLY = 1, TN_OA_WRITTEN = 2 };
typedef struct tn_op_info {
  uint32_t struct_size, n_args, n_returns, n_decomposition_sets;
  uint64_t tags;                       /* TN_TAG_... */
  tn_str name, schema;                 /* "aten.relu.default", ATen schema text */
  const tn_op_arg* args; const tn_op_arg* returns;
  const tn_str* decomposition_sets;    /* the sets in which the op is decomposed */
} tn_op_info;

typedef struct tn_instr {              /* frozen, 16 bytes; defines value n_inputs + its index */
  uint16_t code, dtype;                /* TN_F_... in bits 0..11, the others are zero as yet;
                                          TN_F_COMPUTE_TYPE or a dtype, as TN_BOOL */
  uint32_t a, b, c;                    /* ids of smaller values, as many as the code has operands */
} tn_instr;
/* Parts of a formula: pointwise ops have the first, the others [reserved] for reductions. State:
 * INIT () -> state, STEP (state, elements) -> state, COMBINE (state, state) -> state,
 * FINISH (state, count, numbers) -> results. */
enum { TN_FP_POINTWISE, TN_FP_INIT, TN_FP_STEP, TN_FP_COMBINE, TN_FP_FINISH };
/* The compute type: SAME is the promoted dtype of the operands by PyTorch's rules (f16 and bf16
 * compute in f32), TO_FLOAT the same with f32 for integers and bools. A result has the dtype that
 * the graph gives its value: what the formula gives, rounded to it. The others: [reserved]. */
enum { TN_PROMOTE_SAME, TN_PROMOTE_TO_FLOAT, TN_PROMOTE_TO_BOOL, TN_PROMOTE_NONE };
typedef struct tn_formula {            /* valid for the life of the process */
  uint32_t struct_size, n_inputs, n_outputs, n_instr;
  const tn_instr* instr; const uint32_t* outputs;  /* outputs: value ids */
  const uint32_t* input_args;          /* schema position of each input; TN_NO_VALUE for state */
  const uint16_t* input_dtypes;        /* TN_F_COMPUTE_TYPE, or TN_BOOL for a mask */
  uint32_t promote, _r0;               /* from operand dtypes to the compute type: TN_PROMOTE_... */
} tn_formula;
typedef struct tn_ops_api {
  uint32_t struct_size, _r0;
  uint32_t (*count)(void); uint32_t (*find)(tn_str name);              /* TN_NO_VALUE: unknown */
  tn_status* (*info)(uint32_t op, tn_op_info* inout);
  int32_t (*has_kernel)(uint32_t op, int32_t device_type, int32_t dtype);
  /* A graph, owned by the ctx, whose inputs are the node's value operands in order. */
  tn_status* (*decompose)(tn_ctx*, const tn_graph*, uint32_t node, tn_str set,
                          const tn_graph** out);
  /* The scalar program of an op. `args` (schema order, as in a node) choose among variants: absent
   * optionals, modes such as "tanh"; NULL = all defaults. Numbers are inputs of the compute type.
   * TN_NOT_FOUND where the op or the part has no formula. */
  tn_status* (*formula)(uint32_t op, const tn_arg* args, uint32_t n_args, int32_t part,
                        tn_formula* inout);
} tn_ops_api;

/* ---- 6. running and compiling back ---- */
typedef struct tn_call {
  uint32_t struct_size, flags;         /* TN_CALL_... */
  uint32_t n_inputs, n_outputs, n_syms, _r0;
  tn_tensor** inputs;                  /* borrowed unless stolen; NULL for scalar inputs */
  tn_tensor** outputs;                 /* callee writes new references; on failure none */
  const int64_t* syms;                 /* values of graph->symbols */
  tn_stream* stream;                   /* devices: enqueue here, need not wait */
} tn_call;
/* STEAL_INPUTS: the callee owns each non-NULL input, releases it after its last use, writes NULL;
 * the host releases what is left, also on failure. OUTPUTS_GIVEN [not frozen]: outputs hold tensors
 * to fill. */
enum { TN_CALL_STEAL_INPUTS = 1, TN_CALL_OUTPUTS_GIVEN = 2 };
typedef struct tn_run_api {
  uint32_t struct_size, _r0;
  /* Runs one op through dispatch. TN_ARG_VALUE(S) index `values`; arguments left out at the end
   * have their defaults; out[n_out]: new references. */
  tn_status* (*run_op)(uint32_t op, const tn_arg* args, uint32_t n_args, tn_tensor* const* values,
                       tn_stream*, tn_tensor** out, uint32_t n_out);
  /* An artifact, owned by the receiver, that runs node by node. */
  tn_status* (*interpret)(tn_ctx*, const tn_graph*, tn_artifact** out);
  tn_status* (*compile_with)(tn_ctx*, const tn_graph*, tn_str backend, tn_str options_toml,
                             tn_artifact** out);                       /* cycles are refused */
  /* The convex sub-graph of `nodes`, owned by the ctx; its border as values of the outer one. */
  tn_status* (*extract)(tn_ctx*, const tn_graph*, const uint32_t* nodes, uint32_t n,
                        const tn_graph** sub, const uint32_t** outer_inputs,
                        const uint32_t** outer_outputs);
} tn_run_api;

/* ---- 7. options and services ---- */
typedef struct tn_opt_api {            /* TN_NOT_FOUND for undeclared keys and wrong types */
  uint32_t struct_size, _r0;
  tn_status* (*get_bool)(const tn_options*, tn_str key, int32_t* out);
  tn_status* (*get_i64)(const tn_options*, tn_str key, int64_t* out);
  tn_status* (*get_f64)(const tn_options*, tn_str key, double* out);
  tn_status* (*get_str)(const tn_options*, tn_str key, tn_str* out);   /* strings and enums */
  tn_status* (*get_list)(const tn_options*, tn_str key, const tn_str** items, uint32_t* n);
  tn_status* (*config_bool)(tn_ctx*, tn_str dotted_key, int32_t* out); /* host flags: each key */
  tn_status* (*config_i64)(tn_ctx*, tn_str dotted_key, int64_t* out);  /* joins the cache key  */
  tn_status* (*config_f64)(tn_ctx*, tn_str dotted_key, double* out);
  tn_status* (*config_str)(tn_ctx*, tn_str dotted_key, tn_str* out);
} tn_opt_api;
typedef struct tn_svc_api {
  uint32_t struct_size, _r0;
  void (*log)(int32_t level, const char* component, const char* msg, size_t n);
  int32_t (*log_level)(const char* component);                  /* ask before formatting */
  void* (*alloc)(size_t bytes, size_t align);                   /* NULL when exhausted */
  void (*free)(void*, size_t bytes, size_t align);
  int32_t (*num_threads)(void);
  /* Host pool; nested calls run inline; `body` must not throw; the first failing body wins. */
  tn_status* (*parallel_for)(int64_t begin, int64_t end, int64_t grain,
                             tn_status* (*body)(void* user, int64_t lo, int64_t hi), void* user);
  tn_status* (*cache_get)(tn_ctx*, tn_str key, tn_blob** out);  /* TN_NOT_FOUND on a miss */
  tn_status* (*cache_put)(tn_ctx*, tn_str key, const void* data, size_t n);
  tn_str (*blob_bytes)(const tn_blob*); void (*blob_release)(tn_blob*);
  int32_t (*progress)(tn_ctx*, double fraction, tn_str what);   /* 1 = return TN_CANCELLED soon */
  int32_t (*trace_on)(void);
  void (*trace)(int32_t phase, tn_str category, tn_str name, tn_str args_json);  /* TN_TRACE_... */
  /* Reserves Philox offsets of the host's generator, so that random ops follow its seed. */
  tn_status* (*rng_reserve)(int32_t device_type, int32_t device_index, uint64_t n_4tuples,
                            uint64_t* philox_seed, uint64_t* philox_offset);
  tn_str (*debug_dir)(tn_ctx*);                                 /* empty = do not dump */
  /* Calls body once for each chunk; chunk c is first offered to worker c * workers / n_chunks, with
   * 0 <= worker < num_threads(), one chunk of a worker at a time. Returns after the last one: a
   * barrier between phases is the border of two calls. Nested calls run inline. */
  tn_status* (*parallel_chunks)(int64_t n_chunks,
                                tn_status* (*body)(void* user, int64_t chunk, int32_t worker),
                                void* user);
} tn_svc_api;
enum { TN_TRACE_BEGIN, TN_TRACE_END, TN_TRACE_INSTANT, TN_TRACE_COUNTER };

typedef struct tn_host {               /* valid from entry until shutdown returns */
  uint32_t struct_size, abi_major, abi_minor, _r0;
  tn_str host_version;
  tn_status* (*status_new)(int32_t code, const char* msg, size_t n);        /* never fails */
  tn_status* (*status_wrap)(tn_status* cause, const char* msg, size_t n);   /* takes `cause` */
  tn_status* (*status_at)(tn_status* st, const tn_graph*, uint32_t node);   /* adds its line */
  int32_t (*status_code)(const tn_status*); tn_str (*status_message)(const tn_status*);
  void (*status_free)(tn_status*);
  const void* (*extension)(const char* id, uint32_t min_version);           /* NULL = not there */
  const tn_tensor_api* tensor; const tn_graph_api* graph; const tn_sym_api* sym;
  const tn_ops_api* ops; const tn_run_api* run; const tn_opt_api* opt; const tn_svc_api* svc;
  /* Several may offer one id: the table at `index`, in the order of loading; NULL = no more. */
  const void* (*extension_at)(const char* id, uint32_t min_version, uint32_t index);
} tn_host;

/* ---- 8. what a plugin gives ---- */
enum { TN_STAGE_CAPTURED,              /* as traced, autograd not yet applied */
       TN_STAGE_FORWARD, TN_STAGE_BACKWARD,  /* the halves that the partitioner made */
       TN_STAGE_INFERENCE,             /* functionalised, no grad */
       TN_STAGE_SINGLE_OP };           /* [not frozen] */
enum { TN_RQ_DYNAMIC = 1, TN_RQ_DETERMINISTIC = 2, TN_RQ_GRAD_ENABLED = 4,
       TN_RQ_BOXED = 8,                /* [reserved] */
       TN_RQ_FREEZING = 16,            /* [reserved] constants may be folded in any case */
       TN_RQ_DRY_RUN = 32,             /* [reserved] */
       TN_RQ_BACKWARD_TAPE = 64 };     /* [reserved] compiled autograd */
typedef struct tn_compile_request {    /* borrowed, with all that it points to, for the call */
  uint32_t struct_size; int32_t stage; /* TN_STAGE_... */
  uint64_t flags;                      /* TN_RQ_... */
  tn_ctx* ctx; const tn_graph* graph; const tn_options* options;
  tn_tensor* const* example_inputs;    /* [n_inputs] fakes: data == NULL; NULL for scalars */
  const uint32_t* static_inputs;       /* [n_static] inputs whose address will not change */
  const uint32_t* mutated_inputs;      /* [n_mutated] inputs to update in place; no others */
  const uint32_t* aliased_outputs;     /* [n_outputs] the input to alias, or TN_NO_VALUE */
  uint32_t n_inputs, n_static, n_mutated, n_outputs;
  uint32_t n_saved, _r0;               /* forward: last outputs, backward: first inputs are saved */
  tn_str cache_key, compile_id;        /* compile_id: "site/attempt", for logs and folders */
} tn_compile_request;

enum { TN_AF_STEALS_INPUTS = 1, TN_AF_SERIAL_ONLY = 2,
       TN_AF_WRITES_GIVEN_OUTPUTS = 4, TN_AF_FIXED_ADDRESSES = 8,          /* [not frozen] */
       TN_AF_OWNS_STATIC_INPUTS = 16 };  /* [reserved] has copies of all static inputs */
/* STATS_JSON holds at least kernels, extern_calls, extern_ops, fused_nodes, planned_bytes,
 * naive_bytes, compile_ms, codegen_ms, from_cache. */
enum { TN_DESC_SOURCE, TN_DESC_IR, TN_DESC_ASM, TN_DESC_GRAPH, TN_DESC_MEMORY_PLAN,
       TN_DESC_STATS_JSON };
typedef struct tn_artifact_api {
  uint32_t struct_size, flags;         /* TN_AF_... */
  /* Any threads at once, unless SERIAL_ONLY. Outputs have the dtypes, sizes and strides that the
   * graph says, for ever: nobody downstream asks again. */
  tn_status* (*call)(tn_artifact*, tn_call*);
  void (*destroy)(tn_artifact*);                    /* once, any thread, no call in flight */
  /* Optional. May hold constants of the graph, whose contents are part of the key of the bytes, and
   * nothing of inputs. */
  tn_status* (*serialize)(tn_artifact*, const tn_sink*);
  tn_status* (*describe)(tn_artifact*, int32_t what, const tn_sink*); /* optional; beside calls */
  tn_status* (*set_constants)(tn_artifact*, const uint32_t* values, tn_tensor* const*,
                              uint32_t n);          /* optional; no call in flight */
} tn_artifact_api;
struct tn_artifact { const tn_artifact_api* api; void* self; };       /* frozen */

enum { TN_NOT_SUPPORTED = 0, TN_SUPPORTED = 1, TN_SUPPORTED_IF_FUSED = 2 };
/* What a backend says of each node. */
typedef struct tn_verdicts tn_verdicts;
struct tn_verdicts {
  uint32_t struct_size, n_nodes;
  uint8_t* verdict;                    /* [n_nodes] TN_..., begin as TN_NOT_SUPPORTED */
  uint32_t* group;                     /* [n_nodes] begin as 0; nodes of another number go to the
                                          backend all together, in one region, or not at all */
  void* host_data;
  /* Why a node has its verdict, for the user; copied. */
  void (*reason)(tn_verdicts*, uint32_t node, tn_str why);
};
typedef struct tn_backend {            /* any threads at once, unless threadsafe_compile = false */
  uint32_t struct_size, _r0;
  tn_str name;                         /* as in the manifest; aliases share `self` */
  void* self;
  tn_status* (*compile)(void* self, const tn_compile_request*, tn_artifact** out);
  tn_status* (*supports)(void* self, const tn_compile_request*, uint8_t* verdict_per_node);
  tn_status* (*load)(void* self, const tn_compile_request*, tn_str bytes, tn_artifact** out);
  tn_status* (*fingerprint)(void* self, const tn_sink*);  /* what makes saved artifacts unusable */
  tn_status* (*reset)(void* self);                        /* drops caches in memory */
  tn_status* (*judge)(void* self, const tn_compile_request*, tn_verdicts* inout);
                                                          /* asked instead of supports */
} tn_backend;

/* Eager kernels, tried before the host's own (role [[kernels]]); they run below autograd. */
typedef struct tn_kernels {
  uint32_t struct_size, n_ops;
  int32_t device_type; uint32_t _r0;
  void* self; const tn_str* ops;       /* [n_ops] as in the manifest */
  /* Any threads at once. Allocates its outputs, with the dtypes, sizes and strides of the op's meta
   * function; returns TN_DECLINED, before it has written anything, for what it does not take: the
   * next row is tried. It does not hand its own arguments back to its op. Otherwise as
   * run->run_op. */
  tn_status* (*run)(void* self, uint32_t op_index, const tn_arg* args, uint32_t n_args,
                    tn_tensor* const* values, tn_stream*, tn_tensor** out, uint32_t n_out);
} tn_kernels;

typedef struct tn_device_provider tn_device_provider;  /* <tenon/device.h> [not frozen] */

typedef struct tn_extension {
  uint32_t struct_size, version;       /* "tenon." ids are ours, others use a reverse domain name */
  tn_str id; const void* table;
} tn_extension;
typedef struct tn_plugin {             /* lives as long as the library; names as in the manifest */
  uint32_t struct_size, abi_major, abi_minor, _r0;
  const tn_backend* const* backends; const tn_device_provider* const* devices;
  const tn_extension* const* extensions; const tn_kernels* const* kernels;
  uint32_t n_backends, n_devices, n_extensions, n_kernels;
  tn_status* (*shutdown)(void);        /* optional; once, one thread, nothing else running here */
} tn_plugin;

/* Called once per process, first, on one thread, under the loader's lock: quick, no compilation, no
 * device, no threads. The plugin's only exported symbol. */
typedef tn_status* tn_entry_fn(const tn_host* host, const tn_plugin** out);
TN_EXPORT tn_status* tenon_plugin_entry_v1(const tn_host* host, const tn_plugin** out);

/* ---- 9. manifest: TOML text in an ELF note; tenon_add_plugin writes it from plugin.toml ---- */
#define TN_NOTE_TYPE 0x54000001u
#define TN_MANIFEST(text)                                                                   \
  __attribute__((used, section(".note.tenon"), aligned(4))) static const struct {           \
    uint32_t namesz, descsz, type;                                                          \
    char name[8];                                                                           \
    char desc[(sizeof(text) + 3) & ~(size_t)3];                                             \
  } tn_manifest_note_ = { 6, sizeof(text), TN_NOTE_TYPE, "Tenon", text }

#ifdef __cplusplus
}
#endif
#endif
