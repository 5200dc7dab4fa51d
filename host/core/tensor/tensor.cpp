// Tensors: making them, their metadata, views.
#include "core/tensor/tensor_impl.h"

#include "core/device/device_memory.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "core/tensor/allocator.h"
#include "core/tensor/exposure.h"
#include "core/tensor/layout_questions.h"
#include "core/tensor/stand_in.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace tenon {

constinit std::atomic<bool> any_marks{false};
namespace {

constexpr uint32_t inline_rank = 6;

// Points the size arrays at inline or heap memory for `rank` dimensions; `symbolic` needs two more
// arrays for the words.
void reserve_dims(TensorImpl* impl, size_t rank, bool symbolic) {
  size_t per_kind = rank * (symbolic ? 2 : 1);
  int64_t* dims = impl->inline_dims;
  if (per_kind > inline_rank) {
    impl->heap_dims = std::make_unique<int64_t[]>(2 * per_kind);
    dims = impl->heap_dims.get();
  }
  impl->ndim = static_cast<int32_t>(rank);
  impl->sizes = dims;
  impl->strides = dims + rank;
  impl->sym_sizes = reinterpret_cast<SymInt*>(dims + (symbolic ? 2 * rank : 0));
  impl->sym_strides = impl->sym_sizes + rank;
}

// The plain number that plugins and kernels see: the value or, of a symbol, its hint. A size known
// only at run time shows as 0.
int64_t hint_of(SymInt v) {
  if (!v.is_symbolic()) return v.word();
  ShapeEnv* env = current_shape_env();
  return env ? env->int_hint(v).value_or(0) : 0;
}

void write_dims(TensorImpl* impl, SymIntList sizes, SymIntList strides) {
  bool symbolic = sizes.is_symbolic() || strides.is_symbolic();
  size_t rank = sizes.size();
  reserve_dims(impl, rank, symbolic);
  auto* plain_sizes = const_cast<int64_t*>(impl->sizes);
  auto* plain_strides = const_cast<int64_t*>(impl->strides);
  impl->numel = 1;
  for (size_t i = 0; i < rank; ++i) {
    plain_sizes[i] = symbolic ? hint_of(sizes[i]) : sizes[i].word();
    plain_strides[i] = symbolic ? hint_of(strides[i]) : strides[i].word();
    if (__builtin_mul_overflow(impl->numel, plain_sizes[i], &impl->numel))
      fail("a tensor of shape {} has more elements than 64 bits count", sizes);
  }
  if (symbolic) {
    std::copy(sizes.begin(), sizes.end(), const_cast<SymInt*>(impl->sym_sizes));
    std::copy(strides.begin(), strides.end(), const_cast<SymInt*>(impl->sym_strides));
  }
}

// Most tensors that are made: of few dimensions, with elements, row-major. One pass writes sizes and
// strides and tells all that follows from them; false: the tensor is another one.
bool write_row_major(TensorImpl* impl, SymIntList sizes, SymIntList strides, int64_t& span) {
  size_t rank = sizes.size();
  if (rank > 3) return false;  // those of four and five may be channels-last, too
  reserve_dims(impl, rank, false);
  int64_t* dims = impl->inline_dims;
  int64_t expected = 1;
  for (size_t i = rank; i-- > 0;) {
    int64_t size = sizes[i].word(), stride = strides[i].word();
    if (size <= 0 || stride != expected || __builtin_mul_overflow(expected, size, &expected))
      return false;  // a symbol's word is below 0
    dims[i] = size;
    dims[rank + i] = stride;
  }
  impl->numel = span = expected;
  impl->flags |= TN_T_CONTIGUOUS;
  return true;
}

uint64_t device_key(Device device) {
  return device.type == DeviceType::cpu    ? bit(Key::cpu)
         : device.type == DeviceType::meta ? bit(Key::meta)
                                           : bit(Key::device);
}

TensorImpl* new_impl(Dtype dtype, Device device) {
  auto* impl = new (allocate(sizeof(TensorImpl))) TensorImpl;
  impl->struct_size = sizeof(tn_tensor);
  impl->dtype = static_cast<int32_t>(dtype);
  impl->device_type = static_cast<int32_t>(device.type);
  impl->device_index = device.index;
  impl->flags = 0;
  return impl;
}

void attach_storage(TensorImpl* impl, StorageRef storage, int64_t offset) {
  impl->storage_offset = offset;
  impl->storage = storage->data;
  impl->storage_bytes = storage->bytes;
  impl->storage_id = storage->id;
  impl->version = &storage->version;
  // A view of no elements may begin anywhere.
  auto start = static_cast<uint64_t>(offset) * itemsize(static_cast<Dtype>(impl->dtype));
  impl->data = storage->data
                   ? static_cast<char*>(storage->data) + std::min<uint64_t>(start, storage->bytes)
                   : nullptr;
  bool fake = storage->fake;
  impl->storage_ref = std::move(storage);
  if (fake) impl->flags |= TN_T_FAKE;
  impl->keys = fake ? bit(Key::meta)
                    : device_key({static_cast<DeviceType>(impl->device_type), impl->device_index});
  if (impl->flags & TN_T_REQUIRES_GRAD) impl->keys |= bit(Key::autograd);
}

// The short way of a new tensor on the CPU.
void attach_new_storage(TensorImpl* impl, uint64_t bytes) {
  StorageRef storage = make_storage(bytes);
  impl->storage_offset = 0;
  impl->data = impl->storage = storage->data;
  impl->storage_bytes = bytes;
  impl->storage_id = storage->id;
  impl->version = &storage->version;
  impl->keys = bit(Key::cpu);
  impl->storage_ref = std::move(storage);
}

IntList plain_sizes(const TensorImpl* t) { return {t->sizes, static_cast<size_t>(t->ndim)}; }
IntList plain_strides(const TensorImpl* t) { return {t->strides, static_cast<size_t>(t->ndim)}; }

bool is_symbolic(const TensorImpl* t) {
  return t->sym_sizes != reinterpret_cast<const SymInt*>(t->sizes);
}

// Whether the strides are those of a dense tensor whose dimensions lie in memory in the given
// order, innermost first: `dim_at(i)` for i below the rank. Dimensions of size 1 do not count.
// Symbolic strides are compared by what is known or guarded.
template <class DimAt>
bool is_dense(const TensorImpl* t, DimAt dim_at) {
  if (is_symbolic(t)) {
    SymInt expected = 1;
    for (int32_t i = 0; i < t->ndim; ++i) {
      SymInt size = t->sym_sizes[dim_at(i)];
      if (!size.is_symbolic() && size.word() == 1) continue;
      // Sizes are asked for last, so that dense tensors need no guard that a size is not 1.
      if (!holds_for_layout(t->sym_strides[dim_at(i)] == expected)) {
        if (!holds_for_layout(size == 1)) return false;
        continue;
      }
      expected = expected * sym_max(size, 1);  // as contiguous_strides() has it
    }
    return true;
  }
  int64_t expected = 1;
  for (int32_t i = 0; i < t->ndim; ++i) {
    int32_t dim = dim_at(i);
    if (t->sizes[dim] == 1) continue;
    if (t->strides[dim] != expected) return false;
    expected *= t->sizes[dim];
  }
  return true;
}

// A size that is a symbol counts as not 0: asking would add guards.
bool has_no_elements(const TensorImpl* t) {
  if (!is_symbolic(t)) return t->numel == 0;
  return std::any_of(t->sym_sizes, t->sym_sizes + t->ndim,
                     [](const SymInt& size) { return !size.is_symbolic() && size.word() == 0; });
}

bool is_row_major(const TensorImpl* t) {
  if (has_no_elements(t)) return true;
  return is_dense(t, [t](int32_t i) { return t->ndim - 1 - i; });
}

// Channels, then the spatial dimensions from the last on, then the batch.
bool is_channels_last(const TensorImpl* t) {
  if ((t->ndim != 4 && t->ndim != 5) || has_no_elements(t)) return false;
  return is_dense(t, [t](int32_t i) { return i == 0 ? 1 : i == t->ndim - 1 ? 0 : t->ndim - i; });
}

}  // namespace

