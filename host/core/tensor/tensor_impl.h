// The tensor object behind a handle, and how tensors are made: the core's own view of
// tenon/tensor.h.
#pragma once

#include <tenon/dtype.h>
#include "core/inline_vector.h"
#include "core/tensor/storage.h"

#include <tenon/tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

using Dims = InlineVector<SymInt, 6>;

inline SymIntList list_of(const Dims& dims) { return List<SymInt>(dims.data(), dims.size()); }
inline Dims dims_of(SymIntList list) { return Dims(list.begin(), list.end()); }

struct TensorImpl;

/// The fakes of a trace that a handle can still reach, by value id; null for the others.
struct TraceLife {
  std::vector<TensorImpl*> alive;
};

/// What the program says about a tensor, see mark_dynamic and so on in tenon/compile.h. Bit d of a
/// word is dimension d.
struct TensorMarks {
  struct Size {
    int64_t min = 0, max = INT64_MAX;
    std::string shape_id = {};  ///< sizes with the same one are equal
    std::optional<int64_t> cost_hint = {};
    /// Sizes for which one of these holds have code of their own.
    std::vector<std::function<SymBool(const SymInt&)>> special = {};
  };
  uint64_t dynamic = 0, maybe_dynamic = 0, fixed = 0, unbacked = 0;
  uint64_t strict = 0;      ///< of the unbacked ones
  std::vector<Size> sizes;  ///< by dimension, where there is more to say
  bool static_address = false, guards_address = false;

  Size size(size_t dim) const { return dim < sizes.size() ? sizes[dim] : Size(); }
};
/// Whether any tensor of the process was ever marked.
extern constinit std::atomic<bool> any_marks;

/// What tracing hangs on a tensor. Owned by the tensor.
struct TensorExtra {
  SymInt sym_offset;         ///< of fakes whose offset is symbolic
  uint64_t trace_id = 0;     ///< which trace a fake belongs to, 0 = none
  uint32_t trace_value = 0;  ///< its value in the graph of that trace
  std::shared_ptr<TraceLife> life;
  Tensor concrete;  ///< the real tensor of a fake whose segment has run
  std::unique_ptr<TensorMarks> marks;
  bool wrapped_number =
      false;  ///< made from a host number: takes part in promotion by category only

  ~TensorExtra() { leave_trace(); }
  void leave_trace() {
    if (life && trace_value < life->alive.size()) life->alive[trace_value] = nullptr;
  }
  void set_trace(uint64_t trace, uint32_t value, const std::shared_ptr<TraceLife>& trace_life,
                 TensorImpl* self) {
    leave_trace();
    trace_id = trace;
    trace_value = value;
    life = trace_life;
    if (life->alive.size() <= value) life->alive.resize(value + 1, nullptr);
    life->alive[value] = self;
  }
};

/// What autograd hangs on a tensor: autograd/grad_state.h. Owned by the tensor.
struct GradAttachment {
  virtual ~GradAttachment() = default;
};

/// Sizes and strides of up to six dimensions lie inline. Fakes with symbolic sizes keep the hints
/// in `sizes`, the words in the second half of `dims`.
struct TensorImpl : detail::TensorHead {
  /// Counts changes in place of what guards look at, from sizes to requires_grad: who has met the
  /// tensor, keeps it alive and finds the same count has met all of it.
  uint32_t n_changes = 0;
  StorageRef storage_ref;
  std::unique_ptr<TensorExtra> extra;
  std::unique_ptr<GradAttachment> grad;
  Tensor base;                ///< of a differentiable view: the tensor that is not a view
  uint64_t base_version = 0;  ///< the storage's version when the view was made or last looked at
  int64_t inline_dims[12];
  std::unique_ptr<int64_t[]> heap_dims;

  TensorExtra& ensure_extra() {
    if (!extra) extra = std::make_unique<TensorExtra>();
    return *extra;
  }
};

inline TensorImpl* impl_of(const Tensor& t) { return static_cast<TensorImpl*>(t.head()); }
/// Another reference to a tensor that somebody else keeps.
inline Tensor share(detail::TensorHead* head) {
  head->references.fetch_add(1, std::memory_order_relaxed);
  return Tensor::adopt(head);
}
/// What the program says about it, or null.
inline const TensorMarks* marks_of(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  return impl && impl->extra ? impl->extra->marks.get() : nullptr;
}
inline bool is_wrapped_number(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  return impl->extra && impl->extra->wrapped_number;
}

