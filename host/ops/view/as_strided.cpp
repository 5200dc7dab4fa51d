// Views with sizes and strides of any kind: as_strided, diagonals, windows.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/shapes.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

ViewMeta strided_view(const Tensor& self, SymIntList size, SymIntList stride,
                      std::optional<SymInt> offset) {
  check_view("as_strided", size, stride);
  SymInt first = offset.value_or(sym_offset_of(self));
  require(expect_true(first >= 0), "as_strided: storage_offset must not be negative, found {}",
          first);
  return {dims_of(size), dims_of(stride), first};
}

constexpr auto as_strided_in_place = [](const Tensor& self, SymIntList size, SymIntList stride,
                                        std::optional<SymInt> offset) {
  ViewMeta m = strided_view(self, size, stride, offset);
  make_view(self, size, stride, m.offset);  // checks the bounds
  replace_metadata(self, size, stride, m.offset);
};

void copy_to(const Tensor& to, const Tensor& from) {
  if (to.device() == kCPU)
    copy_elements(to, from);
  else
    to.copy_(from);
}

// The whole storage is copied, so that the geometry means the same in the copy.
Tensor copy_with_storage(const Tensor& self) {
  int64_t elements = static_cast<int64_t>(impl_of(self)->storage_bytes) / itemsize(self.dtype());
  Tensor whole = make_tensor(contiguous_meta({elements}, self.dtype(), self.device()));
  copy_to(whole, make_view(self, {elements}, {1}, 0));
  return make_view(whole, self.sizes(), self.strides(), self.storage_offset());
}

Tensor as_strided_scatter_kernel(const Tensor& self, const Tensor& src, SymIntList size,
                                 SymIntList stride, std::optional<SymInt> offset) {
  Tensor out = has_internal_overlap(self) ? contiguous_of(clone(self)) : copy_with_storage(self);
  ViewMeta m = strided_view(out, size, stride, offset);
  copy_to(make_view(out, size, stride, m.offset), src);
  return out;
}

// Whether the part lies within the storage is seen by the kernel only.
TensorMeta as_strided_scatter_meta(const Tensor& self, const Tensor& src, SymIntList size,
                                   SymIntList stride, std::optional<SymInt> offset) {
  strided_view(self, size, stride, offset);
  require_shape("as_strided_scatter", "src", src, size);
  return strided_like(self);
}

ViewMeta diagonal_view(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  auto a = static_cast<size_t>(wrap_dim(dim1, self.dim())),
       b = static_cast<size_t>(wrap_dim(dim2, self.dim()));
  require(self.dim() >= 2 && a != b,
          "diagonal: two different dimensions are expected, found {} and {} of "
          "shape {}",
          dim1, dim2, self.sizes());
  ViewMeta m{dims_of(self.sizes()), dims_of(self.strides()), sym_offset_of(self)};
  SymInt rows = m.sizes[a], columns = m.sizes[b];
  SymInt room = offset >= 0 ? sym_min(rows, columns - offset) : sym_min(rows + offset, columns);
  SymInt length = sym_max(room, 0), stride = m.strides[a] + m.strides[b];
  if (!guard_or_false(length == 0))
    m.offset = m.offset + (offset >= 0 ? m.strides[b] * offset : m.strides[a] * -offset);
  for (size_t dim : {std::max(a, b), std::min(a, b)}) {
    m.sizes.erase(dim);
    m.strides.erase(dim);
  }
  m.sizes.push_back(length);
  m.strides.push_back(stride);
  return m;
}

void diagonal_scatter_kernel(Tensor& out, const Tensor& self, const Tensor& src, int64_t offset,
                             int64_t dim1, int64_t dim2) {
  copy_to(out, self);
  ViewMeta m = diagonal_view(out, offset, dim1, dim2);
  copy_to(make_view(out, list_of(m.sizes), list_of(m.strides), m.offset), src);
}

TensorMeta diagonal_scatter_meta(const Tensor& self, const Tensor& src, int64_t offset,
                                 int64_t dim1, int64_t dim2) {
  require_shape("diagonal_scatter", "src", src,
                list_of(diagonal_view(self, offset, dim1, dim2).sizes));
  return strided_like(self);
}