int64_t span_of(IntList sizes, IntList strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      fail("a view of shape {} with strides {} reaches beyond 64 bits", sizes, strides);
  }
  int64_t span;
  if (__builtin_add_overflow(last, int64_t{1}, &span)) fail("a view reaches beyond 64 bits");
  return span;
}

void refresh_layout_flags(TensorImpl* impl) {
  impl->flags &= ~uint32_t{TN_T_CONTIGUOUS | TN_T_CHANNELS_LAST};
  if (is_row_major(impl)) impl->flags |= TN_T_CONTIGUOUS;
  if (is_channels_last(impl)) impl->flags |= TN_T_CHANNELS_LAST;
}

TensorMeta meta_of(const Tensor& t) {
  return {t.dtype(), t.device(), dims_of(t.sizes()), dims_of(t.strides())};
}

TensorMeta contiguous_meta(SymIntList sizes, Dtype dtype, Device device) {
  return {dtype, device, dims_of(sizes), contiguous_strides(sizes)};
}

namespace {

void require_plain(SymIntList sizes, SymIntList strides) {
  require(
      !sizes.is_symbolic() && !strides.is_symbolic(),
      "a tensor with data needs plain sizes and strides, found the shape {} and the strides {}; "
      "call guard_int() on the symbolic ones first",
      sizes, strides);
  for (SymInt s : sizes) require(s.word() >= 0, "a tensor cannot have a negative size: {}", sizes);
}

Tensor make_on(Device device, SymIntList sizes, SymIntList strides, Dtype dtype) {
  device.index = std::max(device.index, 0);  // -1 is the only one
  if (device.type == DeviceType::cpu) device = kCPU;
  Tensor t = Tensor::adopt(new_impl(dtype, device));
  TensorImpl* impl = impl_of(t);
  int64_t span, bytes;
  if (!write_row_major(impl, sizes, strides, span)) {
    require_plain(sizes, strides);
    write_dims(impl, sizes, strides);
    span = span_of(plain_sizes(impl), plain_strides(impl));
    refresh_layout_flags(impl);
  }
  if (__builtin_mul_overflow(span, static_cast<int64_t>(itemsize(dtype)), &bytes))
    fail("a tensor of shape {} and dtype {} does not fit into memory", sizes, dtype);
  auto wanted = static_cast<uint64_t>(bytes);
  if (device.type == DeviceType::cpu)
    attach_new_storage(impl, wanted);
  else
    attach_storage(impl, make_device_storage(device, wanted), 0);
  return t;
}

}  // namespace

