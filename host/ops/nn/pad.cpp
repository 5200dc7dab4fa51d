// Padding: a constant, reflection, replication and circulation at the ends of the last dimensions.
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {

// `pad` begins with the last dimension: left and right of it, then those of the one before.
struct Ends {
  SymInt left, right;
};

Ends ends_of(SymIntList pad, size_t rank, size_t d) {
  size_t at = 2 * (rank - 1 - d);
  return at + 1 < pad.size() ? Ends{pad[at], pad[at + 1]} : Ends{0, 0};
}

Dims padded_sizes(std::string_view op, const Tensor& self, SymIntList pad) {
  require(pad.size() % 2 == 0 && pad.size() <= 2 * self.sizes().size(),
          "{}: padding must have an even number of values, at most {} for shape {}, found {}", op,
          2 * self.sizes().size(), self.sizes(), pad);
  Dims sizes = dims_of(self.sizes());
  for (size_t d = 0; d < sizes.size(); ++d) {
    Ends e = ends_of(pad, sizes.size(), d);
    sizes[d] = sizes[d] + e.left + e.right;
    require(expect_true(sizes[d] >= 0), "{}: padding {} leaves a negative size of shape {}", op,
            pad, self.sizes());
  }
  return sizes;
}

bool only_crops(SymIntList pad) {
  return std::all_of(pad.begin(), pad.end(),
                     [](SymInt p) { return !p.is_symbolic() && p.word() <= 0; });
}

// ---- a constant

TensorMeta constant_pad_meta(const Tensor& self, SymIntList pad, Number) {
  Dims sizes = padded_sizes("constant_pad_nd", self, pad);
  Dims strides = strides_for(list_of(sizes), suggest_memory_format(self));
  if (only_crops(pad))
    strides =
        preserved_strides(make_fake({self.dtype(), self.device(), sizes, dims_of(self.strides())}));
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

// The part of a padded tensor (or, with the ends negated, of the source) that both have.
Tensor common_part(const Tensor& t, SymIntList pad, int64_t sign) {
  Dims sizes = dims_of(t.sizes());
  int64_t offset = t.storage_offset();
  for (size_t d = 0; d < sizes.size(); ++d) {
    Ends e = ends_of(pad, sizes.size(), d);
    int64_t left = std::max<int64_t>(0, sign * e.left.word()),
            right = std::max<int64_t>(0, sign * e.right.word());
    sizes[d] = std::max<int64_t>(0, sizes[d].word() - left - right);
    if (sizes[d].word() > 0) offset += left * strides_of(t)[d];
  }
  return make_view(t, list_of(sizes), t.strides(), offset);
}

void constant_pad_kernel(Tensor& out, const Tensor& self, SymIntList pad, Number value) {
  if (!only_crops(pad)) fill_elements(out, value);
  Tensor to = common_part(out, pad, 1), from = common_part(self, pad, -1);
  if (numel_of(to) > 0 && numel_of(from) > 0) copy_elements(to, from);
}

// ---- by position: each padded position reads one of the source

enum class Border { reflect, replicate };

TensorMeta border_meta(std::string_view op, const Tensor& self, SymIntList pad, size_t n,
                       Border border) {
  size_t rank = self.sizes().size();
  require(pad.size() == 2 * n, "{}: padding must have {} values, found {}", op, 2 * n, pad);
  require(rank == n + 1 || rank == n + 2, "{}: input must have {} or {} dimensions, found shape {}",
          op, n + 1, n + 2, self.sizes());
  Dims sizes = padded_sizes(op, self, pad);
  for (size_t d = rank - n; d < rank; ++d) {
    Ends e = ends_of(pad, rank, d);
    SymInt size = self.sizes()[d];
    require(
        border == Border::replicate || (bool(e.left < size) && bool(e.right < size)),
        "{}: reflected padding must be smaller than the dimension, found padding {} for shape {}",
        op, pad, self.sizes());
  }
  if (is_surely_empty(self))
    require(expect_true(product(list_of(sizes)) == 0), "pad: shape {} has no border to repeat",
            self.sizes());
  Dims strides = strides_for(list_of(sizes), suggest_memory_format(self));
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

int64_t source_position(int64_t i, int64_t size, Border border) {
  if (border == Border::replicate) return std::clamp<int64_t>(i, 0, size - 1);
  if (i < 0) i = -i;
  return i < size ? i : 2 * (size - 1) - i;
}

// Offsets in the source of every position of a padded dimension.
std::vector<int64_t> source_offsets(const Tensor& out, const Tensor& self, SymIntList pad, size_t d,
                                    Border border) {
  int64_t left = ends_of(pad, sizes_of(self).size(), d).left;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < sizes_of(out)[d]; ++i)
    offsets.push_back(source_position(i - left, sizes_of(self)[d], border) * strides_of(self)[d]);
  return offsets;
}

template <class T>
void copy_positions(T* to, const T* from, const std::vector<std::vector<int64_t>>& offsets,
                    IntList out_strides, size_t d) {
  if (d + 1 == offsets.size()) {
    for (size_t i = 0; i < offsets[d].size(); ++i)
      to[static_cast<int64_t>(i) * out_strides[d]] = from[offsets[d][i]];
    return;
  }
  for (size_t i = 0; i < offsets[d].size(); ++i)
    copy_positions(to + static_cast<int64_t>(i) * out_strides[d], from + offsets[d][i], offsets,
                   out_strides, d + 1);
}

void border_kernel(const Tensor& out, const Tensor& self, SymIntList pad, Border border) {
  if (numel_of(out) == 0) return;
  std::vector<std::vector<int64_t>> offsets;
  for (size_t d = 0; d < sizes_of(self).size(); ++d)
    offsets.push_back(source_offsets(out, self, pad, d, border));
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    int64_t rows = static_cast<int64_t>(offsets[0].size());
    parallel_for(0, rows, std::max<int64_t>(1, 32768 * rows / numel_of(out)),
                 [&](int64_t lo, int64_t hi) {
                   std::vector<std::vector<int64_t>> part = offsets;
                   part[0].assign(offsets[0].begin() + lo, offsets[0].begin() + hi);
                   copy_positions(data_of<T>(out) + lo * strides_of(out)[0], data_of<T>(self), part,
                                  strides_of(out), 0);
                 });
  });
}