// A matrix of zeros around the last dimension of self, then moved to dim1 and dim2.
Tensor embedded_diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t rank = self.dim() + 1, a = wrap_dim(dim1, rank), b = wrap_dim(dim2, rank);
  require(self.dim() > 0 && a != b,
          "diag_embed: two different dimensions are expected, found {} and {}", dim1, dim2);
  SymInt length = self.size(-1) + std::abs(offset);
  Dims sizes = dims_of(self.sizes());
  sizes.pop_back();
  sizes.insert(static_cast<size_t>(std::min(a, b)), length);
  sizes.insert(static_cast<size_t>(std::max(a, b)), length);
  return diagonal_scatter(new_zeros(self, list_of(sizes)), self, offset, a, b);
}

Tensor diag_of(const Tensor& self, int64_t k) {
  require(self.dim() == 1 || self.dim() == 2,
          "diag: a vector or matrix is expected, found shape {}", self.sizes());
  return self.dim() == 1 ? diag_embed(self, k) : diagonal_copy(self, k);
}

ViewMeta windows(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  int64_t dim = wrap_dim(dimension, self.dim());
  SymInt room = self.dim() ? self.size(dim) : SymInt(1);
  require(size >= 0 && step > 0, "unfold: size {} must not be negative and step {} positive", size,
          step);
  require(expect_true(room >= size), "unfold: size {} is larger than dimension {} of size {}", size,
          dimension, room);
  ViewMeta m{dims_of(self.sizes()), dims_of(self.strides()), sym_offset_of(self)};
  m.sizes.push_back(size);
  m.strides.push_back(self.dim() ? self.stride(dim) : SymInt(1));
  if (self.dim()) {
    auto at = static_cast<size_t>(dim);
    m.sizes[at] = (room - size) / step + 1;
    m.strides[at] = m.strides[at] * step;
  }
  return m;
}

TensorMeta unfold_backward_meta(const Tensor& grad, SymIntList sizes, int64_t dim, int64_t size,
                                int64_t step) {
  TensorMeta out = contiguous_meta(sizes, grad.dtype(), grad.device());
  ViewMeta unfolded = windows(make_fake(out), dim, size, step);
  require_shape("unfold_backward", "grad_in", grad, list_of(unfolded.sizes));
  return out;
}

void unfold_backward_kernel(Tensor& out, const Tensor& grad, SymIntList, int64_t dim, int64_t size,
                            int64_t step) {
  fill_elements(out, 0);
  ViewMeta m = windows(out, dim, size, step);
  Tensor target = make_view(out, list_of(m.sizes), list_of(m.strides), m.offset);
  Walk<2> walk;
  add_dims<2>(walk, sizes_of(grad), {strides_of(target), strides_of(grad)});
  dispatch_dtype(out.dtype(), "unfold_backward", [&]<class T>() {
    T* to = data_of<T>(target);
    const T* from = data_of<T>(grad);
    for_each_offset(
        walk, [&](const Offsets<2>& at) { to[at[0]] = static_cast<T>(to[at[0]] + from[at[1]]); });
  });
}

}  // namespace

namespace {

// The gradient of self where its result shows the storage through any strides: what the result's
// elements get is added up by their place in the storage, and read back through the strides of
// self.
Tensor as_strided_vjp(const Tensor& g, const Tensor& self, SymIntList size, SymIntList stride,
                      std::optional<SymInt> offset) {
  SymInt first = offset ? *offset : sym_offset_of(self);
  auto span = [](SymIntList sizes, SymIntList strides) {
    SymInt last = 0;
    for (size_t d = 0; d < sizes.size(); ++d) last = last + sym_max(sizes[d] - 1, 0) * strides[d];
    return last + 1;
  };
  SymInt cells =
      sym_max(first + span(size, stride), sym_offset_of(self) + span(self.sizes(), self.strides()));
  Tensor places = arange(Number(cells), Dtype::i64, std::nullopt, g.device());
  auto cells_of = [&](SymIntList sizes, SymIntList strides, SymInt from) {
    return places.as_strided(sizes, strides, from);
  };
  Tensor storage = added_by_cell(g, cells_of(size, stride, first), cells);
  if (!self.sizes().is_symbolic() && has_internal_overlap(self)) {
    Tensor own = cells_of(self.sizes(), self.strides(), sym_offset_of(self));
    storage = storage.div(added_by_cell(g.new_ones(self.sizes()), own, cells));
  }
  return storage.as_strided(self.sizes(), self.strides(), sym_offset_of(self));
}

// As the rules for as_strided_scatter count places. A view may lie so and begin anywhere in its memory.
Tensor row_by_row(const Tensor& g) { return g.clone(MemoryFormat::contiguous); }

Tensor src_zeros(const Tensor& g, const Tensor& src) { return g.new_zeros(src.sizes()); }

}  // namespace