Tensor make_tensor(const TensorMeta& meta) {
  return make_on(meta.device, list_of(meta.sizes), list_of(meta.strides), meta.dtype);
}

Tensor make_tensor(SymIntList sizes, SymIntList strides, Dtype dtype) {
  return make_on(kCPU, sizes, strides, dtype);
}

Tensor make_contiguous_like(const Tensor& like, Dtype dtype) {
  const TensorImpl* from = impl_of(like);
  Tensor t = Tensor::adopt(new_impl(dtype, kCPU));
  TensorImpl* impl = impl_of(t);
  reserve_dims(impl, static_cast<size_t>(from->ndim), false);
  auto* sizes = const_cast<int64_t*>(impl->sizes);
  auto* strides = const_cast<int64_t*>(impl->strides);
  int64_t running = 1;
  for (int32_t d = from->ndim; d-- > 0;) {
    sizes[d] = from->sizes[d];
    strides[d] = running;
    running *= std::max<int64_t>(sizes[d], 1);
  }
  impl->numel = from->numel;
  int64_t bytes;
  if (__builtin_mul_overflow(impl->numel, static_cast<int64_t>(itemsize(dtype)), &bytes))
    fail("a tensor of shape {} and dtype {} does not fit into memory", like.sizes(), dtype);
  attach_new_storage(impl, static_cast<uint64_t>(bytes));
  impl->flags |= TN_T_CONTIGUOUS;
  if (is_channels_last(impl)) impl->flags |= TN_T_CHANNELS_LAST;
  return t;
}

Tensor make_tensor(IntList sizes, Dtype dtype) {
  SymIntList wanted(sizes);
  return make_tensor(wanted, list_of(contiguous_strides(wanted)), dtype);
}

Tensor make_fake(const TensorMeta& meta, SymInt offset, StorageRef storage) {
  for (SymInt s : meta.sizes)
    require(s.is_symbolic() || s.word() >= 0, "a tensor cannot have a negative size: {}",
            list_of(meta.sizes));
  Tensor t = Tensor::adopt(new_impl(meta.dtype, meta.device));
  TensorImpl* impl = impl_of(t);
  write_dims(impl, list_of(meta.sizes), list_of(meta.strides));
  attach_storage(impl, storage ? std::move(storage) : make_fake_storage(meta.device),
                 hint_of(offset));
  if (offset.is_symbolic()) impl->ensure_extra().sym_offset = offset;
  refresh_layout_flags(impl);
  return t;
}

