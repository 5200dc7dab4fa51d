// .pt2 archives of PyTorch as plain data: the program, its signature and its weights.
//
//   Pt2Program program = read_pt2("vit.pt2");
//   for (const Pt2Node& node : program.graph.nodes) use(node.op, node.inputs, node.outputs);
//
// A program that comes back is consistent in itself: every name is defined once and before its use,
// every tensor has a description, inputs and outputs match the signature, every weight lies within
// its record and agrees with the graph. Whether its ops exist, and take these arguments, is the
// importer's to check.
//
// Errors are UserError: bad_file for what is malformed, foreign or of an old layout; unsupported
// for what is well-formed but not for Tenon (tensor subclasses, custom objects, sparse layouts,
// some dtypes).
#pragma once

#include "formats/limits.h"
#include "formats/pt2/pt2_expr.h"
#include "formats/tenon_file.h"

#include <tenon/dtype.h>
#include <tenon/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::formats {

struct Pt2Options {
  std::string program;  ///< which program of several; empty: the only one
  uint64_t max_size = limits::archive_bytes;
  bool check_crc = true;
  bool random_weights = false;  ///< accept records without data: Pt2Weight::has_data is false
};

/// A device as the file names it: "cpu", "cuda"; -1 where it gives no index.
struct Pt2Device {
  std::string type = "cpu";
  int64_t index = -1;
};

/// A size, stride or scalar, with the value it had at export.
struct Pt2Sym {
  /// A constant, or over Pt2Program::symbols; null for what Tenon's expressions cannot say.
  const Expr* expr = nullptr;
  std::optional<SymValue> hint;  ///< none for numbers and data-dependent (unbacked) expressions

  /// Whether the file gives no plain number.
  bool is_symbolic() const { return !expr || !expr->is_constant(); }
};

/// "2*s0 + 1", "8".
std::string to_text(const Pt2Sym& sym);

struct Pt2TensorMeta {
  Dtype dtype = Dtype::f32;
  std::vector<Pt2Sym> sizes;
  std::vector<Pt2Sym> strides;
  Pt2Sym storage_offset;
  bool requires_grad = false;
  Pt2Device device;
};

struct Pt2Graph;

enum class Pt2Kind : uint8_t {
  none,
  tensor,         ///< `text` is the name of a value
  symbol,         ///< `text` is the name of a symbolic scalar; `symbol_type` its type
  integer,        ///< `integer`
  real,           ///< `real`
  boolean,        ///< `boolean`
  string,         ///< `text`
  complex,        ///< `real`, `imaginary`
  dtype,          ///< `dtype`
  layout,         ///< always strided
  memory_format,  ///< `memory_format`
  device,         ///< `device`
  graph,          ///< `text` and `graph`; arguments of higher-order ops
  op,             ///< `text` is a target
  list,           ///< `items`, whose own kinds may mix with none and symbols; `element`
  dict,           ///< `keys` and `items`
};

enum class Pt2SymbolType : uint8_t { integer, real, boolean };

/// One argument or result. Lists keep the writer's element kind, since an empty one has no other;
/// `tensor` is also what empty lists of unknown elements say.
struct Pt2Argument {
  Pt2Kind kind = Pt2Kind::none;
  Pt2Kind element = Pt2Kind::none;
  Pt2SymbolType symbol_type = Pt2SymbolType::integer;
  bool boolean = false;
  Dtype dtype = Dtype::f32;
  MemoryFormat memory_format = MemoryFormat::contiguous;
  int64_t integer = 0;
  double real = 0;
  double imaginary = 0;
  std::string text;
  Pt2Device device;
  std::vector<Pt2Argument> items;
  std::vector<std::string> keys;
  std::shared_ptr<const Pt2Graph> graph;
};

struct Pt2NamedArgument {
  std::string name;  ///< the schema's; empty for higher-order ops
  Pt2Argument value;
  bool is_keyword = false;
};

enum class Pt2TargetKind : uint8_t {
  op,               ///< torch.ops.aten.add.Tensor: `op` is "aten.add.Tensor"
  higher_order,     ///< torch.ops.higher_order.cond: `op` is "cond"
  scalar_function,  ///< _operator.add, math.trunc, torch.sym_max: `op` is "add", "trunc", "sym_max"
  unknown,          ///< anything else: `op` is the target
};

struct Pt2Node {
  std::string target;
  Pt2TargetKind kind = Pt2TargetKind::unknown;
  std::string op;
  std::string name;  ///< may be empty
  std::vector<Pt2NamedArgument> inputs;
  std::vector<Pt2Argument> outputs;
  std::optional<bool> hop_single_tensor_return;
  std::string stack_trace;      ///< Python source lines, for messages
  std::string nn_module_stack;  ///< "key,path,type" entries separated by ';'
};

struct Pt2Graph {
  std::vector<Pt2Argument> inputs;
  std::vector<Pt2Argument> outputs;
  std::vector<Pt2Node> nodes;
  std::unordered_map<std::string, Pt2TensorMeta> tensors;  ///< every tensor by name
  std::unordered_map<std::string, Pt2Sym> symbols;         ///< every symbolic scalar by name
  bool is_single_tensor_return = false;
};

