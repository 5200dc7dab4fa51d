// A graph as loops over buffers, calls of library routines, and calls back into the host.
//
// A program is what lowering makes of a graph, in the order of the graph: loops (each computes one
// value for every point of its variables and stores it, or folds it first), products and
// convolutions whose shape a library serves, and externs for the rest. Fusion then puts loops
// together into kernels; nothing else changes.
#pragma once

#include "expressions.h"
#include "fold.h"
#include "reals.h"

#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace loopir {

/// Memory with a shape. Strides are in elements.
struct Buffer {
  enum class Place : uint8_t {
    input,      // slot: graph input
    constant,   // slot: constant of the graph
    output,     // slot: graph output; allocated by the host at each call
    temporary,  // in the arena
    foreign,    // made by an extern, whose tensor it is
    scratch,    // a row of a kernel, in memory of the thread that runs it
    number      // slot: graph input on the CPU, of one element, for kernels of another device
  };
  Place place;
  uint32_t slot = 0;
  int32_t dtype = TN_F32;
  Ids sizes, strides;
  std::string name;
  Id shows = none;  // of a foreign one: the buffer whose memory it may be
};

/// Elements of a buffer by strides: what the library routines and the host read.
struct View {
  Id buffer = none;
  Id offset = none;
  Ids sizes, strides;
};

/// How a loop without a fold changes buffer[index]: to its value, or to that and what was there.
enum class Store : uint8_t { set, add, multiply, minimum, maximum };

/// buffer[index] = fold over `reduced` of value, for every point of `outer`.
///
/// A scan stores what is folded so far at each step of `reduced`, which is one variable; its index
/// depends on that. A loop with `reduced` and without a fold is a scatter: its index is data, so
/// several points may write one element, but only points that differ in `reduced`, which run in
/// order.
struct Loop {
  Ids outer, reduced;  // variables
  Fold fold = Fold::none;
  Id value = none;
  Id position = none;  // arg_min, arg_max: of this element among those that are folded
  Id buffer = none, index = none;
  std::string name;
  std::set<uint32_t> nodes;  // of the graph, of which it computes a part
  bool is_scan = false;
  Store store = Store::set;

  bool is_scatter() const { return fold == Fold::none && !reduced.empty(); }
};

/// How a product or convolution is done, where max_autotune has found another way than the rules'.
enum class Way : uint8_t {
  by_rule,
  rows,             // products: each thread takes rows of the result
  columns,          // products: each thread takes columns
  one_thread,       // products
  transformed,      // convolutions: by Winograd's method
  windows,          // convolutions: as a product of windows
  direct,           // convolutions: by the library, a slice for each thread
  direct_in_halves  // the same, two slices for each thread
};
constexpr Way last_way = Way::direct_in_halves;

/// What is done to a result before it is stored, in order; `operand` of add: in the result's
/// layout.
struct EpilogueOp {
  enum class Kind : uint8_t {
    relu,
    hardswish,
    hardsigmoid,
    silu,
    gelu_erf,
    sigmoid,
    tanh,
    add,
    gelu_tanh  // last: saved forms hold the numbers
  };
  Kind kind;
  View operand;
};

/// result[b, m, n] = alpha * (left[b, m, k] x right[b, k, n]) + bias[n]; without batch b is absent,
/// with a bias alpha is 1. All are f32 or all f64; or left and right are bf16 or both f16, and the
/// bias and the result each have that dtype or f32; the result is rounded once.
struct Product {
  View left, right, result;
  std::optional<View> bias;
  double alpha = 1;
  Way way = Way::by_rule;
  std::vector<EpilogueOp> epilogue;
  std::string name;
};

/// A convolution, not transposed. Views are [n, c, depth, height, width]; of fewer dimensions the
/// first ones of space have length 1 and kernel 1.
struct Convolution {
  int32_t dtype = TN_F32;  // f32, bf16 or f64; of all views but the bias, which may be in f32
  View source, weights, result;
  std::optional<View> bias;
  int64_t stride[3], padding[3], dilation[3], groups;
  bool may_transform = false;  // by Winograd's method, which rounds more
  Way way = Way::by_rule;
  std::vector<EpilogueOp> epilogue;
  std::string name;
};

/// What the result of a convolution's gradient gives for its source or its weights, the tensor that
/// is not among the operands. A transposed convolution is that of its source.
struct ConvolutionGradient {
  int32_t dtype = TN_F32;  // of the operands; the result has that, or f32
  bool of_weights = false;
  View gradient;  // of the convolution's result
  View operand;   // the source where it is of the weights, else the weights
  View result;
  int64_t stride[3], padding[3], dilation[3], groups;
  std::string name;
};

/// result[b, h, m, d] = softmax(scale * query x key^T + mask) x value, rows of no key giving 0. All
/// are of one dtype.
struct Attention {
  View query, key, value, result;  // 4-d: batch, heads, positions, channels
  std::optional<View> mask;  // bool or that, as [b, h, m, n]; repeated dimensions have stride 0
  int32_t mask_dtype = TN_F32;
  bool is_causal = false;
  double scale = 1;
  Id factor = none;              // a number that scales besides, where it is known at the call only
  std::optional<View> log_sums;  // of each row, f32, [b, h, m, 1]: a result for who asks
  std::string name;
};

/// The gradients of one, by FlashAttention's formulas.
struct AttentionGradient {
  Attention of;                     // its result and log-sums are read
  View gradient;                    // of the result
  View of_query, of_key, of_value;  // the results
  std::string name;
};

