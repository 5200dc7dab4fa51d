// Reading and writing by index tensors: index, index_put, index_select, and masks turned into
// indices.
#include "ops/index/advanced_index.h"
#include "ops/index/mask.h"
#include "ops/index/positions.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

Tensor index_of(const char* op, const Tensor& index) {
  require_index_dtype(op, index);
  return converted(index, Dtype::i64);
}

Tensor classes_within(const Tensor& target, SymInt n_classes) {
  Tensor all = arange(Number(n_classes), Dtype::i64, std::nullopt, target.device());
  return reshape(index_select(all, 0, reshape(target, {-1})), target.sizes());
}

namespace {

// A mask of k dimensions stands for k index tensors, and fits the dimensions that they index.
void check_masks(const char* op, const Tensor& self, TensorList indices) {
  int64_t n = 0;
  for (const Tensor& t : indices) {
    bool masks = is_mask(t);
    for (int64_t d = 0; masks && d < t.dim(); ++d)
      require(n + d < self.dim() && sizes_match(t.size(d), self.size(n + d)),
              "{}: the mask of shape {} does not fit the tensor of shape {}", op, t.sizes(),
              self.sizes());
    n += masks ? t.dim() : 1;
  }
  require(n <= self.dim(), "{}: {} indices for a tensor of shape {}", op, n, self.sizes());
}

// A mask without dimensions chooses along a dimension of size 1 that `self` gets for it: all of
// `self` once, or nothing.
Tensor with_dims_for_masks(Tensor self, std::vector<Tensor>& indices) {
  int64_t n = 0;
  for (Tensor& t : indices) {
    bool masks = is_mask(t);
    if (masks && t.dim() == 0) {
      self = unsqueeze(self, n);
      t = unsqueeze(t, 0);
    }
    n += masks ? t.dim() : 1;
  }
  return self;
}

std::vector<Tensor> expanded_masks(const std::vector<Tensor>& indices) {
  std::vector<Tensor> out;
  for (const Tensor& t : indices) {
    if (!is_mask(t)) {
      out.push_back(t);
      continue;
    }
    Tensor positions = nonzero(t);
    for (int64_t d = 0; d < t.dim(); ++d) out.push_back(select(positions, 1, d));
  }
  return out;
}

bool are_neighbours(const std::vector<Tensor>& indices) {
  size_t changes = 0;
  for (size_t i = 0; i < indices.size(); ++i)
    changes += i == 0 ? indices[i].defined() : indices[i].defined() && !indices[i - 1].defined();
  return changes <= 1;
}

Tensor with_dims_first(const Tensor& self, std::vector<Tensor>& indices) {
  std::vector<int64_t> order;
  std::vector<Tensor> reordered;
  for (bool indexed : {true, false})
    for (size_t d = 0; d < static_cast<size_t>(self.dim()); ++d) {
      bool has_index = d < indices.size() && indices[d].defined();
      if (has_index != indexed) continue;
      order.push_back(static_cast<int64_t>(d));
      if (indexed) reordered.push_back(indices[d]);
    }
  indices = std::move(reordered);
  return permute(self, order);
}

}  // namespace

IndexPlan plan_index(const char* op, const Tensor& self, TensorList given) {
  check_masks(op, self, given);
  std::vector<Tensor> indices(given.begin(), given.end());
  IndexPlan plan{with_dims_for_masks(self, indices), {}, 0, {}, {}};
  indices = expanded_masks(indices);
  if (!are_neighbours(indices)) plan.self = with_dims_first(plan.self, indices);
  while (plan.first < indices.size() && !indices[plan.first].defined()) ++plan.first;
  for (size_t i = plan.first; i < indices.size() && indices[i].defined(); ++i)
    plan.indices.push_back(indices[i]);
  plan.index_sizes = broadcast_sizes(std::span<const Tensor>(plan.indices));
  for (Tensor& t : plan.indices) t = expand(t, list_of(plan.index_sizes));
  for (size_t d = 0; d < plan.first; ++d) plan.sizes.push_back(plan.self.sizes()[d]);
  for (SymInt s : plan.index_sizes) plan.sizes.push_back(s);
  for (size_t d = plan.first + plan.indices.size(); d < plan.self.sizes().size(); ++d)
    plan.sizes.push_back(plan.self.sizes()[d]);
  return plan;
}

