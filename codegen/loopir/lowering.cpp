// Tensors while a graph is lowered: how rules read and make them, and which of them get memory.
#include "lowering.h"

#include "parts.h"

#include <algorithm>
#include <unordered_map>

namespace loopir {

// ---- reading and making tensors

const Tensor& Lowering::tensor_arg(const tn_arg& a) {
  if (!is_tensor(a) || !tensors[a.u.value])
    throw tenon::plugin::declined("an argument is not a tensor");
  return *tensors[a.u.value];
}

Id Lowering::at(const Tensor& t, std::span<const Id> indices) {
  Substitution by;
  for (size_t d = 0; d < t.ndim(); ++d)
    if (x.index_at(t.variables[d]).kind == IndexKind::variable)
      by.emplace_back(t.variables[d], indices[d]);
  Id out = x.substitute(t.value, by);
  const Ids& depends_on = x.variables_of(t.value);
  for (size_t d = 0; d < t.ndim(); ++d)
    if (x.reads_data(indices[d]) &&
        !std::binary_search(depends_on.begin(), depends_on.end(), t.variables[d]))
      out = checked_all_the_same(out, indices[d]);
  return out;
}

// No element depends on the index, as in a dimension of one element or of stride 0, but it may be
// out of range: the element is chosen by it, between itself and itself.
Id Lowering::checked_all_the_same(Id element, Id index) {
  Id is_first = x.apply(TN_F_EQ, TN_BOOL, x.index_value(index), x.number(int64_t{0}, TN_I64));
  return x.apply(TN_F_SELECT, x.dtype_of(element), is_first, element, element);
}

// The recording has decided on it, and the host knows on what grounds. The example decides nothing:
// sizes that were 1 may be others.
bool Lowering::is_repeated(Id size, Id other) const {
  if (auto number = x.number_of(size)) return *number == 1;
  if (size == other || x.range(size).lower > 1) return false;
  if (arguments.are_known_equal(size, x.constant(1))) return true;
  if (x.hint(size) == 1 && !arguments.are_known_equal(size, other))
    throw tenon::plugin::declined("a size that is broadcast may be 1 or another one");
  return false;
}

Id Lowering::broadcast_at(const Tensor& t, std::span<const Id> indices, std::span<const Id> sizes) {
  std::span<const Id> last = indices.last(t.ndim()), last_sizes = sizes.last(t.ndim());
  Ids own(last.begin(), last.end());
  for (size_t d = 0; d < own.size(); ++d)
    if (is_repeated(t.sizes[d], last_sizes[d])) own[d] = x.constant(0);
  return at(t, own);
}

Tensor Lowering::make(int32_t dtype, Ids sizes,
                      const std::function<Id(std::span<const Id>)>& value) {
  Tensor out{dtype, std::move(sizes), {}, none};
  for (Id size : out.sizes) out.variables.push_back(x.variable(size));
  out.value = value(out.variables);
  return out;
}

Ids Lowering::contiguous(std::span<const Id> sizes) {
  Ids strides(sizes.size());
  Id step = x.constant(1);
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step = x.multiply(step, sizes[d]);
  }
  return strides;
}

Ids Lowering::channels_last(std::span<const Id> sizes) {
  Ids strides(sizes.size());
  Id step = sizes[1];
  strides[1] = x.constant(1);
  for (size_t d = sizes.size(); d-- > 2;) {
    strides[d] = step;
    step = x.multiply(step, sizes[d]);
  }
  strides[0] = step;
  return strides;
}

Id Lowering::new_buffer(int32_t dtype, Ids sizes, Ids strides, const char* name) {
  return program.add_buffer(
      {Buffer::Place::temporary, 0, dtype, std::move(sizes), std::move(strides), name});
}

Tensor Lowering::over(Id buffer) {
  const Buffer b = program.buffers[buffer];
  return make(b.dtype, b.sizes, [&](std::span<const Id> indices) {
    Id offset = x.constant(0);
    for (size_t d = 0; d < indices.size(); ++d)
      offset = x.add(offset, x.multiply(indices[d], b.strides[d]));
    return x.load(buffer, offset, b.dtype);
  });
}

View Lowering::whole(Id buffer) {
  const Buffer& b = program.buffers[buffer];
  return {buffer, x.constant(0), b.sizes, b.strides};
}

