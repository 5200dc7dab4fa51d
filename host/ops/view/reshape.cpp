// Views with other dimensions over the same elements in the same order, and their copies.
#include "ops/forms/history.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "core/tensor/stand_in.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

ViewMeta same_view(const Tensor& self) {
  return {dims_of(self.sizes()), dims_of(self.strides()), sym_offset_of(self)};
}

ViewMeta viewed_as(const Tensor& self, SymIntList shape) {
  Dims sizes = infer_shape(shape, self.numel());
  std::optional<Dims> strides = view_strides(self.sizes(), self.strides(), list_of(sizes));
  require(
      strides.has_value(),
      "view: a tensor of shape {} with strides {} cannot be seen as {} without moving data; use "
      "reshape",
      self.sizes(), self.strides(), shape);
  return {std::move(sizes), std::move(*strides), sym_offset_of(self)};
}

Tensor reshaped(const Tensor& self, SymIntList shape) {
  Dims sizes = infer_shape(shape, self.numel());
  if (view_strides(self.sizes(), self.strides(), list_of(sizes))) return view(self, list_of(sizes));
  return _unsafe_view(clone(self, MemoryFormat::contiguous), list_of(sizes));
}

// The last dimension (and the offset) counts elements of another size.
Tensor viewed_with_dtype(const Tensor& self, Dtype dtype) {
  ViewMeta m = same_view(self);
  int64_t from = itemsize(self.dtype()), to = itemsize(dtype);
  if (from == to) return make_view_as(self, dtype, list_of(m.sizes), list_of(m.strides), m.offset);
  size_t last = m.sizes.size() - 1;
  require(self.dim() > 0 && is_one(m.strides[last]),
          "view: dtype {} to {} changes the element size, which needs a last dimension of stride 1",
          self.dtype(), dtype);
  auto rescale = [&](SymInt& v) {
    require(expect_true(v * from % to == 0), "view: {} elements of {} are not a whole number of {}",
            v, self.dtype(), dtype);
    v = v * from / to;
  };
  // No element lies by the stride of a size of one, or where there are none.
  auto is_used = [&](size_t dim) {
    return !is_one(m.sizes[dim]) && !guard_or_false(self.numel() == 0);
  };
  rescale(m.sizes[last]);
  rescale(m.offset);
  for (size_t i = 0; i < last; ++i)
    if (from % to == 0 || is_used(i) || guard_or_false(m.strides[i] * from % to == 0))
      rescale(m.strides[i]);
  return make_view_as(self, dtype, list_of(m.sizes), list_of(m.strides), m.offset);
}

Dims flattened_sizes(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  int64_t start = wrap_dim(start_dim, self.dim()), end = wrap_dim(end_dim, self.dim());
  require(start <= end, "flatten: start_dim {} comes after end_dim {}", start_dim, end_dim);
  if (self.dim() == 0) return {SymInt(1)};
  Dims sizes;
  SymInt run = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d >= start && d <= end) run = run * self.size(d);
    if (d == end) sizes.push_back(run);
    if (d < start || d > end) sizes.push_back(self.size(d));
  }
  return sizes;
}

Tensor flattened(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  if (self.dim() > 0 && wrap_dim(start_dim, self.dim()) == wrap_dim(end_dim, self.dim()))
    return self;
  return reshape(self, list_of(flattened_sizes(self, start_dim, end_dim)));
}

Tensor unflattened(const Tensor& self, int64_t dim, SymIntList sizes) {
  int64_t at = wrap_dim(dim, self.dim());
  Dims shape = dims_of(self.sizes().slice(0));
  Dims inner = infer_shape(sizes, self.size(at));
  shape.erase(static_cast<size_t>(at));
  for (size_t i = 0; i < inner.size(); ++i) shape.insert(static_cast<size_t>(at) + i, inner[i]);
  return view(self, list_of(shape));
}

ViewMeta unsqueezed(const Tensor& self, int64_t dim) {
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim() + 1));
  ViewMeta m = same_view(self);
  SymInt stride = at < m.sizes.size() ? m.sizes[at] * m.strides[at] : SymInt(1);
  m.sizes.insert(at, 1);
  m.strides.insert(at, stride);
  return m;
}