/// One direction of a recurrent layer. Rows are dense.
struct RecurrentDirection {
  View input;                // [steps, batch, gates * size]: what the layer's input gives
  View weights;              // [gates * size, size], of the state
  std::optional<View> bias;  // [gates * size], of that product
  View state, last_state;    // [batch, size], before the first step and behind the last one
  std::optional<View> cell, last_cell;  // the same, of an LSTM
  View result;                          // [steps, batch, size]: the state behind each step
  bool is_backward = false;             // from the last step to the first
};

/// All steps of a recurrent layer. Gates are in the order of ATen's weights.
struct Recurrence {
  enum class Cell : uint8_t { lstm, gru, tanh, relu };
  Cell cell = Cell::lstm;
  std::vector<RecurrentDirection> directions;  // one or two
  std::string name;
};

/// An op that the host runs.
struct Extern {
  uint32_t op;
  std::string name;
  std::unique_ptr<tenon::plugin::owned_node> node;
  std::map<Id, View> tensors;        // what the node's value operands are, by graph value
  std::map<Id, Id> numbers;          // symbolic numbers among them: graph value to index
  std::vector<Ids> symbolic;         // per argument: indices of a symbolic number or list, or empty
  std::map<size_t, uint32_t> reals;  // by argument: the place of a symbolic real number
  std::vector<Id> results;           // buffers; none where nobody reads one
  bool looks_by_place = false;       // operands are views of the storages that the graph promises
  bool has_effect = false;           // it runs whoever reads its results
  bool is_ordered = false;           // it runs behind the ordered ones that come before it
  bool is_random = false;            // it draws from the host's generator
};

using Step = std::variant<Loop, Product, Convolution, ConvolutionGradient, Attention,
                          AttentionGradient, Recurrence, Extern>;

/// One graph output.
struct Output {
  enum class Kind : uint8_t {
    absent,
    buffer,  // the output buffer itself
    view     // of an input, a constant or an output buffer
  };
  Kind kind = Kind::absent;
  View view;
};

/// As a JSON string.
std::string quoted(std::string_view text);

using tenon::plugin::item_size;

struct Program {
  Expressions expressions;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  std::vector<tenon::plugin::tensor> constants;
  std::vector<Real> reals;            // of the table of numbers, behind the symbols
  std::vector<bool> is_static_input;  // its address does not change between calls
  uint32_t n_inputs = 0;
  uint32_t n_symbols = 0;  // of the graph
  uint32_t views_removed = 0;
  /// By buffer: the one whose memory it reuses (which has memory of its own), or none. Empty:
  /// each has its own.
  Ids memory_of;

  Id owner_of_memory(Id buffer) const {
    return memory_of.empty() || memory_of[buffer] == none ? buffer : memory_of[buffer];
  }
  Id add_buffer(Buffer b) {
    buffers.push_back(std::move(b));
    return static_cast<Id>(buffers.size() - 1);
  }
};

/// The buffers that a step reads and writes.
struct Access {
  Ids reads, writes;
};
Access access_of(Program& program, const Step& step);
/// Every load in a value, those in indices included, once; every load in an index; in the extents of
/// variables, which are data where a fold's length is.
void for_each_load(Expressions& x, Id value, const std::function<void(const ValueNode&)>& see);
void for_each_index_load(Expressions& x, Id index,
                         const std::function<void(const ValueNode&)>& see);
void for_each_extent_load(Expressions& x, const Ids& variables,
                          const std::function<void(const ValueNode&)>& see);
/// The buffers that a value loads from; those that an index does, that extents do.
void add_loads(Expressions& x, Id value, Ids& out);
void add_index_loads(Expressions& x, Id index, Ids& out);
void add_extent_loads(Expressions& x, const Ids& variables, Ids& out);

/// Adds the symbols that a graph's value shows as such, as a size, a stride or a number of any
/// kind; whether some were not among those seen. A symbol that no input shows is known at run time
/// only.
bool see_symbols(const tenon::plugin::graph& g, uint32_t value, std::set<uint32_t>& seen);

struct LoweringOptions {
  int32_t device_type = TN_DEV_CPU;  // where the graph runs
  int most_operations = 96;          // an expression of more becomes a tensor in memory
  int repeated_operations = 3;     // one that several ops read is computed by each up to this many
  int window_operations = 3;       // the same, of what windows that overlap read
  bool may_transform = false;      // convolutions
  bool multiplies_bf16 = false;    // in products, as it is; else it is made f32 before
  bool multiplies_f16 = false;     // the same, also in convolutions
  bool narrow_bias = false;        // the bias of a product has the dtype of its operands
  bool any_attention = false;      // of all floating dtypes; else of f32
  bool rounds_narrow = false;      // bf16 and f16 after each op
  bool optimizes_layout = true;    // images between convolutions are channels-last
  bool shares_images = false;      // what a convolution reads is read there by others, too
  bool adds_biases_apart = false;  // of 16-bit convolutions and of those of a few channels
  bool stores_scalars = false;     // numbers that take long are computed once, not by all elements
  bool splits_reductions = false;  // long folds of few rows are cut into parts
  int64_t fold_blocks = 0;         // as many as give that many blocks of threads; 0: a fixed number
  bool draws = false;              // random ops are loops, if all of the graph's can be
  /// Whether a convolution or a gradient of one has a fast kernel for the sizes seen; its views
  /// have sizes, and no buffers yet. Without it, all have one.
  std::function<bool(const Program&, const Step&)> has_fast_kernel;
  std::set<uint32_t> externs;  // nodes that the host shall run
};

/// The graph as a program. Throws `declined` for what no part of it can be (data-dependent sizes,
/// bodies of control flow, values that are not tensors).
Program lower(const tn_compile_request& request, const LoweringOptions& options = {});

/// Whether the op sums each channel of an image, or each group of them, over its pixels.
bool has_statistics_of_channels(std::string_view op);

}  // namespace loopir