Tensor make_view_as(const Tensor& base, Dtype dtype, SymIntList sizes, SymIntList strides,
                    SymInt offset) {
  TensorImpl* from = impl_of(base);
  Tensor t = Tensor::adopt(new_impl(dtype, base.device()));
  TensorImpl* impl = impl_of(t);
  write_dims(impl, sizes, strides);
  if (!base.is_fake()) {
    int64_t span = span_of(plain_sizes(impl), plain_strides(impl));
    int64_t first = offset.guard_int(), end, bytes;
    require(first >= 0 && !__builtin_add_overflow(first, span, &end) &&
                !__builtin_mul_overflow(end, static_cast<int64_t>(itemsize(dtype)), &bytes) &&
                static_cast<uint64_t>(span ? bytes : 0) <= from->storage_bytes,
            "a view of shape {}, strides {} and offset {} lies outside of a storage of {} bytes",
            sizes, strides, first, from->storage_bytes);
  }
  attach_storage(impl, from->storage_ref, hint_of(offset));
  if (offset.is_symbolic()) impl->ensure_extra().sym_offset = offset;
  refresh_layout_flags(impl);
  return t;
}

Tensor make_view(const Tensor& base, SymIntList sizes, SymIntList strides, SymInt offset) {
  return make_view_as(base, base.dtype(), sizes, strides, offset);
}

namespace {

// Floating numbers are seen as themselves, as pairs or as parts of complex ones.
bool shows_numbers_of(Dtype seen, Dtype stored) {
  if (seen == stored) return true;
  return is_differentiable(seen) && is_differentiable(stored) &&
         is_complex(seen) != is_complex(stored);
}

}  // namespace

void track_view(const Tensor& view, const Tensor& of) {
  TensorImpl* impl = impl_of(view);
  const Tensor* object = stands_for(of);
  const Tensor& shown = object ? *object : of;
  const Tensor& base = impl_of(shown)->base.defined() ? impl_of(shown)->base : shown;
  if (!shares_storage(view, of) || !shows_numbers_of(view.dtype(), base.dtype())) return;
  ++impl->n_changes;
  impl->base = base;
  impl->base_version = *impl->version;
}

Tensor wrapped_number_tensor(Number value) {
  ensure(!value.is_symbolic(), "a wrapped number needs a plain value");
  Dtype dtype = value.is_integer() ? Dtype::i64 : value.is_boolean() ? Dtype::bool_ : Dtype::f64;
  Tensor t = make_tensor(IntList{}, dtype);
  if (value.is_boolean())
    *static_cast<bool*>(impl_of(t)->data) = value.to_bool();
  else
    *static_cast<int64_t*>(impl_of(t)->data) = value.word();
  impl_of(t)->ensure_extra().wrapped_number = true;
  return t;
}

void replace_metadata(const Tensor& t, SymIntList sizes, SymIntList strides, SymInt offset) {
  TensorImpl* impl = impl_of(t);
  ++impl->n_changes;
  Dims new_sizes = dims_of(sizes),
       new_strides = dims_of(strides);  // they may lie in the old arrays
  write_dims(impl, list_of(new_sizes), list_of(new_strides));
  attach_storage(impl, std::move(impl->storage_ref), hint_of(offset));
  if (offset.is_symbolic()) impl->ensure_extra().sym_offset = offset;
  refresh_layout_flags(impl);
}

void hollow_out(const Tensor& t) {
  TensorImpl* impl = impl_of(t);
  if (t.requires_grad()) impl->flags |= TN_T_REQUIRES_GRAD;  // a view asks its base
  attach_storage(impl, make_fake_storage(t.device()), impl->storage_offset);
  impl->base = Tensor();
  impl->grad.reset();
}

void become(const Tensor& fake, const Tensor& real) {
  TensorImpl* impl = impl_of(fake);
  ++impl->n_changes;
  impl->flags &= ~uint32_t{TN_T_FAKE};
  write_dims(impl, real.sizes(), real.strides());
  attach_storage(impl, impl_of(real)->storage_ref, real.storage_offset());
  refresh_layout_flags(impl);
  impl->extra.reset();
}