// Whether a dimension goes with squeeze. One whose size only the run knows stays, and a call in
// which it is 1 is refused: its result would have another rank.
bool is_squeezed(SymInt size) {
  if (std::optional<bool> one = decided(size == 1)) return *one;
  if (!current_shape_env()->int_hint(size))
    sym_check(size != 1,
              "squeeze leaves out dimensions of size 1, and the size of this one is known at run "
              "time only; name the dimensions that are meant, or use select() or reshape()");
  return (size == 1).guard_bool();
}

// Leaves out the dimensions of the mask that have size 1.
ViewMeta squeezed(const Tensor& self, uint64_t mask) {
  ViewMeta m{{}, {}, sym_offset_of(self)};
  for (int64_t d = 0; d < self.dim(); ++d) {
    if ((mask >> d & 1) && is_squeezed(self.size(d))) continue;
    m.sizes.push_back(self.size(d));
    m.strides.push_back(self.stride(d));
  }
  return m;
}

uint64_t squeeze_mask(const Tensor& self, IntList dims) {
  return dims.empty() ? 0 : dims_mask(OptIntList(dims), self.dim());
}
uint64_t squeeze_mask(const Tensor& self, int64_t dim) {
  return uint64_t{1} << wrap_dim(dim, self.dim());
}

Tensor back_to_shape(const Tensor& self, const Tensor& content) {
  return content.reshape(self.sizes());
}

void become_view(const Tensor& self, const ViewMeta& m) {
  replace_metadata(self, list_of(m.sizes), list_of(m.strides), m.offset);
}

constexpr auto squeeze_all_ = [](const Tensor& self) {
  become_view(self, squeezed(self, ~uint64_t{0}));
};
constexpr auto squeeze_dim_ = [](const Tensor& self, int64_t dim) {
  become_view(self, squeezed(self, squeeze_mask(self, dim)));
};
constexpr auto squeeze_dims_ = [](const Tensor& self, IntList dims) {
  become_view(self, squeezed(self, squeeze_mask(self, dims)));
};
constexpr auto unsqueeze_in_place = [](const Tensor& self, int64_t dim) {
  become_view(self, unsqueezed(self, dim));
};

Tensor dense(const Tensor& t) { return clone(t, MemoryFormat::contiguous); }

}  // namespace

// Of ops that keep the elements in order.
static constexpr Vjp same_elements{
    {"self", "grad, self.sizes",
     [](const Tensor& g, SymIntList sizes) { return g.reshape(sizes); }}};

