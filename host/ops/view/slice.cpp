// Views of parts of a tensor: slices, single indices, splits; and copies of a tensor with a part
// written.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/shapes.h"
#include "ops/view/parts.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

namespace tenon {

// A call must not ask for more parts than a machine can hold.
thread_local constinit int64_t PartLimit::most_ = int64_t{1} << 20;

namespace ops {

namespace {

// Where sizes known only at run time leave the order open, the smaller of the two is kept symbolic.
SymInt at_most(SymInt index, SymInt size) {
  if (!index.is_symbolic() && index.word() == INT64_MAX) return size;  // x[i:] as archives write it
  std::optional<bool> beyond = decided(index > size);
  return !beyond ? sym_min(index, size) : *beyond ? size : index;
}

SymInt at_least_0(SymInt index) {
  std::optional<bool> negative = decided(index < 0);
  return !negative ? sym_max(index, 0) : *negative ? SymInt(0) : index;
}

// An index from the start, of one that counts from the end where it is negative. One whose sign
// only the run knows is asserted not to, unless sizes make it negative: in x[-n:] n may be 0.
SymInt from_start(SymInt index, SymInt size) {
  std::optional<bool> negative = decided(index < 0);
  if (!negative && guard_or_false(index < 0)) return sym_select(index < 0, index + size, index);
  if (!negative) negative = !expect_true(index >= 0);
  return *negative ? index + size : index;
}

ViewMeta sliced(const Tensor& self, int64_t dim, std::optional<SymInt> start,
                std::optional<SymInt> end, SymInt step) {
  require(self.dim() > 0, "slice: the tensor has no dimensions");
  require(expect_true(step > 0), "slice: the step must be positive, found {}", step);
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  SymInt size = self.sizes()[at];
  SymInt from = at_least_0(from_start(start.value_or(0), size));
  SymInt to = end ? at_most(at_least_0(from_start(*end, size)), size) : size;
  SymInt within = at_most(from, size);
  if (within.word() == size.word()) from = size;
  // What a start beyond the end leaves is less than nothing; so x[1:] is as long as x[:-1].
  std::optional<bool> is_empty = decided(to < from);
  SymInt length = !is_empty ? sym_max(to - from, 0) : *is_empty ? SymInt(0) : to - from;
  ViewMeta m{dims_of(self.sizes()), dims_of(self.strides()), sym_offset_of(self)};
  m.offset = m.offset + within * m.strides[at];
  m.sizes[at] = is_one(step) ? length : (length + step - 1) / step;
  m.strides[at] = m.strides[at] * step;
  return m;
}

SymInt wrapped_index(const char* op, SymInt index, SymInt size) {
  require(expect_true(index >= -size) && expect_true(index < size),
          "{}: index {} is out of range for a dimension of size {}", op, index, size);
  return from_start(index, size);
}

ViewMeta selected(const Tensor& self, int64_t dim, SymInt index) {
  require(self.dim() > 0, "select: the tensor has no dimensions");
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  ViewMeta m{dims_of(self.sizes()), dims_of(self.strides()), sym_offset_of(self)};
  m.offset = m.offset + wrapped_index("select", index, m.sizes[at]) * m.strides[at];
  m.sizes.erase(at);
  m.strides.erase(at);
  return m;
}

Tensor narrowed(const Tensor& self, int64_t dim, SymInt start, SymInt length) {
  require(self.dim() > 0, "narrow: the tensor has no dimensions");
  SymInt size = self.size(dim);
  require(expect_true(length >= 0), "narrow: the length must not be negative, found {}", length);
  require(expect_true(start >= -size) && expect_true(start <= size),
          "narrow: start {} is out of range for a dimension of size {}", start, size);
  start = from_start(start, size);
  require(expect_true(start + length <= size), "narrow: start {} and length {} exceed size {}",
          start, length, size);
  return slice(self, dim, start, start + length, 1);
}

Tensor narrowed_from(const Tensor& self, int64_t dim, const Tensor& start, SymInt length) {
  require(start.dim() == 0 && is_integral(start.dtype()),
          "narrow: start is an integer without dimensions, found {}", symbolic_text(start));
  return narrowed(self, dim, item(start).sym_int(), length);
}

// ---- several parts

void check_part_count(std::string_view op, int64_t count) {
  require(count <= PartLimit::most(), "{}: at most {} parts can be made, found {}", op,
          PartLimit::most(), count);
}

ViewMeta part(const Tensor& self, size_t dim, SymInt start, SymInt length) {
  ViewMeta m{dims_of(self.sizes()), dims_of(self.strides()), sym_offset_of(self)};
  m.offset = m.offset + start * m.strides[dim];
  m.sizes[dim] = length;
  return m;
}

std::vector<ViewMeta> parts_of_sizes(const Tensor& self, SymIntList sizes, int64_t dim) {
  require(self.dim() > 0, "split: the tensor has no dimensions");
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  std::vector<ViewMeta> parts;
  SymInt start = 0;
  for (SymInt size : sizes) {
    require(expect_true(size >= 0), "split_with_sizes: size {} is negative", size);
    parts.push_back(part(self, at, start, size));
    start = start + size;
  }
  require(sizes_match(start, self.sizes()[at]),
          "split_with_sizes: sizes {} do not add up to {}, the size of dimension {}", sizes,
          self.sizes()[at], dim);
  return parts;
}

std::vector<ViewMeta> equal_parts(const Tensor& self, SymInt split_size, int64_t dim) {
  require(self.dim() > 0, "split: the tensor has no dimensions");
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  SymInt size = self.sizes()[at];
  require(split_size >= 0 && (split_size > 0 || size == 0),
          "split: the size of the parts must be positive, found {}", split_size);
  int64_t count = split_size == 0
                      ? 1
                      : std::max<int64_t>(((size + split_size - 1) / split_size).guard_int(), 1);
  check_part_count("split", count);
  std::vector<ViewMeta> parts;
  for (int64_t i = 0; i < count; ++i) {
    SymInt start = split_size * i;
    parts.push_back(part(self, at, start, i + 1 < count ? split_size : size - start));
  }
  return parts;
}

std::vector<ViewMeta> unbound(const Tensor& self, int64_t dim) {
  require(self.dim() > 0, "unbind: the tensor has no dimensions");
  int64_t count = self.size(dim).guard_int();
  check_part_count("unbind", count);
  std::vector<ViewMeta> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(selected(self, dim, i));
  return parts;
}

std::vector<Tensor> chunked(const Tensor& self, int64_t chunks, int64_t dim) {
  require(chunks > 0 && self.dim() > 0,
          "chunk: a positive number of chunks and at least one dimension "
          "are expected, found {} and shape {}",
          chunks, self.sizes());
  SymInt size = self.size(dim), split_size = (size + chunks - 1) / chunks;
  if (guard_or_false(split_size == 0)) check_part_count("chunk", chunks);
  if (guard_or_false(split_size == 0))
    return split_with_sizes(self, std::vector<SymInt>(static_cast<size_t>(chunks), SymInt(0)), dim);
  return split(self, split_size, dim);
}

std::vector<Tensor> split_at(const Tensor& self, SymIntList indices, int64_t dim) {
  require(self.dim() > 0, "tensor_split: the tensor has no dimensions");
  std::vector<Tensor> parts;
  SymInt start = 0;
  for (SymInt end : indices) {
    parts.push_back(slice(self, dim, start, end, 1));
    start = end;
  }
  parts.push_back(slice(self, dim, start, self.size(dim), 1));
  return parts;
}

std::vector<Tensor> split_evenly(const Tensor& self, SymInt sections, int64_t dim) {
  require(self.dim() > 0 && sections > 0,
          "tensor_split: a positive number of sections and at least one "
          "dimension are expected, found {} and shape {}",
          sections, self.sizes());
  SymInt size = self.size(dim), smaller = size / sections, larger = size % sections;
  int64_t n = sections.guard_int(), n_larger = larger.guard_int();
  check_part_count("tensor_split", n);
  std::vector<Tensor> parts;
  SymInt start = 0;
  for (int64_t i = 0; i < n; ++i) {
    SymInt length = i < n_larger ? smaller + 1 : smaller;
    parts.push_back(slice(self, dim, start, start + length, 1));
    start = start + length;
  }
  return parts;
}

std::vector<Tensor> split_as_tensor_says(const Tensor& self, const Tensor& where, int64_t dim) {
  require(where.dtype() == Dtype::i64,
          "tensor_split: tensor_indices_or_sections must have dtype i64, found {}; cast it",
          where.dtype());
  if (where.dim() == 0) return split_evenly(self, item(where).sym_int(), dim);
  std::vector<SymInt> indices;
  for (int64_t i = 0; i < where.size(0).guard_int(); ++i)
    indices.push_back(item(select(where, 0, i)).sym_int());
  return split_at(self, indices, dim);
}

// hsplit, vsplit and dsplit: the dimension, and how many the tensor must have.
template <class Where>
std::vector<Tensor> split_direction(const char* op, const Tensor& self, Where where, int64_t dim,
                                    int64_t rank) {
  require(self.dim() >= rank, "{}: at least {} dimensions are expected, found shape {}", op, rank,
          self.sizes());
  if constexpr (std::is_same_v<Where, int64_t>) {
    require(where > 0 && expect_true(self.size(dim) % where == 0),
            "{}: dimension {} of size {} cannot be split into {} equal parts", op, dim,
            self.size(dim), where);
    return split_evenly(self, where, dim);
  } else {
    return split_at(self, where, dim);
  }
}

std::vector<Tensor> dense_copies(const std::vector<Tensor>& parts) {
  std::vector<Tensor> out;
  for (const Tensor& p : parts) out.push_back(clone(p, MemoryFormat::contiguous));
  return out;
}

// As other out forms do: empty tensors are resized, others have the shape of their part.
void store(const std::vector<Tensor>& parts, TensorList out) {
  require(out.size() == parts.size(), "expected {} out tensors, found {}", parts.size(),
          out.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    Tensor to = out[i];
    if (guard_or_false(to.numel() == 0)) resize_(to, parts[i].sizes());
    copy_(to, parts[i]);
  }
}

// ---- a copy of self with a part written

TensorMeta slice_scatter_meta(const Tensor& self, const Tensor& src, int64_t dim,
                              std::optional<SymInt> start, std::optional<SymInt> end, SymInt step) {
  require_shape("slice_scatter", "src", src, list_of(sliced(self, dim, start, end, step).sizes));
  return strided_like(self);
}

TensorMeta select_scatter_meta(const Tensor& self, const Tensor& src, int64_t dim, SymInt index) {
  require_shape("select_scatter", "src", src, list_of(selected(self, dim, index).sizes));
  return strided_like(self);
}

void write_part(const Tensor& out, const Tensor& self, const Tensor& src, const ViewMeta& m) {
  copy_elements(out, self);
  copy_elements(make_view(out, list_of(m.sizes), list_of(m.strides), m.offset), src);
}

void slice_scatter_kernel(Tensor& out, const Tensor& self, const Tensor& src, int64_t dim,
                          std::optional<SymInt> start, std::optional<SymInt> end, SymInt step) {
  write_part(out, self, src, sliced(out, dim, start, end, step));
}

void select_scatter_kernel(Tensor& out, const Tensor& self, const Tensor& src, int64_t dim,
                           SymInt index) {
  write_part(out, self, src, selected(out, dim, index));
}

// ---- the inverses of views of a range: self with `content` there

Tensor with_range(const Tensor& self, const Tensor& content, int64_t dim, SymInt start) {
  return slice_scatter(self, content, dim, start, start + content.size(dim), 1);
}

Tensor with_narrow(const Tensor& self, const Tensor& content, int64_t dim, SymInt start) {
  return with_range(self, content, dim, from_start(start, self.size(dim)));
}

// A part of a split begins where the parts before it end.
Tensor with_part(const Tensor& self, const Tensor& content, ViewPart part, SymIntList sizes,
                 int64_t dim) {
  SymInt start = 0;
  for (size_t i = 0; i < static_cast<size_t>(part); ++i) start = start + sizes[i];
  return with_range(self, content, dim, start);
}

Tensor with_equal_part(const Tensor& self, const Tensor& content, ViewPart part, SymInt split_size,
                       int64_t dim) {
  return with_range(self, content, dim, split_size * static_cast<int64_t>(part));
}

Tensor slice_backward_of(const Tensor& grad, SymIntList input_sizes, int64_t dim, SymInt start,
                         SymInt end, SymInt step) {
  Tensor zeros = new_zeros(grad, input_sizes);
  return slice_scatter(zeros, grad, dim, start, end, step);
}

std::vector<SymInt> part_sizes(const Tensor& self, SymInt split_size, int64_t dim) {
  std::vector<SymInt> sizes;
  for (const ViewMeta& part : equal_parts(self, split_size, dim))
    sizes.push_back(part.sizes[static_cast<size_t>(wrap_dim(dim, self.dim()))]);
  return sizes;
}

}  // namespace

static constexpr OpDef view_slice_rows[] = {
    {.schema = "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, "
               "SymInt step=1) -> Tensor(a)",
     .core = true,
     .view = fn<sliced>,
     .inverse = fn<slice_scatter>,
     .vjp = {{"self", "grad, self.sizes, dim, start, end, step",
              [](const Tensor& g, SymIntList sizes, int64_t dim, std::optional<SymInt> start,
                 std::optional<SymInt> end, SymInt step) {
                return g.new_zeros(sizes).slice_scatter(g, dim, start, end, step);
              }}}},
    {.schema = "slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, "
               "SymInt step=1) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dim, std::optional<SymInt> start, std::optional<SymInt> end,
            SymInt step) {
           return clone(slice(self, dim, start, end, step), MemoryFormat::contiguous);
         }},
    {.schema = "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, "
               "SymInt? end=None, SymInt step=1) -> Tensor",
     .core = true,
     .meta = fn<slice_scatter_meta>,
     .eager = fn<slice_scatter_kernel>,
     .vjp = {{"self", "grad, src.sizes, dim, start, end, step",
              [](const Tensor& g, SymIntList src, int64_t dim, std::optional<SymInt> start,
                 std::optional<SymInt> end,
                 SymInt step) { return g.slice_scatter(g.new_zeros(src), dim, start, end, step); }},
             {"src", "grad, dim, start, end, step",
              [](const Tensor& g, int64_t dim, std::optional<SymInt> start,
                 std::optional<SymInt> end,
                 SymInt step) { return g.slice(dim, start, end, step); }}},
     .linear = "self + src"},
    {.schema = "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, "
               "SymInt end, SymInt step) -> Tensor",
     .decomp = fn<slice_backward_of>},
    {.schema = "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
     .core = true,
     .view = fn<selected>,
     .inverse = fn<select_scatter>,
     .vjp = {{"self", "grad, self.sizes, dim, index",
              [](const Tensor& g, SymIntList sizes, int64_t dim, SymInt index) {
                return g.new_zeros(sizes).select_scatter(g, dim, index);
              }}}},
    {.schema = "select_copy.int(Tensor self, int dim, SymInt index) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dim, SymInt index) {
           return clone(select(self, dim, index), MemoryFormat::contiguous);
         }},
    {.schema = "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
     .core = true,
     .meta = fn<select_scatter_meta>,
     .eager = fn<select_scatter_kernel>,
     .vjp = {{"self", "grad, src.sizes, dim, index",
              [](const Tensor& g, SymIntList src, int64_t dim, SymInt index) {
                return g.select_scatter(g.new_zeros(src), dim, index);
              }},
             {"src", "grad, dim, index",
              [](const Tensor& g, int64_t dim, SymInt index) { return g.select(dim, index); }}},
     .linear = "self + src"},
    {.schema = "select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) "
               "-> Tensor",
     .decomp =
         [](const Tensor& grad, SymIntList input_sizes, int64_t dim, SymInt index) {
           return select_scatter(new_zeros(grad, input_sizes), grad, dim, index);
         }},
    {.schema = "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
     .inverse = fn<with_narrow>,
     .decomp = fn<narrowed>},
    {.schema = "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)",
     .tags = OpTags::data_dependent,
     .decomp = fn<narrowed_from>},
    {.schema = "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dim, SymInt start, SymInt length) {
           return clone(narrowed(self, dim, start, length), MemoryFormat::contiguous);
         }},
    {.schema = "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
     .view = fn<equal_parts>,
     .inverse = fn<with_equal_part>,
     .decomp =
         [](const Tensor& self, SymInt split_size, int64_t dim) {
           return split_with_sizes(self, part_sizes(self, split_size, dim), dim);
         },
     .vjp = {{"self", "grads, dim", [](TensorList g, int64_t dim) { return cat(g, dim); }}}},
    {.schema = "split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
     .view = fn<parts_of_sizes>,
     .inverse = fn<with_part>,
     .decomp = [](const Tensor& self, SymIntList sizes,
                  int64_t dim) { return split_with_sizes(self, sizes, dim); },
     .vjp = {{"self", "grads, dim", [](TensorList g, int64_t dim) { return cat(g, dim); }}}},
    {.schema = "split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
     .decomp = [](const Tensor& self, SymInt split_size,
                  int64_t dim) { return dense_copies(split(self, split_size, dim)); }},
    {.schema =
         "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
     .core = true,
     .view = fn<parts_of_sizes>,
     .inverse = fn<with_part>,
     .vjp = {{"self", "grads, dim", [](TensorList g, int64_t dim) { return cat(g, dim); }}}},
    {.schema = "split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     .decomp = [](const Tensor& self, SymIntList split_sizes,
                  int64_t dim) { return dense_copies(split_with_sizes(self, split_sizes, dim)); }},
    {.schema =
         "split_copy.Tensor_out(Tensor self, SymInt split_size, int dim=0, *, Tensor(a!)[] out) "
         "-> ()",
     .decomp = [](const Tensor& self, SymInt split_size, int64_t dim,
                  TensorList out) { store(split(self, split_size, dim), out); }},
    {.schema = "split_with_sizes_copy.out(Tensor self, SymInt[] split_sizes, int dim=0, *, "
               "Tensor(a!)[] out) -> ()",
     .decomp = [](const Tensor& self, SymIntList split_sizes, int64_t dim,
                  TensorList out) { store(split_with_sizes(self, split_sizes, dim), out); }},
    {.schema = "unbind_copy.int_out(Tensor self, int dim=0, *, Tensor(a!)[] out) -> ()",
     .decomp = [](const Tensor& self, int64_t dim,
                  TensorList out) { store(unbind(self, dim), out); }},
    {.schema = "unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
     .tags = OpTags::maybe_alias,
     .view = fn<equal_parts>,
     .inverse = fn<with_equal_part>,
     .vjp = {{"self", "grads, dim", [](TensorList g, int64_t dim) { return cat(g, dim); }}}},
    {.schema = "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     .tags = OpTags::maybe_alias,
     .view = fn<parts_of_sizes>,
     .inverse = fn<with_part>,
     .vjp = {{"self", "grads, dim", [](TensorList g, int64_t dim) { return cat(g, dim); }}}},
    {.schema = "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
     .tags = OpTags::maybe_alias,
     .decomp = fn<chunked>},
    {.schema = "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
     .decomp = fn<chunked>},
    {.schema = "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
     .view = fn<unbound>,
     .inverse =
         [](const Tensor& self, const Tensor& content, ViewPart part, int64_t dim) {
           return select_scatter(self, content, dim, static_cast<int64_t>(part));
         },
     .decomp =
         [](const Tensor& self, int64_t dim) {
           std::vector<Tensor> parts;
           for (int64_t i = 0, n = self.size(dim).guard_int(); i < n; ++i)
             parts.push_back(select(self, dim, i));
           return parts;
         },
     .vjp = {{"self", "grads, dim", [](TensorList g, int64_t dim) { return stack(g, dim); }}}},
    {.schema = "unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
     .decomp = [](const Tensor& self, int64_t dim) { return dense_copies(unbind(self, dim)); }},
    {.schema =
         "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
     .decomp = fn<split_at>},
    {.schema =
         "tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
     .decomp = fn<split_evenly>},
    {.schema = "tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, "
               "Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]",
     .tags = OpTags::data_dependent,
     .decomp = fn<split_as_tensor_says>},
    {.schema = "hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
     .decomp =
         [](const Tensor& self, int64_t n) {
           return split_direction("hsplit", self, n, self.dim() == 1 ? 0 : 1, 1);
         }},
    {.schema = "hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
     .decomp =
         [](const Tensor& self, IntList at) {
           return split_direction("hsplit", self, at, self.dim() == 1 ? 0 : 1, 1);
         }},
    {.schema = "vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
     .decomp = [](const Tensor& self,
                  int64_t n) { return split_direction("vsplit", self, n, 0, 2); }},
    {.schema = "vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
     .decomp = [](const Tensor& self,
                  IntList at) { return split_direction("vsplit", self, at, 0, 2); }},
    {.schema = "dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
     .decomp = [](const Tensor& self,
                  int64_t n) { return split_direction("dsplit", self, n, 2, 3); }},
    {.schema = "dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
     .decomp = [](const Tensor& self,
                  IntList at) { return split_direction("dsplit", self, at, 2, 3); }},
};

extern constinit const OpFamily op_family_view_slice{view_slice_rows};

}  // namespace ops
}  // namespace tenon