// The order in which the tensor that is read most densely lies in memory.
Ids Lowering::natural_strides(const Tensor& t) {
  Ids loads, order(t.ndim());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<Id>(d);
  size_t most = 0;
  std::vector<int64_t> steps(t.ndim(), 0);
  std::vector<Id> open{t.value};
  std::unordered_map<Id, bool> seen;
  while (!open.empty()) {
    Id v = open.back();
    open.pop_back();
    if (!seen.emplace(v, true).second) continue;
    const ValueNode n = x.value_at(v);
    for (Id o : operands_of(n).values)
      if (o != none) open.push_back(o);
    if (n.code != value_load) continue;
    size_t covered = 0;
    std::vector<int64_t> own(t.ndim(), 0);
    for (size_t d = 0; d < t.ndim(); ++d) {
      auto c = x.coefficient(n.b, t.variables[d]);
      own[d] = c ? x.hint(*c) : 0;
      covered += own[d] > 0;
    }
    if (covered > most) most = covered, steps = own;
  }
  size_t wide = 0;
  for (Id v : t.variables) wide += x.index_at(v).kind == IndexKind::variable;
  if (most < wide) return contiguous(t.sizes);
  std::stable_sort(order.begin(), order.end(), [&](Id a, Id b) {
    if (!steps[a] || !steps[b]) return false;
    return steps[a] > steps[b];
  });
  Ids strides(t.ndim());
  Id step = x.constant(1);
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step = x.multiply(step, t.sizes[order[i]]);
  }
  return strides;
}

Tensor Lowering::stored(const Tensor& t, Id buffer, const char* name) {
  const Buffer b = program.buffers[buffer];
  Loop loop;
  loop.name = name;
  loop.buffer = buffer;
  loop.index = x.constant(0);
  Substitution first;  // of dimensions whose elements are one in memory
  for (size_t d = 0; d < t.ndim(); ++d) {
    bool is_one = x.is(b.strides[d], 0) && x.range(t.sizes[d]).lower > 0;
    if (x.index_at(t.variables[d]).kind == IndexKind::variable) {
      if (is_one)
        first.emplace_back(t.variables[d], x.constant(0));
      else
        loop.outer.push_back(t.variables[d]);
    }
    loop.index = x.add(loop.index, x.multiply(t.variables[d], b.strides[d]));
  }
  loop.value = x.substitute(t.value, first);
  program.steps.push_back(std::move(loop));
  return over(buffer);
}

Tensor Lowering::realised(const Tensor& t, const char* name) {
  const ValueNode& n = x.value_at(t.value);
  if (n.code == value_load && n.c == none && n.dtype == t.dtype) return t;
  return stored(t, new_buffer(t.dtype, t.sizes, natural_strides(t), name), name);
}

int Lowering::cost(Id value, int limit) {
  std::unordered_map<Id, bool> seen;
  std::vector<Id> open{value};
  int sum = 0;
  while (!open.empty() && sum <= limit) {
    Id v = open.back();
    open.pop_back();
    if (!seen.emplace(v, true).second) continue;
    const ValueNode& n = x.value_at(v);
    bool hard = n.code >= TN_F_EXP && n.code <= TN_F_DIGAMMA && n.code != TN_F_SQRT;
    bool is_free = n.code == value_constant || n.code == value_index || n.code == value_real;
    hard = hard || n.code == TN_F_POW || n.code == TN_F_ATAN2 || n.code == value_drawn;
    sum += hard ? 8 : n.code == TN_F_DIV ? 3 : !is_free;
    for (Id o : operands_of(n).values)
      if (o != none) open.push_back(o);
  }
  return sum;
}

Tensor Lowering::cheap(const Tensor& t, const char* name, int limit) {
  return cost(t.value, limit) > limit ? realised(t, name) : t;
}

/// Whether it is one number, and too much for each element that reads it: all that are in f64, of
/// which GPUs do fewer, and functions.
bool Lowering::is_dear_scalar(const Tensor& t) {
  constexpr int cheap_wide = 1, function = 8;
  if (!options.stores_scalars || !t.sizes.empty()) return false;
  return cost(t.value, function) > (t.dtype == TN_F64 ? cheap_wide : function - 1);
}

void Lowering::set(Id graph_value, Tensor t) {
  std::string name = name_of(graph_value);
  if (is_dear_scalar(t)) t = realised(t, name.c_str());
  bool shared = reads[graph_value] > 1 || (is_output[graph_value] && reads[graph_value] > 0);
  if (shared) t = cheap(t, name.c_str());
  if (is_under_overlap[graph_value] && !as_view(t)) {
    Ids promised = arguments.indices_of(info(graph_value).stride_dims());
    t = stored(t, new_buffer(t.dtype, t.sizes, promised, name.c_str()), name.c_str());
  }
  if (cost(t.value, options.most_operations) > options.most_operations)
    t = realised(t, name.c_str());
  tensors[graph_value] = std::move(t);
}

