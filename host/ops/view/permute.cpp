// Views with the dimensions in another order, and ops that reorder elements along dimensions.
#include "core/kernels/pointwise_loop.h"
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/view.h>

#include <numeric>

namespace tenon::ops {

namespace {

ViewMeta permuted(const Tensor& self, IntList dims) {
  require(static_cast<int64_t>(dims.size()) == self.dim(),
          "permute: {} dimensions given for a tensor of shape {}", dims.size(), self.sizes());
  if (!dims.empty()) dims_mask(OptIntList(dims), self.dim());  // refuses duplicates
  ViewMeta m{{}, {}, sym_offset_of(self)};
  for (int64_t d : dims) {
    m.sizes.push_back(self.size(d));
    m.strides.push_back(self.stride(d));
  }
  return m;
}

ViewMeta transposed(const Tensor& self, int64_t dim0, int64_t dim1) {
  auto a = static_cast<size_t>(wrap_dim(dim0, self.dim())),
       b = static_cast<size_t>(wrap_dim(dim1, self.dim()));
  ViewMeta m{dims_of(self.sizes()), dims_of(self.strides()), sym_offset_of(self)};
  if (a == b) return m;
  std::swap(m.sizes[a], m.sizes[b]);
  std::swap(m.strides[a], m.strides[b]);
  return m;
}

ViewMeta matrix_transposed(const Tensor& self) {
  require(self.dim() <= 2, "t: a tensor with at most two dimensions is expected, found shape {}",
          self.sizes());
  return self.dim() < 2 ? transposed(self, 0, 0) : transposed(self, 0, 1);
}

Tensor permuted_back(const Tensor& content, IntList dims) {
  InlineVector<int64_t, 8> back(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    back[static_cast<size_t>(wrap_dim(dims[i], content.dim()))] = static_cast<int64_t>(i);
  return content.permute(IntList(back.data(), back.size()));
}

constexpr auto transposed_back = [](const Tensor&, const Tensor& content, int64_t dim0,
                                    int64_t dim1) { return content.transpose(dim0, dim1); };

constexpr auto transpose_in_place = [](const Tensor& self, int64_t dim0, int64_t dim1) {
  ViewMeta m = transposed(self, dim0, dim1);
  replace_metadata(self, list_of(m.sizes), list_of(m.strides), m.offset);
};
constexpr auto t_in_place = [](const Tensor& self) {
  ViewMeta m = matrix_transposed(self);
  replace_metadata(self, list_of(m.sizes), list_of(m.strides), m.offset);
};

std::vector<int64_t> order_moved(const Tensor& self, IntList source, IntList destination) {
  require(source.size() == destination.size(), "movedim: {} sources for {} destinations",
          source.size(), destination.size());
  std::vector<int64_t> order(static_cast<size_t>(self.dim()), -1), rest;
  uint64_t taken = source.empty() ? 0 : dims_mask(OptIntList(source), self.dim());
  if (!destination.empty()) dims_mask(OptIntList(destination), self.dim());
  // A tensor without dimensions takes 0 and -1 too; there is nothing to move.
  for (size_t i = 0; self.dim() > 0 && i < source.size(); ++i)
    order[static_cast<size_t>(wrap_dim(destination[i], self.dim()))] =
        wrap_dim(source[i], self.dim());
  int64_t next = 0;
  for (int64_t& d : order) {
    if (d >= 0) continue;
    while (taken >> next & 1) ++next;
    d = next++;
  }
  return order;
}

Tensor moved(const Tensor& self, IntList source, IntList destination) {
  return permute(self, order_moved(self, source, destination));
}

Tensor reversed_dims(const Tensor& self) {
  std::vector<int64_t> order(static_cast<size_t>(self.dim()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = self.dim() - 1 - static_cast<int64_t>(i);
  return permute(self, order);
}

Tensor last_two_swapped(const Tensor& self, const char* op) {
  require(self.dim() >= 2 || self.dim() == 0,
          "{}: at least two dimensions are expected, found shape {}", op, self.sizes());
  return self.dim() == 0 ? self : transpose(self, -2, -1);
}

// A view of a real tensor, a copy of a complex one, as conj() makes.
Tensor adjoint_of(const Tensor& self, const char* op) { return conj(last_two_swapped(self, op)); }

// A copy from the last element of the dimensions of the mask, with negative strides.
void flip_kernel(Tensor& out, const Tensor& self, IntList dims) {
  uint64_t mask = dims.empty() ? 0 : dims_mask(OptIntList(dims), self.dim());
  if (numel_of(self) == 0) return;
  InlineVector<int64_t, 8> strides;
  int64_t start = 0;
  for (size_t d = 0; d < static_cast<size_t>(self.dim()); ++d) {
    bool flips = mask >> d & 1;
    int64_t step = strides_of(self)[d];
    if (flips) start += (sizes_of(self)[d] - 1) * step;
    strides.push_back(flips ? -step : step);
  }
  copy_strided({data_of<char>(out), out.dtype(), strides_of(out).data()},
               {data_of<char>(self) + start * itemsize(self.dtype()), self.dtype(), strides.data()},
               sizes_of(self));
}

TensorMeta flip_meta(const Tensor& self, IntList dims) {
  if (!dims.empty()) dims_mask(OptIntList(dims), self.dim());
  return like(self);
}

Tensor rolled_once(const Tensor& self, SymInt shift, int64_t dim) {
  SymInt size = self.size(dim), divisor = sym_max(size, 1);  // the run may have none
  SymInt start = (size - shift % divisor) % divisor;
  return cat({narrow(self, dim, start, size - start), narrow(self, dim, 0, start)}, dim);
}

TensorMeta roll_meta(const Tensor& self, SymIntList shifts, IntList dims) {
  require(shifts.size() == std::max<size_t>(dims.size(), 1), "roll: {} shifts for {} dimensions",
          shifts.size(), dims.size());
  for (int64_t d : dims) wrap_dim(d, self.dim());
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

Tensor rolled(const Tensor& self, SymIntList shifts, IntList dims) {
  roll_meta(self, shifts, dims);
  if (dims.empty()) {
    Tensor flat = roll(reshape(self, {-1}), shifts, {0});
    return view(flat, self.sizes());
  }
  if (is_one(self.numel()) || guard_or_false(self.numel() == 0))
    return clone(self, MemoryFormat::contiguous);
  Tensor out = self;
  for (size_t i = 0; i < dims.size(); ++i) out = rolled_once(out, shifts[i], dims[i]);
  return contiguous(out);  // cat keeps channels_last
}

void roll_kernel(Tensor& out, const Tensor& self, IntList shifts, IntList dims) {
  if (numel_of(self) == 0) return;
  if (dims.empty()) {
    int64_t n = numel_of(self), shift = ((shifts[0] % n) + n) % n;
    Tensor from = contiguous_of(self);
    int64_t size = itemsize(self.dtype());
    std::memcpy(data_of<char>(out) + shift * size, data_of<char>(from),
                static_cast<size_t>((n - shift) * size));
    std::memcpy(data_of<char>(out), data_of<char>(from) + (n - shift) * size,
                static_cast<size_t>(shift * size));
    return;
  }
  std::vector<int64_t> shift_of(static_cast<size_t>(self.dim()), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    auto d = static_cast<size_t>(wrap_dim(dims[i], self.dim()));
    if (d < shift_of.size())  // a tensor without dimensions takes 0 and -1 too
      shift_of[d] = (shift_of[d] + shifts[i] % sizes_of(self)[d]) % sizes_of(self)[d];
  }
  // Each dimension is cut in two where it wraps around: copy the 2^k pieces.
  auto copy_piece = [&](auto&& recurse, size_t d, Tensor to, Tensor from) -> void {
    if (d == shift_of.size()) return copy_elements(to, from);
    int64_t n = sizes_of(self)[d], shift = ((shift_of[d] % n) + n) % n;
    auto dim = static_cast<int64_t>(d);
    if (shift == 0) return recurse(recurse, d + 1, to, from);
    recurse(recurse, d + 1, narrow(to, dim, shift, n - shift), narrow(from, dim, 0, n - shift));
    recurse(recurse, d + 1, narrow(to, dim, 0, shift), narrow(from, dim, n - shift, shift));
  };
  copy_piece(copy_piece, 0, out, self);
}

Tensor rotated(const Tensor& self, int64_t k, IntList dims) {
  require(dims.size() == 2, "rot90: two dimensions are expected, found {}", dims.size());
  switch (((k % 4) + 4) % 4) {
    case 1:
      return transpose(flip(self, {dims[1]}), dims[0], dims[1]);
    case 2:
      return flip(self, dims);
    case 3:
      return transpose(flip(self, {dims[0]}), dims[0], dims[1]);
    default:
      return clone(self, MemoryFormat::contiguous);
  }
}

Tensor transpose_decomp(const Tensor& self, int64_t dim0, int64_t dim1) {
  std::vector<int64_t> dims(static_cast<size_t>(self.dim()));
  std::iota(dims.begin(), dims.end(), 0);
  if (!dims.empty())
    std::swap(dims[static_cast<size_t>(wrap_dim(dim0, self.dim()))],
              dims[static_cast<size_t>(wrap_dim(dim1, self.dim()))]);
  return permute(self, dims);
}

}  // namespace

static constexpr Vjp transposed_vjp{
    {"self", "grad, dim0, dim1",
     [](const Tensor& g, int64_t a, int64_t b) { return g.transpose(a, b); }}};

static constexpr OpDef view_permute_rows[] = {
    {.schema = "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
     .core = true,
     .view = fn<permuted>,
     .inverse = [](const Tensor&, const Tensor& content,
                   IntList dims) { return permuted_back(content, dims); },
     .vjp = {{"self", "grad, dims", fn<permuted_back>}}},
    {.schema = "permute_copy(Tensor self, int[] dims) -> Tensor",
     .decomp = [](const Tensor& self,
                  IntList dims) { return clone(permute(self, dims), MemoryFormat::contiguous); }},
    {.schema = "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     .view = fn<transposed>,
     .inverse = transposed_back,
     .decomp = fn<transpose_decomp>,
     .vjp = transposed_vjp},
    {.schema = "transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = transpose_in_place,
     .eager = transpose_in_place,
     .vjp = transposed_vjp},
    {.schema = "transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dim0, int64_t dim1) {
           return clone(transpose(self, dim0, dim1), MemoryFormat::contiguous);
         }},
    {.schema = "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
     .view = fn<transposed>,
     .inverse = transposed_back,
     .decomp = fn<transpose_decomp>},
    {.schema = "swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = transpose_in_place,
     .eager = transpose_in_place,
     .vjp = {{"self", "grad, axis0, axis1",
              [](const Tensor& g, int64_t a, int64_t b) { return g.transpose(a, b); }}}},
    {.schema = "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
     .view = fn<transposed>,
     .inverse = transposed_back,
     .decomp = fn<transpose_decomp>},
    {.schema = "swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = transpose_in_place,
     .eager = transpose_in_place,
     .vjp = transposed_vjp},
    {.schema = "t(Tensor(a) self) -> Tensor(a)",
     .view = fn<matrix_transposed>,
     .inverse = [](const Tensor&, const Tensor& content) { return content.t(); },
     .decomp =
         [](const Tensor& self) {
           return self.dim() < 2 ? permute(self, self.dim() ? IntList{0} : IntList{})
                                 : permute(self, {1, 0});
         },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.t(); }}}},
    {.schema = "t_(Tensor(a!) self) -> Tensor(a!)",
     .tags = OpTags::any_device,
     .meta = t_in_place,
     .eager = t_in_place,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.t(); }}}},
    {.schema = "t_copy(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return clone(t(self), MemoryFormat::contiguous); }},
    {.schema = "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
     .decomp = fn<moved>},
    {.schema = "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
     .decomp = [](const Tensor& self, int64_t source,
                  int64_t destination) { return moved(self, source, destination); }},
    {.schema = "moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
     .view =
         [](const Tensor& self, IntList source, IntList destination) {
           return permuted(self, order_moved(self, source, destination));
         },
     .inverse = [](const Tensor&, const Tensor& content, IntList source,
                   IntList destination) { return content.movedim(destination, source); },
     .decomp = fn<moved>},
    {.schema = "moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
     .decomp = [](const Tensor& self, int64_t source,
                  int64_t destination) { return moved(self, source, destination); }},
    {.schema = "numpy_T(Tensor(a) self) -> Tensor(a)", .decomp = fn<reversed_dims>},
    {.schema = "mT(Tensor(a) self) -> Tensor(a)",
     .decomp = [](const Tensor& self) { return last_two_swapped(self, "mT"); }},
    {.schema = "mH(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return adjoint_of(self, "mH"); }},
    {.schema = "matrix_H(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return adjoint_of(self, "matrix_H"); }},
    {.schema = "adjoint(Tensor(a) self) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return adjoint_of(self, "adjoint"); }},
    {.schema = "flip(Tensor self, int[] dims) -> Tensor",
     .core = true,
     .meta = fn<flip_meta>,
     .eager = fn<flip_kernel>,
     .vjp = {{"self", "grad, dims", [](const Tensor& g, IntList dims) { return g.flip(dims); }}},
     .linear = "self"},
    {.schema = "fliplr(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return flip(self, {1}); }},
    {.schema = "flipud(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return flip(self, {0}); }},
    {.schema = "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
     .meta = fn<roll_meta>,
     .eager = fn<roll_kernel>,
     .decomp = fn<rolled>,
     .linear = "self"},
    {.schema = "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", .decomp = fn<rotated>},
};

extern constinit const OpFamily op_family_view_permute{view_permute_rows};

}  // namespace tenon::ops