void become_fake(const Tensor& fake, const Tensor& other) {
  TensorImpl *impl = impl_of(fake), *from = impl_of(other);
  ++impl->n_changes;
  write_dims(impl, other.sizes(), other.strides());
  attach_storage(impl, from->storage_ref, from->storage_offset);
  impl->flags = from->flags;
  impl->keys = from->keys;
  impl->extra = std::move(from->extra);
}

SymInt sym_offset_of(const Tensor& t) {
  TensorImpl* impl = impl_of(t);
  if (impl->extra && impl->extra->sym_offset.is_symbolic()) return impl->extra->sym_offset;
  return impl->storage_offset;
}

bool shares_storage(const Tensor& a, const Tensor& b) {
  return impl_of(a)->storage_ref.get() == impl_of(b)->storage_ref.get();
}

namespace detail {

void destroy(TensorHead* head) {
  auto* impl = static_cast<TensorImpl*>(head);
  impl->~TensorImpl();
  deallocate(impl, sizeof(TensorImpl));
}

}  // namespace detail

SymInt Tensor::numel() const {
  if (!defined()) detail::fail_undefined("numel");
  SymInt n = 1;
  for (SymInt s : sizes()) n = n * s;
  return n;
}

bool detail::view_requires_grad(const Tensor& view) {
  if (written_fake_of(view).defined()) return true;
  return (impl_of(view)->flags & TN_T_REQUIRES_GRAD) || (stale_view_slot && stale_view_slot(view));
}

void mark_requires_grad(const Tensor& t, bool value) {
  TensorImpl* impl = impl_of(t);
  ++impl->n_changes;
  impl->flags =
      value ? impl->flags | TN_T_REQUIRES_GRAD : impl->flags & ~uint32_t{TN_T_REQUIRES_GRAD};
  impl->keys = value ? impl->keys | bit(Key::autograd) : impl->keys & ~bit(Key::autograd);
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (!defined()) detail::fail_undefined("is_contiguous");
  if (format == MemoryFormat::contiguous || format == MemoryFormat::preserve)
    return head_->flags & TN_T_CONTIGUOUS;
  return (head_->flags & TN_T_CHANNELS_LAST) &&
         dim() == (format == MemoryFormat::channels_last ? 4 : 5);
}

void detail::fail_undefined(const char* accessor) {
  fail(
      "{}: the tensor is undefined, expected one that is there; a Tensor without a value and "
      "grad() before the first backward pass are undefined",
      accessor);
}

void Tensor::fail_dim(int64_t dim) const {
  int64_t rank = head_->ndim;
  if (rank == 0) fail("dimension {} is out of range: the tensor has no dimensions", dim);
  fail("dimension {} is out of range: a tensor with {} dimensions takes {} to {}", dim, rank, -rank,
       rank - 1);
}

Tensor from_memory(void* data, IntList sizes, Dtype dtype, OptIntList strides,
                   void (*deleter)(void*), void* deleter_arg) {
  return from_memory_on(kCPU, data, sizes, dtype, strides, deleter, deleter_arg);
}

Tensor from_memory_on(Device device, void* data, IntList sizes, Dtype dtype, OptIntList strides,
                      void (*deleter)(void*), void* deleter_arg) {
  TensorMeta meta = contiguous_meta(sizes, dtype);
  if (strides) {
    require(strides->size() == sizes.size(), "from_memory: {} sizes but {} strides", sizes.size(),
            strides->size());
    meta.strides = dims_of(SymIntList(*strides));
  }
  for (size_t i = 0; i < sizes.size(); ++i)
    require(sizes[i] >= 0 && meta.strides[i].word() >= 0,
            "from_memory: sizes and strides must not be negative: sizes {}, strides {}", sizes,
            list_of(meta.strides));
  Tensor t = Tensor::adopt(new_impl(dtype, device));
  TensorImpl* impl = impl_of(t);
  write_dims(impl, list_of(meta.sizes), list_of(meta.strides));
  uint64_t bytes =
      static_cast<uint64_t>(span_of(plain_sizes(impl), plain_strides(impl))) * itemsize(dtype);
  attach_storage(impl, make_borrowed_storage(data, bytes, device, deleter, deleter_arg), 0);
  refresh_layout_flags(impl);
  if (thread_modes.tracer && memory_lent_slot) memory_lent_slot(t);
  return t;
}

}  // namespace tenon