// A fold of much into little has too few rows for all threads: the parts are folded in order.
std::optional<Tensor> Lowering::fold_in_parts(const Ids& outer, const Ids& reduced, Fold fold,
                                              int32_t dtype, const Ids& sizes, Id value,
                                              const std::string& name) {
  bool is_plain = fold != Fold::arg_min && fold != Fold::arg_max;
  if (!options.splits_reductions || !is_plain) return std::nullopt;
  auto cut = options.fold_blocks ? parts_for_blocks(*this, reduced, sizes, value)
                                 : equal_parts(*this, reduced, sizes, value);
  if (!cut) return std::nullopt;
  Id parts = x.extent_of(cut->part);
  Ids more_outer = outer, more_sizes = sizes;
  more_outer.push_back(cut->part);
  more_sizes.push_back(parts);
  Tensor sums = fold_over(more_outer, cut->reduced, fold, dtype, more_sizes, cut->value, name);
  return folded(fold, dtype, sizes, {parts}, name.c_str(),
                [&](std::span<const Id> i, std::span<const Id> p) {
                  Ids all(i.begin(), i.end());
                  all.push_back(p[0]);
                  return this->at(sums, all);
                });
}

Tensor Lowering::fold_over(const Ids& outer, const Ids& reduced, Fold fold, int32_t dtype,
                           Ids sizes, Id value, const std::string& name) {
  auto variables_in = [&](const Ids& indices) {
    Ids out;
    for (Id i : indices)
      if (x.index_at(i).kind == IndexKind::variable) out.push_back(i);
    return out;
  };
  bool gives_position = fold == Fold::arg_min || fold == Fold::arg_max;
  Loop loop;
  loop.reduced = variables_in(reduced);
  if (loop.reduced.empty()) {  // a fold of one element is that element
    Id one = gives_position ? x.number(int64_t{0}, dtype) : x.cast(value, dtype);
    return {dtype, std::move(sizes), outer, one};
  }
  loop.fold = fold;
  loop.name = name;
  loop.value = value;
  Ids strides = contiguous(sizes);
  loop.index = x.constant(0);
  for (size_t d = 0; d < sizes.size(); ++d)
    loop.index = x.add(loop.index, x.multiply(outer[d], strides[d]));
  loop.outer = variables_in(outer);
  if (gives_position) {
    loop.position = x.constant(0);
    for (Id v : loop.reduced) loop.position = x.add(x.multiply(loop.position, x.extent_of(v)), v);
  }
  loop.buffer = new_buffer(dtype, sizes, strides, name.c_str());
  Id buffer = loop.buffer;
  program.steps.push_back(std::move(loop));
  return over(buffer);
}

Tensor Lowering::folded(Fold fold, int32_t dtype, Ids sizes, Ids reduced_sizes, const char* name,
                        const std::function<Id(std::span<const Id>, std::span<const Id>)>& value) {
  Ids outer, reduced;
  for (Id size : sizes) outer.push_back(x.variable(size));
  for (Id size : reduced_sizes) reduced.push_back(x.variable(size));
  Id folds = value(outer, reduced);
  if (auto parts = fold_in_parts(outer, reduced, fold, dtype, sizes, folds, name)) return *parts;
  return fold_over(outer, reduced, fold, dtype, std::move(sizes), folds, name);
}

// ---- views of buffers

std::optional<View> Lowering::as_view(const Tensor& t) {
  const ValueNode n = x.value_at(t.value);
  if (n.code != value_load || n.c != none || n.dtype != t.dtype) return std::nullopt;
  View view{n.a, n.b, t.sizes, Ids(t.ndim(), none)};
  Substitution zero;
  for (size_t d = 0; d < t.ndim(); ++d) {
    if (x.index_at(t.variables[d]).kind != IndexKind::variable) continue;
    auto step = x.coefficient(n.b, t.variables[d]);
    if (!step || !x.variables_of_index(*step).empty() || x.reads_data(*step)) return std::nullopt;
    // A flip's are negative, which no routine takes. A stride is a product of sizes but for its
    // sign, so one size tells it.
    if (x.hint(*step) <= 0 && !x.is(*step, 0)) return std::nullopt;
    view.strides[d] = *step;
    zero.emplace_back(t.variables[d], x.constant(0));
  }
  view.offset = x.substitute_index(n.b, zero);
  if (!x.variables_of_index(view.offset).empty() || x.reads_data(view.offset) ||
      x.range(view.offset).lower < 0)
    return std::nullopt;
  Id step = x.constant(1);
  for (size_t d = t.ndim(); d-- > 0;) {
    if (view.strides[d] == none) view.strides[d] = step;
    step = x.multiply(view.strides[d], t.sizes[d]);
  }
  return view;
}

View Lowering::view_of(const Tensor& t, const char* name) {
  if (auto view = as_view(t)) return *view;
  Id buffer = new_buffer(t.dtype, t.sizes, natural_strides(t), name);
  stored(t, buffer, name);
  return whole(buffer);
}

}  // namespace loopir