// The strides are those that ATen's iterator gives to operands (self with B as repeated dimensions,
// then the indices).
TensorMeta index_meta(const IndexPlan& plan) {
  size_t n = plan.sizes.size(), n_index = plan.index_sizes.size(), skipped = plan.indices.size();
  Dims own(n, SymInt(0));
  for (size_t d = 0; d < n; ++d) {
    if (d < plan.first)
      own[d] = plan.self.strides()[d];
    else if (d >= plan.first + n_index)
      own[d] = plan.self.strides()[d - n_index + skipped];
  }
  std::vector<Tensor> operands{make_fake({plan.self.dtype(), plan.self.device(), plan.sizes, own})};
  for (const Tensor& t : plan.indices) {
    Dims strides(n, SymInt(0));
    for (size_t d = 0; d < n_index; ++d) strides[plan.first + d] = t.strides()[d];
    operands.push_back(make_fake({Dtype::i64, plan.self.device(), plan.sizes, strides}));
  }
  return {plan.self.dtype(), plan.self.device(), plan.sizes,
          pointwise_strides(list_of(plan.sizes), operands)};
}

std::vector<int64_t> index_offsets(const char* op, const IndexPlan& plan) {
  std::vector<int64_t> offsets;
  for (size_t k = 0; k < plan.indices.size(); ++k) {
    Tensor index = index_of(op, plan.indices[k]);
    int64_t size = sizes_of(plan.self)[plan.first + k],
            step = strides_of(plan.self)[plan.first + k];
    const int64_t* values = data_of<int64_t>(index);
    offsets.resize(static_cast<size_t>(numel_of(index)), 0);
    for (size_t i = 0; i < offsets.size(); ++i)
      offsets[i] += checked_index(op, values[i], size) * step;
  }
  if (plan.indices.empty()) offsets.push_back(0);
  return offsets;
}

namespace {

void check_index_dtypes(const char* op, const IndexPlan& plan) {
  for (const Tensor& t : plan.indices) require_index_dtype(op, t);
}

TensorMeta index_meta_of(const Tensor& self, TensorList indices) {
  IndexPlan plan = plan_index("index", self, indices);
  check_index_dtypes("index", plan);
  return index_meta(plan);
}

// One mask for all elements: no positions are needed.
bool is_mask_of_all(const Tensor& self, TensorList indices) {
  return indices.size() == 1 && indices[0].defined() && indices[0].dtype() == Dtype::bool_ &&
         self.dim() > 0 && indices[0].dim() == self.dim();
}

Tensor index_kernel(const Tensor& self, TensorList indices) {
  if (is_mask_of_all(self, indices)) {
    check_masks("index", self, indices);
    return masked_select(self, indices[0]);
  }
  IndexPlan plan = plan_index("index", self, indices);
  Tensor out = make_tensor(index_meta(plan));
  if (numel_of(out) == 0) return out;
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    const T* from = data_of<T>(plan.self);
    T* to = data_of<T>(out);
    for_each_indexed_run(
        "index", plan, strides_of(out),
        [&](int64_t source, int64_t target, int64_t n, int64_t source_step, int64_t target_step) {
          for (int64_t i = 0; i < n; ++i)
            to[target + i * target_step] = from[source + i * source_step];
        });
  });
  return out;
}

