// From ops to loops: what every file of lowering rules works with.
//
// Model: a graph value is a `Tensor`: sizes and a value over one variable a dimension. Ops read
// operands by putting their own indices in the place of those variables, so views cost nothing and
// pointwise ops pile up in one expression. A tensor gets memory (`realised`) when it is read more
// than once and is worth keeping, when a library routine or the host reads it, or when it is an
// output; its consumer and its producer may still be fused into one kernel afterwards, where it
// stays in a register. Realising early is therefore cheap, and expressions stay small.
#pragma once

#include "arguments.h"
#include "program.h"

#include <functional>

namespace loopir {

/// A value for each element. `variables` are indices; a dimension of size 1 has the constant 0.
struct Tensor {
  int32_t dtype = TN_F32;
  Ids sizes, variables;
  Id value = none;
  size_t ndim() const { return sizes.size(); }
};

struct Lowering;

/// One rule: makes the results of a node, or returns false for what the host shall run.
struct Rule {
  const char* op;
  bool (*lower)(Lowering& to, const tenon::plugin::node& node);
};
std::span<const Rule> view_rules();
std::span<const Rule> copy_rules();
std::span<const Rule> reduce_rules();
std::span<const Rule> scan_rules();
std::span<const Rule> scatter_rules();
std::span<const Rule> bag_rules();
std::span<const Rule> norm_rules();
std::span<const Rule> index_rules();
std::span<const Rule> pool_rules();
std::span<const Rule> pool_backward_rules();
std::span<const Rule> pad_rules();
std::span<const Rule> resample_rules();
std::span<const Rule> loss_rules();
std::span<const Rule> matrix_rules();
std::span<const Rule> attention_rules();
std::span<const Rule> recurrent_rules();
std::span<const Rule> random_rules();
/// Any op with a formula.
bool lower_formula(Lowering& to, const tenon::plugin::node& node);
/// Any op at all, run by the host.
void lower_extern(Lowering& to, const tenon::plugin::node& node);

struct Lowering {
  Program& program;
  Expressions& x;
  tenon::plugin::graph graph;
  Arguments arguments;
  std::vector<std::optional<Tensor>> tensors;  // by graph value
  std::vector<uint32_t> reads;                 // uses by ops that are not views, through views
  std::vector<bool> is_output;
  std::vector<bool> is_under_overlap;  // an output shows its memory with elements that overlap
  LoweringOptions options;

  explicit Lowering(Program& p, const tn_compile_request& request, const LoweringOptions& options)
      : program(p),
        x(p.expressions),
        graph(request),
        arguments(graph, x, p.reals),
        options(options) {}

  // ---- arguments of a node
  bool is_tensor(const tn_arg& a) const {
    return a.kind == TN_ARG_VALUE && info(a.u.value).is_tensor();
  }
  const Tensor& tensor_arg(const tn_arg& a);
  /// Whether its contents change only when the caller writes a parameter.
  bool is_parameter(Id buffer) const {
    const Buffer& b = program.buffers[buffer];
    return b.place == Buffer::Place::constant ||
           (b.place == Buffer::Place::input && program.is_static_input[b.slot]);
  }

  // ---- tensors
  Id at(const Tensor& t, std::span<const Id> indices);
  /// t[indices] with trailing dimensions aligned and sizes of 1 repeated; `sizes` are those that
  /// the indices are for.
  Id broadcast_at(const Tensor& t, std::span<const Id> indices, std::span<const Id> sizes);
  /// Whether a size is 1 in every call, so that its element serves all of the other tensor's; else
  /// it is the other's in every call. Throws `declined` where calls may differ in that.
  bool is_repeated(Id size, Id other) const;
  Tensor make(int32_t dtype, Ids sizes, const std::function<Id(std::span<const Id>)>& value);
  /// The result of an op; realised if that is worth it.
  void set(Id graph_value, Tensor t);
  /// In memory, and read from there.
  Tensor realised(const Tensor& t, const char* name);
  Tensor cheap(const Tensor& t, const char* name) {
    return cheap(t, name, options.repeated_operations);
  }
  /// In memory where an element takes more operations than that.
  Tensor cheap(const Tensor& t, const char* name, int operations);
  /// Folds the last `n` variables of a value that was made with them.
  Tensor folded(
      Fold fold, int32_t dtype, Ids sizes, Ids reduced_sizes, const char* name,
      const std::function<Id(std::span<const Id> outer, std::span<const Id> reduced)>& value);
  /// The same over variables that are there already; sizes of `outer`.
  Tensor fold_over(const Ids& outer, const Ids& reduced, Fold fold, int32_t dtype, Ids sizes,
                   Id value, const std::string& name);
  /// out[..., i, ...] = fold over j <= i of t[..., j, ...], in dimension `dim`.
  Tensor scanned(Fold fold, const Tensor& t, size_t dim, const char* name);
  /// The tensor as strided elements of one buffer, if it is that.
  std::optional<View> as_view(const Tensor& t);
  /// The same, in memory of its own if need be.
  View view_of(const Tensor& t, const char* name);
  /// Whole tensor over a buffer.
  Tensor over(Id buffer);
  View whole(Id buffer);
  Id new_buffer(int32_t dtype, Ids sizes, Ids strides, const char* name);
  Ids contiguous(std::span<const Id> sizes);
  /// Strides in which dimension 1 is the fastest of an image.
  Ids channels_last(std::span<const Id> sizes);
  /// Of results whose layout is free.
  Ids image_layout(std::span<const Id> sizes) {
    return options.optimizes_layout ? channels_last(sizes) : contiguous(sizes);
  }
  tenon::plugin::value info(Id graph_value) const { return graph.value_at(graph_value); }
  std::string name_of(Id graph_value) const {
    return std::string(tenon::plugin::sv(info(graph_value).name));
  }
  Ids sizes_of(Id graph_value) { return arguments.indices_of(info(graph_value).dims()); }

  /// The tensor over this buffer, once it was stored there.
  Tensor stored(const Tensor& t, Id buffer, const char* name);

 private:
  Id checked_all_the_same(Id element, Id index);
  std::optional<Tensor> fold_in_parts(const Ids& outer, const Ids& reduced, Fold fold,
                                      int32_t dtype, const Ids& sizes, Id value,
                                      const std::string& name);
  Ids natural_strides(const Tensor& t);
  int cost(Id value, int limit);
  bool is_dear_scalar(const Tensor& t);
};

/// The graph values that a node reads.
template <class F>
void for_each_operand(const tenon::plugin::node& n, F&& f) {
  for (const tn_arg& a : n.arguments()) {
    if (a.kind == TN_ARG_VALUE) f(a.u.value);
    if (a.kind == TN_ARG_VALUES)
      for (uint32_t i = 0; i < a.count; ++i)
        if (a.u.values[i] != TN_NO_VALUE) f(a.u.values[i]);
  }
}

inline int32_t compute_type(int32_t dtype) { return is_narrow(dtype) ? int32_t{TN_F32} : dtype; }
/// The dtypes that loops compute on.
inline bool is_computing(int32_t dtype) {
  return (dtype >= TN_U8 && dtype <= TN_F64) || dtype == TN_BOOL || dtype == TN_BF16;
}

}  // namespace loopir