template <Border border, size_t n>
TensorMeta border_pad_meta(const Tensor& self, SymIntList pad) {
  return border_meta(border == Border::reflect ? "reflection_pad" : "replication_pad", self, pad, n,
                     border);
}

template <Border border>
void border_pad_kernel(Tensor& out, const Tensor& self, SymIntList pad) {
  border_kernel(out, self, pad, border);
}

// ---- derivatives: each gradient goes back to the position that was read

template <class C>
void add_positions(C* to, const C*& from, const std::vector<std::vector<int64_t>>& offsets,
                   size_t d) {
  for (int64_t at : offsets[d]) {
    if (d + 1 == offsets.size())
      to[at] += *from++;
    else
      add_positions(to + at, from, offsets, d + 1);
  }
}

template <Border border, size_t n>
TensorMeta border_backward_meta(const Tensor& grad, const Tensor& self, SymIntList pad) {
  TensorMeta padded = border_meta("pad backward", self, pad, n, border);
  require_shape("pad backward", "grad_output", grad, list_of(padded.sizes));
  return {self.dtype(), self.device(), dims_of(self.sizes()),
          strides_for(self.sizes(), suggest_memory_format(self))};
}

template <Border border>
void border_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& self, SymIntList pad) {
  if (is_complex(out.dtype())) {
    for (int64_t part : {0, 1}) {
      Tensor to = select(view_as_real(out), -1, part);
      border_backward_kernel<border>(to, select(view_as_real(grad), -1, part), self, pad);
    }
    return;
  }
  Dtype dtype = grad.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor g = contiguous_of(converted(grad, dtype));
  Tensor sums = make_tensor(contiguous_meta(out.sizes(), dtype));
  fill_elements(sums, 0);
  std::vector<std::vector<int64_t>> offsets;
  for (size_t d = 0; d < sizes_of(out).size(); ++d)
    offsets.push_back(source_offsets(g, sums, pad, d, border));
  auto run = [&]<class C>() {
    const C* from = data_of<C>(g);
    if (numel_of(g) > 0) add_positions(data_of<C>(sums), from, offsets, 0);
  };
  if (numel_of(out) == 0) return;
  if (dtype == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
  copy_elements(out, sums);
}

// ---- circulation, and the choice by name

Tensor circular_along(const Tensor& t, int64_t dim, Ends e) {
  // What negative padding cuts off does not come back at the other end.
  SymInt first = bool(e.left < 0) ? -e.left : SymInt(0),
         end = bool(e.right < 0) ? t.size(dim) + e.right : t.size(dim), size = end - first;
  require(bool(e.left <= size) && bool(e.right <= size),
          "pad: circular padding {} and {} is larger than size {}", e.left, e.right, size);
  std::vector<Tensor> parts;
  if (bool(e.left > 0)) parts.push_back(slice(t, dim, end - e.left, end));
  parts.push_back(slice(t, dim, first, end));
  if (bool(e.right > 0)) parts.push_back(slice(t, dim, first, first + e.right));
  return parts.size() == 1 ? parts[0] : cat(parts, dim);
}

Tensor circular_decomp(const Tensor& self, SymIntList pad) {
  padded_sizes("pad", self, pad);
  Tensor out = self;
  for (size_t d = 0; d < self.sizes().size(); ++d)
    if (2 * (self.sizes().size() - 1 - d) < pad.size())
      out = circular_along(out, static_cast<int64_t>(d), ends_of(pad, self.sizes().size(), d));
  return out.is_same(self) ? clone(out) : contiguous(out);
}

Tensor border_pad(const Tensor& self, SymIntList pad, std::string_view mode) {
  bool reflect = mode == "reflect";
  switch (pad.size()) {
    case 2:
      return reflect ? reflection_pad1d(self, pad) : replication_pad1d(self, pad);
    case 4:
      return reflect ? reflection_pad2d(self, pad) : replication_pad2d(self, pad);
    case 6:
      return reflect ? reflection_pad3d(self, pad) : replication_pad3d(self, pad);
    default:
      fail("pad: mode '{}' pads one to three dimensions, found padding {}", mode, pad);
  }
}

Tensor pad_decomp(const Tensor& self, SymIntList pad, std::string_view mode,
                  std::optional<double> value) {
  if (mode == "constant") return constant_pad_nd(self, pad, value.value_or(0));
  require(!value || *value == 0, "pad: mode '{}' takes no value", mode);
  if (mode == "circular") return _pad_circular(self, pad);
  require(mode == "reflect" || mode == "replicate",
          "pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', found '{}'", mode);
  return border_pad(self, pad, mode);
}

}  // namespace