// Strides of values broadcast to the shape that the indices name.
Dims value_strides(const char* op, const IndexPlan& plan, const Tensor& values) {
  Dims sizes = broadcast_sizes(list_of(plan.sizes), values.sizes());
  bool same = sizes.size() == plan.sizes.size();
  for (size_t i = 0; same && i < sizes.size(); ++i) same = sizes_match(sizes[i], plan.sizes[i]);
  require(same, "{}: values of shape {} do not broadcast to {}", op, values.sizes(),
          list_of(plan.sizes));
  return broadcast_strides(values.sizes(), values.strides(), list_of(plan.sizes));
}

template <class T>
T added(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a | b;
  else
    return static_cast<T>(static_cast<ComputeOf<T>>(a) + static_cast<ComputeOf<T>>(b));
}

// An empty IntList keeps a Dims of plain numbers.
IntList plain(const Dims& dims) {
  return {reinterpret_cast<const int64_t*>(dims.data()), dims.size()};
}

void check_values(const char* op, const Tensor& self, const Tensor& values) {
  require(values.dtype() == self.dtype(), "{}: values must have dtype {}, found {}", op,
          self.dtype(), values.dtype());
}

// Neighbours have a loop of their own, of which the compiler makes vectors.
template <class T, class Combine>
void put_run(T* to, const T* from, int64_t n, int64_t to_step, int64_t step, Combine combine) {
  if (to_step == 1 && step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = combine(to[i], from[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = combine(to[i * to_step], from[i * step]);
}

// Without a meta function before it where it writes in place.
void put_elements(const char* op, const Tensor& target, TensorList indices, const Tensor& given,
                  bool accumulate) {
  check_values(op, target, given);
  IndexPlan plan = plan_index(op, target, indices);
  check_index_dtypes(op, plan);
  Tensor values = may_overlap(target, given) ? contiguous_of(clone(given)) : given;
  Dims strides = value_strides(op, plan, values);
  if (product(list_of(plan.sizes)) == 0) return;
  auto put = [&]<class T>(auto combine) {
    T* to = data_of<T>(plan.self);
    const T* from = data_of<T>(values);
    for_each_indexed_run(
        op, plan, plain(strides),
        [&](int64_t target_at, int64_t at, int64_t n, int64_t target_step, int64_t step) {
          put_run(to + target_at, from + at, n, target_step, step, combine);
        });
  };
  if (accumulate)
    dispatch_dtype(target.dtype(), op, [&]<class T>() {
      put.template operator()<T>([](T a, T b) { return added(a, b); });
    });
  else
    dispatch_itemsize(target.dtype(),
                      [&]<class T>() { put.template operator()<T>([](T, T v) { return v; }); });
}

void check_put(const char* op, const Tensor& self, TensorList indices, const Tensor& values) {
  check_values(op, self, values);
  // How many elements a mask chooses is seen by the run only, and is not asked for here.
  if (std::any_of(indices.begin(), indices.end(), is_mask)) return check_masks(op, self, indices);
  IndexPlan plan = plan_index(op, self, indices);
  check_index_dtypes(op, plan);
  value_strides(op, plan, values);
}

constexpr auto index_put_meta = [](const Tensor& self, TensorList indices, const Tensor& values,
                                   bool) {
  check_put("index_put", self, indices, values);
  return like(self);
};
constexpr auto index_put_kernel = [](Tensor& out, const Tensor& self, TensorList indices,
                                     const Tensor& values, bool accumulate) {
  copy_elements(out, self);
  put_elements("index_put", out, indices, values, accumulate);
};

TensorMeta index_select_meta(const Tensor& self, int64_t dim, const Tensor& index) {
  require(index.dim() <= 1, "index_select: the index must be a vector, found shape {}",
          index.sizes());
  require_index_dtype("index_select", index);
  require(self.dim() > 0 || sizes_match(index.numel(), 1),
          "index_select: the index of a tensor without dimensions must have one element, found "
          "shape {}",
          index.sizes());
  Dims sizes = dims_of(self.sizes());
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  if (self.dim()) sizes[at] = index.numel();
  return contiguous_meta(list_of(sizes), self.dtype(), self.device());
}

void index_select_kernel(Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  Tensor in = contiguous_of(self), positions = index_of("index_select", index);
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  int64_t size = self.dim() ? sizes_of(in)[at] : 1, inner = itemsize(self.dtype()),
          n = numel_of(positions);
  for (size_t d = at + 1; d < sizes_of(in).size(); ++d) inner *= sizes_of(in)[d];
  int64_t outer = n && inner ? numel_of(out) * itemsize(self.dtype()) / (n * inner) : 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i) {
      int64_t from = data_of<int64_t>(positions)[i];
      require(from >= 0 && from < size,
              "index_select: index {} is out of range for a dimension of size {}", from, size);
      std::memcpy(data_of<char>(out) + (o * n + i) * inner,
                  data_of<char>(in) + (o * size + from) * inner, static_cast<size_t>(inner));
    }
}

Tensor index_select_vjp(const Tensor& g, SymIntList sizes, int64_t dim, const Tensor& index) {
  return g.new_zeros(sizes).index_add(dim, index, g);
}

// Reads where the mask holds, else `fill`; the indices may be out of range elsewhere.
// Positions outside are those at the edge, as in PyTorch, also where the mask holds.
std::vector<Tensor> within_bounds(const Tensor& self, TensorList indices) {
  std::vector<Tensor> safe;
  for (size_t d = 0; d < indices.size(); ++d) {
    SymInt size = self.size(static_cast<int64_t>(d));
    const Tensor& t = indices[d];
    safe.push_back(t.defined() ? clamp(t, Number(-size), Number(size - 1)) : t);
  }
  return safe;
}

Tensor masked_index(const Tensor& self, const Tensor& mask, TensorList indices, Number fill) {
  Tensor values = index(self, within_bounds(self, indices));
  return masked_fill(values, logical_not(mask), fill);
}

Tensor masked_index_put(const Tensor& self, const Tensor& mask, TensorList indices,
                        const Tensor& values) {
  Tensor kept = masked_fill(values, logical_not(mask), 0);
  return index_put(self, within_bounds(self, indices), kept, true);
}

// ---- positions of nonzero elements

// ATen lays the result out column by column.
TensorMeta positions_meta(const Tensor& self, SymInt count) {
  return {Dtype::i64, self.device(), {count, SymInt(self.dim())}, {SymInt(1), count}};
}

Tensor nonzero_kernel(const Tensor& self) {
  std::vector<int64_t> positions = flat_positions(self);
  auto n = static_cast<int64_t>(positions.size());
  Tensor out = make_tensor(positions_meta(self, n));
  write_coordinates(out, self, positions, n);
  return out;
}

TensorMeta nonzero_meta(const Tensor& self) {
  ShapeEnv* env = current_shape_env();
  require(env, ErrorCode::data_dependent,
          "nonzero: the number of elements is known at run time only");
  SymInt count = env->create_unbacked(Range::at_least(0));
  env->mark_size_like(count);
  return positions_meta(self, count);
}

void nonzero_static_kernel(Tensor& out, const Tensor& self, SymInt, int64_t fill_value) {
  fill_elements(out, fill_value);
  std::vector<int64_t> positions = flat_positions(self);
  write_coordinates(out, self, positions,
                    std::min<int64_t>(static_cast<int64_t>(positions.size()), sizes_of(out)[0]));
}

std::vector<Tensor> nonzero_columns(const Tensor& self) {
  return unbind(nonzero(self.dim() ? self : unsqueeze(self, 0)), 1);
}

}  // namespace

namespace {

Tensor index_put_self_vjp(const Tensor& g, TensorList indices, bool accumulate) {
  return accumulate ? g : g.index_put(indices, g.new_zeros({}), false);
}

}  // namespace

static constexpr OpDef index_index_rows[] = {
    {.schema = "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
     .core = true,
     .meta = fn<index_meta_of>,
     .eager = fn<index_kernel>,
     .sized_by = "indices",
     .vjp = {{"self", "grad, self.sizes, indices",
              [](const Tensor& g, SymIntList sizes, TensorList indices) {
                return g.new_zeros(sizes).index_put(indices, g, true);
              }}},
     .linear = "self"},
    {.schema = "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
     .meta = fn<index_meta_of>,
     .eager = fn<index_kernel>,
     .sized_by = "indices",
     .vjp = {{"self", "grad, self.sizes, indices",
              [](const Tensor& g, SymIntList sizes, TensorList indices) {
                return g.new_zeros(sizes).index_put(indices, g, true);
              }}},
     .linear = "self"},
    {.schema = "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> "
               "Tensor",
     .core = true,
     .meta = index_put_meta,
     .eager = index_put_kernel,
     .vjp = {{"self", "grad, indices, accumulate", fn<index_put_self_vjp>},
             {"values", "grad, indices",
              [](const Tensor& g, TensorList indices) { return g.index(indices); }}},
     .linear = "self + values"},
    {.schema = "_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool "
               "accumulate=False) -> Tensor",
     .meta = index_put_meta,
     .eager = index_put_kernel,
     .vjp = {{"self", "grad, indices, accumulate", fn<index_put_self_vjp>},
             {"values", "grad, indices",
              [](const Tensor& g, TensorList indices) { return g.index(indices); }}},
     .linear = "self + values"},
    {.schema = "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
               "accumulate=False) -> Tensor(a!)",
     .meta = [](const Tensor& self, TensorList indices, const Tensor& values,
                bool) { check_put("index_put_", self, indices, values); },
     .eager =
         [](const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
           put_elements("index_put_", self, indices, values, accumulate);
         },
     .vjp = {{"self", "grad, indices, accumulate", fn<index_put_self_vjp>},
             {"values", "grad, indices",
              [](const Tensor& g, TensorList indices) { return g.index(indices); }}}},
    {.schema =
         "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
     .decomp = fn<masked_index>},
    {.schema = "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, "
               "Tensor values) -> Tensor",
     .decomp = fn<masked_index_put>},
    {.schema = "index_select(Tensor self, int dim, Tensor index) -> Tensor",
     .core = true,
     .meta = fn<index_select_meta>,
     .eager = fn<index_select_kernel>,
     .vjp = {{"self", "grad, self.sizes, dim, index", fn<index_select_vjp>}},
     .linear = "self"},
    {.schema = "index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> "
               "Tensor",
     .decomp = fn<index_select_vjp>,
     .linear = "grad"},
    {.schema = "nonzero(Tensor self) -> Tensor",
     .tags = OpTags::data_dependent,
     .core = true,
     .meta = fn<nonzero_meta>,
     .eager = fn<nonzero_kernel>,
     .vjp = nondiff},
    {.schema = "nonzero_numpy(Tensor self) -> Tensor[]",
     .tags = OpTags::data_dependent,
     .decomp = fn<nonzero_columns>,
     .vjp = nondiff},
    {.schema = "argwhere(Tensor self) -> Tensor",
     .tags = OpTags::data_dependent,
     .decomp = [](const Tensor& self) { return nonzero(self); },
     .vjp = nondiff},
    {.schema = "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
     .meta =
         [](const Tensor& self, SymInt size, int64_t) {
           return contiguous_meta({size, SymInt(self.dim())}, Dtype::i64, self.device());
         },
     .eager = fn<nonzero_static_kernel>,
     .vjp = nondiff},
    {.schema = "where(Tensor condition) -> Tensor[]",
     .tags = OpTags::data_dependent,
     .decomp = fn<nonzero_columns>},
};

extern constinit const OpFamily op_family_index_index{index_index_rows};

}  // namespace tenon::ops
