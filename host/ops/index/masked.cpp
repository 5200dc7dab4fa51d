// Elements chosen by a mask: masked_fill, masked_select, masked_scatter.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include "core/kernels/block_kernels.h"
#include "core/scalar/scalar.h"
#include "core/sym/shape_env.h"
#include "core/threads/thread_pool.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {

TensorMeta masked_meta(const char* op, const Tensor& self, const Tensor& mask) {
  require(mask.dtype() == Dtype::bool_, "{}: the mask must be bool, found {}", op, mask.dtype());
  Tensor operands[2] = {self, mask};
  Dims sizes = broadcast_sizes(std::span<const Tensor>(operands));
  Dims strides = pointwise_strides(list_of(sizes), operands);
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

Dims mask_strides(const Tensor& out, const Tensor& mask) {
  return broadcast_strides(mask.sizes(), mask.strides(), out.sizes());
}

// `body(element offset)` in row-major order where the mask holds.
template <class F>
void for_each_chosen(const Tensor& t, const Tensor& mask, const F& body) {
  Dims strides = mask_strides(t, mask);
  Walk<2> walk;
  add_dims<2>(
      walk, sizes_of(t),
      {strides_of(t), IntList(reinterpret_cast<const int64_t*>(strides.data()), strides.size())});
  const bool* chosen = data_of<bool>(mask);
  for_each_offset(walk, [&](const Offsets<2>& at) {
    if (chosen[at[1]]) body(at[0]);
  });
}

// Row-major tensors of one shape: elements are chosen by the block kernel of their size. False
// where that does not serve.
bool fill_dense(const Tensor& out, const Tensor& self, const Tensor& mask, const void* value) {
  int64_t item = itemsize(out.dtype()), n = numel_of(out);
  bool dense = out.is_contiguous() && self.is_contiguous() && mask.is_contiguous() &&
               numel_of(self) == n && numel_of(mask) == n;
  if (!dense || item > 8) return false;
  BlockType type = item == 1   ? BlockType::u8
                   : item == 2 ? BlockType::i16
                   : item == 4 ? BlockType::i32
                               : BlockType::i64;
  BlockFn select =
      block_kernels().primitive[static_cast<int>(ScalarCode::select)][static_cast<int>(type)];
  constexpr int64_t grain = 16384;
  constexpr unsigned value_is_single = 1u << 1;
  auto run = [&](int64_t lo, int64_t hi) {
    const void* in[] = {data_of<bool>(mask) + lo, value, data_of<char>(self) + lo * item};
    select(data_of<char>(out) + lo * item, in, hi - lo, value_is_single);
  };
  if (n <= 2 * grain)
    run(0, n);
  else
    parallel_for(0, n, grain, run);
  return true;
}

void fill_where(Tensor& out, const Tensor& self, const Tensor& mask, const Element16& element) {
  if (fill_dense(out, self, mask, &element)) return;
  copy_broadcast(out, self);
  dispatch_itemsize(out.dtype(), [&]<class T>() {
    T one;
    std::memcpy(&one, &element, sizeof one);
    T* to = data_of<T>(out);
    for_each_chosen(out, mask, [&](int64_t at) { to[at] = one; });
  });
}

void masked_fill_kernel(Tensor& out, const Tensor& self, const Tensor& mask, Number value) {
  Element16 element{};
  store_number(&element, out.dtype(), value);
  fill_where(out, self, mask, element);
}

// A number would not hold a complex value.
void fill_with_element_of(Tensor& out, const Tensor& self, const Tensor& mask,
                          const Tensor& value) {
  Tensor one = converted(value, out.dtype());
  Element16 element{};
  std::memcpy(&element, data_of<char>(one), static_cast<size_t>(itemsize(out.dtype())));
  fill_where(out, self, mask, element);
}

// where() puts the dimensions in the order of the mask; the row's result has that of self.
Tensor filled_by_where(const Tensor& self, const Tensor& mask, const Tensor& value) {
  Tensor filled = where(mask, value, self);
  Dims strides = masked_meta("masked_fill", self, mask).strides;
  bool lies_so = true;
  for (size_t d = 0; d < strides.size(); ++d)
    lies_so = lies_so && (guard_or_false(filled.strides()[d] == strides[d]) ||
                          guard_or_false(filled.sizes()[d] == 1));
  if (lies_so) return filled;
  return copy(filled.new_empty_strided(filled.sizes(), list_of(strides)), filled);
}

Tensor expanded_to(const Tensor& t, const Dims& sizes) {
  Dims strides = broadcast_strides(t.sizes(), t.strides(), list_of(sizes));
  return make_view(t, list_of(sizes), list_of(strides), t.storage_offset());
}

// Of a row-major tensor and mask of one shape. Every element is written and kept where the next one
// does not overwrite it, since no branch over a mask can be foretold; a block at a time, for which
// there is room.
template <class T>
void select_dense(T* to, const T* from, const bool* chosen, int64_t n) {
  constexpr int64_t block = 256;
  T kept[block];
  for (int64_t first = 0; first < n; first += block) {
    int64_t length = std::min(block, n - first);
    size_t count = 0;
    for (int64_t i = 0; i < length; ++i) {
      kept[count] = from[first + i];
      count += chosen[first + i];
    }
    std::copy_n(kept, count, to);
    to += count;
  }
}

Tensor masked_select_dense(const Tensor& self, const Tensor& mask) {
  const bool* chosen = data_of<bool>(mask);
  int64_t n = numel_of(mask), count = 0;
  for (int64_t i = 0; i < n; ++i) count += chosen[i];
  Tensor out = make_tensor(IntList{count}, self.dtype());
  dispatch_itemsize(self.dtype(),
                    [&]<class T>() { select_dense(data_of<T>(out), data_of<T>(self), chosen, n); });
  return out;
}

Tensor masked_select_kernel(const Tensor& self, const Tensor& mask) {
  masked_meta("masked_select", self, mask);
  if (self.is_contiguous() && mask.is_contiguous() &&
      std::ranges::equal(sizes_of(self), sizes_of(mask)))
    return masked_select_dense(self, mask);
  Tensor operands[2] = {self, mask};
  Tensor from = expanded_to(self, broadcast_sizes(std::span<const Tensor>(operands)));
  int64_t n = 0;
  for_each_chosen(from, mask, [&](int64_t) { ++n; });
  Tensor out = make_tensor(IntList{n}, self.dtype());
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    T* to = data_of<T>(out);
    for_each_chosen(from, mask, [&](int64_t at) { *to++ = data_of<T>(from)[at]; });
  });
  return out;
}