static constexpr OpDef view_reshape_rows[] = {
    {.schema = "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .core = true,
     .view = fn<viewed_as>,
     .inverse = fn<back_to_shape>,
     .vjp = same_elements},
    {.schema = "_unsafe_view(Tensor self, SymInt[] size) -> Tensor",
     .tags = OpTags::maybe_alias,
     .view = fn<viewed_as>,
     .inverse = fn<back_to_shape>,
     .vjp = same_elements},
    {.schema = "_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
     .view =
         [](const Tensor& self, SymIntList size, SymIntList stride) {
           check_view("_reshape_alias", size, stride);
           return ViewMeta{dims_of(size), dims_of(stride), sym_offset_of(self)};
         },
     .inverse = fn<back_to_shape>,
     .vjp = same_elements},
    {.schema = "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
     .tags = OpTags::maybe_alias | OpTags::any_device,
     .meta = fn<viewed_with_dtype>,
     .inverse = [](const Tensor& self, const Tensor& content,
                   Dtype) { return view(content.contiguous(), self.dtype()); },
     .eager = fn<viewed_with_dtype>,
     .vjp = nondiff},
    {.schema = "view_copy(Tensor self, SymInt[] size) -> Tensor",
     .decomp = [](const Tensor& self, SymIntList size) { return dense(reshape(self, size)); }},
    {.schema = "view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor",
     .decomp = [](const Tensor& self, Dtype dtype) { return dense(view(self, dtype)); }},
    {.schema = "view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .inverse = fn<back_to_shape>,
     .decomp = [](const Tensor& self, const Tensor& other) { return view(self, other.sizes()); }},
    {.schema = "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .inverse = fn<back_to_shape>,
     .decomp = fn<reshaped>,
     .linear = "self"},
    {.schema = "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self,
                  const Tensor& other) { return reshape(self, other.sizes()); }},
    {.schema = "_reshape_copy(Tensor self, SymInt[] size) -> Tensor",
     .decomp = [](const Tensor& self, SymIntList size) { return dense(reshape(self, size)); }},
    {.schema = "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .inverse = fn<back_to_shape>,
     .decomp = fn<flattened>},
    {.schema = "ravel(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return reshape(contiguous(self), {-1}); }},
    {.schema = "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
     .inverse = fn<back_to_shape>,
     .decomp = fn<unflattened>},
    {.schema = "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
     .core = true,
     .view = fn<unsqueezed>,
     .inverse = fn<back_to_shape>,
     .vjp = same_elements},
    {.schema = "unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = unsqueeze_in_place,
     .eager = unsqueeze_in_place,
     .vjp = same_elements},
    {.schema = "unsqueeze_copy(Tensor self, int dim) -> Tensor",
     .decomp = [](const Tensor& self, int64_t dim) { return dense(unsqueeze(self, dim)); }},
    {.schema = "squeeze(Tensor(a) self) -> Tensor(a)",
     .view = [](const Tensor& self) { return squeezed(self, ~uint64_t{0}); },
     .inverse = fn<back_to_shape>,
     .vjp = same_elements},
    {.schema = "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
     .core = true,
     .view = [](const Tensor& self,
                int64_t dim) { return squeezed(self, squeeze_mask(self, dim)); },
     .inverse = fn<back_to_shape>,
     .vjp = same_elements},
    {.schema = "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
     .core = true,
     .view = [](const Tensor& self,
                IntList dims) { return squeezed(self, squeeze_mask(self, dims)); },
     .inverse = fn<back_to_shape>,
     .vjp = same_elements},
    {.schema = "squeeze_(Tensor(a!) self) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = squeeze_all_,
     .eager = squeeze_all_,
     .vjp = same_elements},
    {.schema = "squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = squeeze_dim_,
     .eager = squeeze_dim_,
     .vjp = same_elements},
    {.schema = "squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = squeeze_dims_,
     .eager = squeeze_dims_,
     .vjp = same_elements},
    {.schema = "squeeze_copy(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return dense(squeeze(self)); }},
    {.schema = "squeeze_copy.dim(Tensor self, int dim) -> Tensor",
     .decomp = [](const Tensor& self, int64_t dim) { return dense(squeeze(self, dim)); }},
    {.schema = "squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
     .decomp = [](const Tensor& self, IntList dims) { return dense(squeeze(self, dims)); }},
    {.schema = "alias(Tensor(a) self) -> Tensor(a)",
     .core = true,
     .view = fn<same_view>,
     .inverse = whole_content,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }}}},
    {.schema = "alias_copy(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return clone(self); }},
    {.schema = "detach(Tensor(a) self) -> Tensor(a)",
     .view = fn<same_view>,
     .inverse = whole_content,
     .vjp = nondiff},
    {.schema = "detach_copy(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return clone(self); },
     .vjp = nondiff},
    {.schema = "detach_(Tensor(a!) self) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = fn<forget_history>,
     .eager = fn<forget_history>,
     .vjp = nondiff},
    {.schema = "lift_fresh(Tensor(a) self) -> Tensor(a)",
     .view = fn<same_view>,
     .inverse = whole_content,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }}}},
    {.schema = "atleast_1d(Tensor self) -> Tensor",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return self.dim() ? self : reshape(self, {1}); }},
    {.schema = "atleast_2d(Tensor self) -> Tensor",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](const Tensor& self) {
           return self.dim() == 0   ? reshape(self, {1, 1})
                  : self.dim() == 1 ? unsqueeze(self, 0)
                                    : self;
         }},
    {.schema = "atleast_3d(Tensor self) -> Tensor",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](const Tensor& self) {
           if (self.dim() == 0) return reshape(self, {1, 1, 1});
           if (self.dim() == 1) return unsqueeze(unsqueeze(self, 0), -1);
           return self.dim() == 2 ? unsqueeze(self, -1) : self;
         }},
    {.schema = "atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](TensorList tensors) {
           std::vector<Tensor> out;
           for (const Tensor& t : tensors) out.push_back(atleast_1d(t));
           return out;
         }},
    {.schema = "atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](TensorList tensors) {
           std::vector<Tensor> out;
           for (const Tensor& t : tensors) out.push_back(atleast_2d(t));
           return out;
         }},
    {.schema = "atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](TensorList tensors) {
           std::vector<Tensor> out;
           for (const Tensor& t : tensors) out.push_back(atleast_3d(t));
           return out;
         }},
};

extern constinit const OpFamily op_family_view_reshape{view_reshape_rows};

}  // namespace tenon::ops