namespace {

Tensor constant_pad_vjp(const Tensor& g, SymIntList pad) {
  Dims back;
  for (SymInt p : pad) back.push_back(-p);
  return g.constant_pad_nd(list_of(back));
}

}  // namespace

static constexpr OpDef nn_pad_rows[] = {
    {.schema = "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
     .core = true,
     .meta = fn<constant_pad_meta>,
     .eager = fn<constant_pad_kernel>,
     .vjp = {{"self", "grad, pad", fn<constant_pad_vjp>}},
     .linear = "self + value"},
    {.schema = "reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
     .core = true,
     .meta = fn<border_pad_meta<Border::reflect, 1>>,
     .eager = fn<border_pad_kernel<Border::reflect>>,
     .vjp = {{"self", "grad, self, padding", fn<reflection_pad1d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
     .core = true,
     .meta = fn<border_pad_meta<Border::reflect, 2>>,
     .eager = fn<border_pad_kernel<Border::reflect>>,
     .vjp = {{"self", "grad, self, padding", fn<reflection_pad2d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
     .core = true,
     .meta = fn<border_pad_meta<Border::reflect, 3>>,
     .eager = fn<border_pad_kernel<Border::reflect>>,
     .vjp = {{"self", "grad, self, padding", fn<reflection_pad3d_backward>}}},
    {.schema = "replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor",
     .meta = fn<border_pad_meta<Border::replicate, 1>>,
     .eager = fn<border_pad_kernel<Border::replicate>>,
     .vjp = {{"self", "grad, self, padding", fn<replication_pad1d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor",
     .core = true,
     .meta = fn<border_pad_meta<Border::replicate, 2>>,
     .eager = fn<border_pad_kernel<Border::replicate>>,
     .vjp = {{"self", "grad, self, padding", fn<replication_pad2d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor",
     .core = true,
     .meta = fn<border_pad_meta<Border::replicate, 3>>,
     .eager = fn<border_pad_kernel<Border::replicate>>,
     .vjp = {{"self", "grad, self, padding", fn<replication_pad3d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "_pad_circular(Tensor self, SymInt[] pad) -> Tensor", .decomp = fn<circular_decomp>},
    {.schema = "pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor",
     .decomp = fn<pad_decomp>},
    {.schema = "reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) "
               "-> Tensor",
     .meta = fn<border_backward_meta<Border::reflect, 1>>,
     .eager = fn<border_backward_kernel<Border::reflect>>,
     .vjp = {{"grad_output", "grad, padding",
              [](const Tensor& g, SymIntList padding) { return reflection_pad1d(g, padding); }},
             {"self", "grad", no_gradient}}},
    {.schema = "reflection_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) "
               "-> Tensor",
     .meta = fn<border_backward_meta<Border::reflect, 2>>,
     .eager = fn<border_backward_kernel<Border::reflect>>,
     .vjp = {{"grad_output", "grad, padding",
              [](const Tensor& g, SymIntList padding) { return reflection_pad2d(g, padding); }},
             {"self", "grad", no_gradient}}},
    {.schema = "reflection_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) "
               "-> Tensor",
     .meta = fn<border_backward_meta<Border::reflect, 3>>,
     .eager = fn<border_backward_kernel<Border::reflect>>,
     .vjp = {{"grad_output", "grad, padding",
              [](const Tensor& g, SymIntList padding) { return reflection_pad3d(g, padding); }},
             {"self", "grad", no_gradient}}},
    {.schema = "replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) "
               "-> Tensor",
     .meta = fn<border_backward_meta<Border::replicate, 1>>,
     .eager = fn<border_backward_kernel<Border::replicate>>,
     .vjp = {{"grad_output", "grad, padding",
              [](const Tensor& g, SymIntList padding) { return replication_pad1d(g, padding); }},
             {"self", "grad", no_gradient}}},
    {.schema = "replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) "
               "-> Tensor",
     .meta = fn<border_backward_meta<Border::replicate, 2>>,
     .eager = fn<border_backward_kernel<Border::replicate>>,
     .vjp = {{"grad_output", "grad, padding",
              [](const Tensor& g, SymIntList padding) { return replication_pad2d(g, padding); }},
             {"self", "grad", no_gradient}}},
    {.schema = "replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) "
               "-> Tensor",
     .meta = fn<border_backward_meta<Border::replicate, 3>>,
     .eager = fn<border_backward_kernel<Border::replicate>>,
     .vjp = {{"grad_output", "grad, padding",
              [](const Tensor& g, SymIntList padding) { return replication_pad3d(g, padding); }},
             {"self", "grad", no_gradient}}},
};

extern constinit const OpFamily op_family_nn_pad{nn_pad_rows};

}  // namespace tenon::ops