enum class Pt2InputKind : uint8_t {
  parameter,
  buffer,
  tensor_constant,
  user_input,
  constant_input
};

/// One graph input: what it is bound to.
struct Pt2Input {
  Pt2InputKind kind = Pt2InputKind::user_input;
  std::string name;        ///< of the graph input; of a constant input its argument name
  std::string target;      ///< FQN of a parameter, buffer or constant
  bool persistent = true;  ///< of a buffer
  Pt2Argument value;       ///< user input: as in graph.inputs; constant input: the value
};

enum class Pt2OutputKind : uint8_t {
  user_output,
  loss_output,
  buffer_mutation,
  parameter_mutation,
  user_input_mutation,
  gradient_to_parameter,
  gradient_to_user_input,
};

struct Pt2Output {
  Pt2OutputKind kind = Pt2OutputKind::user_output;
  Pt2Argument value;
  std::string target;  ///< FQN, or the name of a user input; empty for user and loss outputs
};

/// How nested Python containers are flattened; `leaf` includes None.
struct Pt2Tree {
  enum class Kind : uint8_t {
    leaf,
    tuple,
    list,
    dict,
    ordered_dict,
    named_tuple,
    deque,
    default_dict,
    other,  ///< a registered type: a tuple of its children
  };
  Kind kind = Kind::leaf;
  std::string type;               ///< as written: "builtins.tuple"
  std::vector<std::string> keys;  ///< of dicts in insertion order; field names of a named tuple
  std::vector<Pt2Tree> children;

  size_t leaf_count() const;
};

/// A bound on an expression; for a plain symbol its range.
struct Pt2Range {
  std::string text;
  const Expr* expr = nullptr;  ///< null when `text` cannot be read
  std::optional<int64_t> min;
  std::optional<int64_t> max;
  /// The graph was traced with values from here on. Those between `min` and it are allowed, since
  /// PyTorch allows them, but the expressions may not take them for impossible.
  int64_t traced_min = Range::no_lower;
};

/// What a symbol of a guard stands for: a property of an argument, or an argument that is a number.
struct Pt2Place {
  enum class Kind : uint8_t { size, stride, storage_offset, rank, value };
  const Expr* symbol = nullptr;
  size_t leaf = 0;  ///< of the arguments in flattened order
  Kind kind = Kind::size;
  int64_t dim = 0;  ///< of sizes and strides
};

/// A condition over the arguments that the export relied on.
struct Pt2Guard {
  std::string text;
  const Expr* expr = nullptr;    ///< a condition; null when `text` cannot be read
  std::vector<Pt2Place> places;  ///< of each of its symbols
  std::string problem;           ///< why it cannot be read
};

/// A parameter, buffer or constant: a view of a record.
struct Pt2Weight {
  std::string name;    ///< FQN
  std::string record;  ///< equal for weights that share their storage, "weights/weight_3"
  Bytes storage;       ///< the whole record, at a 64-byte boundary, read-only
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< in elements
  int64_t offset = 0;            ///< in elements
  bool is_parameter = false;
  bool requires_grad = false;
  bool has_data = true;  ///< false: the archive was saved without data
  Pt2Device device;
};

struct Pt2Program {
  std::string file;
  std::string name;  ///< "model" when only one was saved
  int64_t schema_major = 0;
  int64_t schema_minor = 0;
  std::string torch_version;
  std::shared_ptr<ShapeEnv> symbols;   ///< what its expressions are over
  std::vector<std::string> verifiers;  ///< {"TRAINING"}: may mutate; {"ATEN"}: functional
  Pt2Graph graph;
  std::vector<Pt2Input> inputs;    ///< parallel to graph.inputs
  std::vector<Pt2Output> outputs;  ///< parallel to graph.outputs
  std::vector<Pt2Range> ranges;
  std::vector<Pt2Guard> guards;
  std::optional<Pt2Tree> in_tree;  ///< the tuple (args, kwargs)
  std::optional<Pt2Tree> out_tree;
  std::vector<std::string> argument_names;  ///< of forward; may be empty
  std::vector<Pt2Weight> weights;           ///< parameters and persistent buffers
  std::vector<Pt2Weight> constants;         ///< non-persistent buffers and tensor constants
  /// The records that all of this but the weights was read from, by their names in the archive.
  std::vector<std::pair<std::string, Bytes>> texts;

  /// The weight that `input` is bound to; nullptr for user and constant inputs.
  const Pt2Weight* find_weight(const Pt2Input& input) const;
};

Pt2Program read_pt2(const std::string& path, const Pt2Options& options = {});
/// The same for bytes in memory; `subject` stands for the file's name in messages.
Pt2Program read_pt2(Bytes file, const std::string& subject, const Pt2Options& options = {});

/// The program whose records are sections of a .tenon file.
Pt2Program read_pt2(const TenonFile& file, const std::string& name);

}  // namespace tenon::formats