TensorMeta masked_select_meta(const Tensor& self, const Tensor& mask) {
  masked_meta("masked_select", self, mask);
  ShapeEnv* env = current_shape_env();
  require(env, ErrorCode::data_dependent,
          "masked_select: the number of elements is known at run time only");
  SymInt count = env->create_unbacked(Range::at_least(0));
  env->mark_size_like(count);
  return contiguous_meta({count}, self.dtype(), self.device());
}

void masked_scatter_kernel(Tensor& out, const Tensor& self, const Tensor& mask,
                           const Tensor& source) {
  copy_broadcast(out, self);
  Tensor values = contiguous_of(source);
  int64_t next = 0, n = numel_of(values);
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    for_each_chosen(out, mask, [&](int64_t at) {
      require(next < n, "masked_scatter: source has {} elements, the mask chooses more", n);
      data_of<T>(out)[at] = data_of<T>(values)[next++];
    });
  });
}

void masked_scatter_backward_kernel(Tensor& out, const Tensor& grad, const Tensor& mask,
                                    SymIntList) {
  fill_elements(out, 0);
  Tensor chosen = masked_select_kernel(grad, mask);
  int64_t bytes = std::min(numel_of(out), numel_of(chosen)) * itemsize(out.dtype());
  if (bytes > 0) std::memcpy(data_of<char>(out), data_of<char>(chosen), static_cast<size_t>(bytes));
}

}  // namespace