static constexpr OpDef view_as_strided_rows[] = {
    {.schema = "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, "
               "SymInt? storage_offset=None) -> Tensor(a)",
     .tags = OpTags::by_place,
     .core = true,
     .view = fn<strided_view>,
     .inverse = fn<as_strided_scatter>,
     .vjp = {{"self", "grad, self.meta, size, stride, storage_offset", fn<as_strided_vjp>}}},
    {.schema = "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, "
               "SymInt? storage_offset=None) -> Tensor(a!)",
     .tags = OpTags::any_device | OpTags::by_place,
     .meta = as_strided_in_place,
     .eager = as_strided_in_place,
     .vjp = {{"self", "grad, self.meta, size, stride, storage_offset", fn<as_strided_vjp>}}},
    {.schema = "as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, "
               "SymInt? storage_offset=None) -> Tensor",
     .decomp =
         [](const Tensor& self, SymIntList size, SymIntList stride, std::optional<SymInt> offset) {
           return clone(as_strided(self, size, stride, offset), MemoryFormat::contiguous);
         }},
    {.schema = "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, "
               "SymInt? storage_offset=None) -> Tensor",
     .tags = OpTags::any_device | OpTags::by_place,
     .core = true,
     .meta = fn<as_strided_scatter_meta>,
     .eager = fn<as_strided_scatter_kernel>,
     .vjp = {{"self", "grad, src.meta, size, stride, storage_offset",
              [](const Tensor& g, const Tensor& src, SymIntList size, SymIntList stride,
                 std::optional<SymInt> offset) {
                return row_by_row(g).as_strided_scatter(src_zeros(g, src), size, stride, offset);
              }},
             {"src", "grad, size, stride, storage_offset",
              [](const Tensor& g, SymIntList size, SymIntList stride,
                 std::optional<SymInt> offset) {
                return row_by_row(g).as_strided(size, stride, offset);
              }}},
     .linear = "self + src"},
    {.schema = "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> "
               "Tensor(a)",
     .decomp = fn<diagonal>},
    {.schema = "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
     .core = true,
     .view = fn<diagonal_view>,
     .inverse = fn<diagonal_scatter>,
     .vjp = {{"self", "grad, self.sizes, offset, dim1, dim2", fn<diagonal_backward>}}},
    {.schema = "diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
           return clone(diagonal(self, offset, dim1, dim2), MemoryFormat::contiguous);
         }},
    {.schema = "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> "
               "Tensor",
     .tags = OpTags::any_device,
     .core = true,
     .meta = fn<diagonal_scatter_meta>,
     .eager = fn<diagonal_scatter_kernel>,
     .vjp = {{"self", "grad, src.sizes, offset, dim1, dim2",
              [](const Tensor& g, SymIntList src, int64_t offset, int64_t a, int64_t b) {
                return g.diagonal_scatter(g.new_zeros(src), offset, a, b);
              }},
             {"src", "grad, offset, dim1, dim2",
              [](const Tensor& g, int64_t offset, int64_t a, int64_t b) {
                return g.diagonal(offset, a, b);
              }}},
     .linear = "self + src"},
    {.schema = "diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, "
               "int dim2) -> Tensor",
     .decomp =
         [](const Tensor& grad, SymIntList sizes, int64_t offset, int64_t dim1, int64_t dim2) {
           return diagonal_scatter(new_zeros(grad, sizes), grad, offset, dim1, dim2);
         }},
    {.schema = "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     .decomp = fn<embedded_diagonal>},
    {.schema = "diag(Tensor self, int diagonal=0) -> Tensor", .decomp = fn<diag_of>},
    {.schema = "diagflat(Tensor self, int offset=0) -> Tensor",
     .decomp = [](const Tensor& self,
                  int64_t offset) { return diag(reshape(self, {-1}), offset); }},
    {.schema = "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
     .view = fn<windows>,
     .inverse = Without{"shows an element more than once"},
     .vjp = {{"self", "grad, self.sizes, dimension, size, step", fn<unfold_backward>}}},
    {.schema = "unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
           return clone(unfold(self, dimension, size, step), MemoryFormat::contiguous);
         }},
    {.schema = "unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) "
               "-> Tensor",
     .meta = fn<unfold_backward_meta>,
     .eager = fn<unfold_backward_kernel>,
     .vjp = {{"grad_in", "grad, dim, size, step",
              [](const Tensor& g, int64_t dim, int64_t size, int64_t step) {
                return g.unfold(dim, size, step);
              }}}},
};

extern constinit const OpFamily op_family_view_as_strided{view_as_strided_rows};

}  // namespace tenon::ops