/// Sizes, strides (elements), dtype and device of a tensor that does not exist yet.
struct TensorMeta {
  Dtype dtype = Dtype::f32;
  Device device;
  Dims sizes;
  Dims strides;
  bool defined = true;
};

/// Row-major strides; sizes of 0 count as 1, as in ATen.
Dims contiguous_strides(SymIntList sizes);
/// Strides of a memory format; channels_last needs rank 4 (channels_last_3d rank 5).
Dims strides_for(SymIntList sizes, MemoryFormat format);
TensorMeta meta_of(const Tensor& t);
TensorMeta contiguous_meta(SymIntList sizes, Dtype dtype, Device device = kCPU);

/// A real tensor with uninitialised elements, on the CPU where no device is named. Throws UserError
/// on negative or overflowing sizes, and where there is no such device.
Tensor make_tensor(const TensorMeta& meta);
Tensor make_tensor(SymIntList sizes, SymIntList strides, Dtype dtype);
Tensor make_tensor(IntList sizes, Dtype dtype);
/// Row-major, of the shape of the real, contiguous tensor `like`: the short way of pointwise calls.
Tensor make_contiguous_like(const Tensor& like, Dtype dtype);
/// `from_memory` for memory of any device.
Tensor from_memory_on(Device device, void* data, IntList sizes, Dtype dtype, OptIntList strides,
                      void (*deleter)(void*), void* deleter_arg);
/// A fake tensor with storage of its own (or `storage`), never touching memory.
Tensor make_fake(const TensorMeta& meta, SymInt offset = 0, StorageRef storage = {});
/// Another tensor over the storage of `base`; works for fakes. Bounds are checked for real tensors.
Tensor make_view(const Tensor& base, SymIntList sizes, SymIntList strides, SymInt offset);
/// `make_view` with another dtype of the same storage (view.dtype, view_as_real, real).
Tensor make_view_as(const Tensor& base, Dtype dtype, SymIntList sizes, SymIntList strides,
                    SymInt offset);
/// Remembers that `view` shows memory of `of`, so that writes to one reach the history of the
/// other.
void track_view(const Tensor& view, const Tensor& of);
/// A 0-dim tensor for a number in a tensor's place; it does not raise the dtype within its
/// category.
Tensor wrapped_number_tensor(Number value);
/// Makes `t` the tensor that `other` describes, in place (set_, t_, resize_).
void replace_metadata(const Tensor& t, SymIntList sizes, SymIntList strides, SymInt offset);

/// Lets go of memory and history of a tensor of which the caller has the only handle; what it looked
/// like stays.
void hollow_out(const Tensor& t);

/// Makes a fake the tensor that `real` is: same storage, sizes and strides.
void become(const Tensor& fake, const Tensor& real);
/// Makes a fake what another one is, which belongs to no trace any more afterwards.
void become_fake(const Tensor& fake, const Tensor& other);

SymInt sym_offset_of(const Tensor& t);
/// Recomputes the flags for contiguity from sizes and strides.
void refresh_layout_flags(TensorImpl* impl);
bool shares_storage(const Tensor& a, const Tensor& b);
/// Where a tensor lies in its storage; offset in elements.
struct Extent {
  IntList sizes, strides;
  int64_t offset, itemsize;
};
Extent extent_of(const Tensor& t);
/// Elements from the lowest to the highest that sizes and strides reach; 0 when there are none.
int64_t span_of(IntList sizes, IntList strides);
/// Whether two extents of one storage may touch a common byte; exact for ranges and for column
/// blocks of one matrix, else conservative.
bool may_overlap(const Extent& a, const Extent& b);
/// Whether two tensors may share an element.
bool may_overlap(const Tensor& a, const Tensor& b);
/// True when two indices of `t` name the same element (stride 0 with size > 1, or folded strides).
bool has_internal_overlap(const Tensor& t);
/// Sets the flag and the dispatch key; autograd keeps what belongs to it.
void mark_requires_grad(const Tensor& t, bool value);
inline void bump_version(const Tensor& t) { ++impl_of(t)->storage_ref->version; }
/// Of the handle's own object, also while a body is traced.
inline uint64_t version_of(const Tensor& t) { return *impl_of(t)->version; }

}  // namespace tenon