static constexpr OpDef index_masked_rows[] = {
    {.schema = "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
     .variants = in_place,
     .meta = [](const Tensor& self, const Tensor& mask,
                Number) { return masked_meta("masked_fill", self, mask); },
     .eager = fn<masked_fill_kernel>,
     .decomp =
         [](const Tensor& self, const Tensor& mask, Number value) {
           return filled_by_where(self, mask, full({}, value, self.dtype()));
         },
     .vjp = {{"self", "grad, mask",
              [](const Tensor& g, const Tensor& mask) { return g.masked_fill(mask, 0); }}},
     .linear = "self + value"},
    {.schema = "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
     .variants = in_place,
     .meta =
         [](const Tensor& self, const Tensor& mask, const Tensor& value) {
           require(value.dim() == 0,
                   "masked_fill: the value must be a tensor without dimensions, found shape {}",
                   value.sizes());
           require(
               is_complex(self.dtype()) || !is_complex(value.dtype()),
               "masked_fill: elements of {} cannot hold a value of {}; take its real part first",
               self.dtype(), value.dtype());
           return masked_meta("masked_fill", self, mask);
         },
     .eager = fn<fill_with_element_of>,
     .decomp =
         [](const Tensor& self, const Tensor& mask, const Tensor& value) {
           return filled_by_where(self, mask, to(value, self.dtype()));
         },
     .vjp = {{"self", "grad, mask",
              [](const Tensor& g, const Tensor& mask) { return g.masked_fill(mask, 0); }},
             {"value", "grad, mask",
              [](const Tensor& g, const Tensor& mask) {
                return g.masked_fill(mask.logical_not(), 0).sum();
              }}},
     .linear = "self + value"},
    {.schema = "masked_select(Tensor self, Tensor mask) -> Tensor",
     .tags = OpTags::data_dependent,
     .meta = fn<masked_select_meta>,
     .eager = fn<masked_select_kernel>,
     .vjp = {{"self", "grad, self.meta, mask",
              [](const Tensor& g, const Tensor& like, const Tensor& mask) {
                std::vector<Tensor> both = broadcast_tensors({g.new_zeros(like.sizes()), mask});
                return both[0].contiguous().masked_scatter(both[1], g);
              }}},
     .linear = "self"},
    {.schema = "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
     .variants = in_place,
     .core = true,
     .meta =
         [](const Tensor& self, const Tensor& mask, const Tensor& source) {
           require(source.dtype() == self.dtype(),
                   "masked_scatter: source must have dtype {}, found {}", self.dtype(),
                   source.dtype());
           return masked_meta("masked_scatter", self, mask);
         },
     .eager = fn<masked_scatter_kernel>,
     .vjp = {{"self", "grad, mask",
              [](const Tensor& g, const Tensor& mask) { return g.masked_fill(mask, 0); }},
             {"source", "grad, mask, source.sizes", fn<masked_scatter_backward>}},
     .linear = "self + source"},
    {.schema = "masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
     .meta =
         [](const Tensor& grad, const Tensor& mask, SymIntList sizes) {
           masked_meta("masked_scatter_backward", grad, mask);
           return contiguous_meta(sizes, grad.dtype(), grad.device());
         },
     .eager = fn<masked_scatter_backward_kernel>,
     .vjp = {{"grad_output", "grad, grad_output.sizes, mask",
              [](const Tensor& g, SymIntList sizes, const Tensor& mask) {
                return g.new_zeros(sizes).masked_scatter(mask, g);
              }}}},
};

extern constinit const OpFamily op_family_index_masked{index_masked_rows};

}  // namespace tenon::ops
