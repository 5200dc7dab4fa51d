// SPDX-License-Identifier: Apache-2.0
// Tensor: a counted handle to an n-dimensional array of one dtype on one device.
//
// Copying a Tensor copies the handle; `clone()` copies the data. Views (`t.transpose(0, 1)`,
// `t.slice(...)`) share the storage. Operations are the methods and free functions of
// <tenon/ops.h>, under their ATen names.
//
// Threads: handles may be copied and released anywhere. Reading a tensor from several threads is
// safe, writing needs the caller's synchronisation.
#pragma once

#include <tenon/plugin.h>
#include <tenon/types.h>

#include <atomic>
#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <tuple>
#include <utility>

#include <tenon/result_names.inc>

namespace tenon {

class Tensor;
using TensorList = List<Tensor>;
template <class T>
class Scalar;  // what item<T>() gives: a number that stays lazy while a function is traced

namespace detail {

/// The front of every tensor object: what plugins may read, then what handles need inline.
struct TensorHead : tn_tensor {
  std::atomic<int32_t> references{1};
  uint32_t rank_of_inline_sizes = 0;  ///< capacity of the inline sizes; internal
  uint64_t keys = 0;                  ///< dispatch keys, core/dispatch.h
  const SymInt* sym_sizes = nullptr;  ///< the words of `sizes`, or expressions while tracing
  const SymInt* sym_strides = nullptr;
};
TENON_API void destroy(TensorHead* head);
/// Drops a reference; whether it was the last. Who holds the only one needs no locked write: nobody
/// else can count then.
inline bool drops_last(std::atomic<int32_t>& references) {
  return references.load(std::memory_order_acquire) == 1 ||
         references.fetch_sub(1, std::memory_order_acq_rel) == 1;
}
[[noreturn]] TENON_API void fail_undefined(const char* accessor);
/// Of a view without the flag: whether a write to its base has brought the need.
TENON_API bool view_requires_grad(const Tensor& view);
/// Of two handles of different heads: whether a compiled body was given one for the other.
TENON_API bool stand_for_one(const Tensor& a, const Tensor& b);
TENON_API int64_t item_int(const Tensor& t, std::source_location where);
TENON_API double item_double(const Tensor& t, std::source_location where);
TENON_API bool item_bool(const Tensor& t, std::source_location where);
/// Of a fake: whether the body looked at it here when it was recorded, so that it is read at once.
TENON_API bool is_looked_at(const Tensor& fake);
/// The element, read as `dtype`, as a symbol where a trace takes it in; else nothing.
TENON_API std::optional<Number> item_symbol(const Tensor& t, Dtype dtype);
/// Of a fake, where the tensor that it stands for in this call begins.
TENON_API int64_t offset_of_fake(const Tensor& fake);
TENON_API uint64_t version_now(const Tensor& t, std::source_location where);

}  // namespace detail

class TENON_API Tensor {
 public:
  Tensor() noexcept {}  ///< undefined: the value of an absent optional argument
  Tensor(const Tensor& other) : head_(other.head_) {
    if (head_) head_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : head_(std::exchange(other.head_, nullptr)) {}
  Tensor& operator=(Tensor other) & noexcept {
    std::swap(head_, other.head_);
    return *this;
  }
  /// `x[0] = y`: assigning to what an expression gives writes its elements, as copy_ and fill_ do.
  void operator=(const Tensor& values) &&;
  void operator=(Number value) &&;
  ~Tensor() {
    if (head_ && detail::drops_last(head_->references)) detail::destroy(head_);
  }

  bool defined() const { return head_ != nullptr; }
  // What follows throws UserError for an undefined tensor.
  Dtype dtype() const { return static_cast<Dtype>(there("dtype")->dtype); }
  Device device() const {
    const detail::TensorHead* head = there("device");
    return {static_cast<DeviceType>(head->device_type), head->device_index};
  }
  int64_t dim() const { return there("dim")->ndim; }
  SymIntList sizes() const {
    const detail::TensorHead* head = there("sizes");
    return {head->sym_sizes, static_cast<size_t>(head->ndim)};
  }
  SymIntList strides() const {
    const detail::TensorHead* head = there("strides");
    return {head->sym_strides, static_cast<size_t>(head->ndim)};
  }
  SymInt size(int64_t dim) const { return there("size")->sym_sizes[wrap(dim)]; }
  SymInt stride(int64_t dim) const { return there("stride")->sym_strides[wrap(dim)]; }
  SymInt numel() const;
  int64_t storage_offset() const {
    const detail::TensorHead* head = there("storage_offset");
    return head->flags & TN_T_FAKE ? detail::offset_of_fake(*this) : head->storage_offset;
  }
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_complex() const { return tenon::is_complex(dtype()); }
  bool requires_grad() const {
    return (there("requires_grad")->flags & TN_T_REQUIRES_GRAD) ||
           detail::view_requires_grad(*this);
  }
  /// Marks a leaf as one that gradients are wanted for. Throws UserError for dtypes that are not
  /// floating, and for false on a tensor that an op has made: `detach()` that one.
  const Tensor& requires_grad_(bool value = true,
                               std::source_location where = std::source_location::current()) const;
  /// The gradient that backward passes have added up, undefined before the first. Of leaves, and of
  /// tensors after `retain_grad()`.
  Tensor grad() const;
  /// Replaces the gradient; an undefined one clears it. Throws UserError unless it has the shape,
  /// dtype and device of this tensor.
  void set_grad(const Tensor& gradient,
                std::source_location where = std::source_location::current()) const;
  /// Adds the derivative of this tensor, weighted with `gradient` (of its shape; left out for one
  /// element: 1), to `grad()` of the leaves. The tape is freed as it is walked, unless it is to be
  /// kept; with `create_graph` the gradients have a tape of their own. See <tenon/autograd.h>.
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = {},
                bool create_graph = false,
                std::source_location where = std::source_location::current()) const;
  /// True for tensors that no recorded op has made.
  bool is_leaf() const;
  /// Keeps the gradient of a tensor that is not a leaf, too.
  void retain_grad() const;
  /// True when nothing but metadata is there: a tensor inside a trace, or on the meta device.
  bool is_fake() const { return there("is_fake")->flags & TN_T_FAKE; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
  /// How often the storage was written; views of one storage share the counter. Inside a trace this
  /// is a host read, and several writes of one compiled segment may count once.
  uint64_t version(std::source_location where = std::source_location::current()) const {
    static_cast<void>(there("version"));
    return detail::version_now(*this, where);
  }
  /// True when both handles name the same tensor object, as they do in a plain run: inside of a
  /// compiled body, and of what it keeps, too.
  bool is_same(const Tensor& other) const {
    return head_ == other.head_ || (head_ && other.head_ && detail::stand_for_one(*this, other));
  }

  /// Address of the first element, for reading and writing on the CPU. T must be the dtype's type.
  /// Inside a trace this is a host read: see `tenon::compile`.
  template <class T>
  T* data_ptr(std::source_location where = std::source_location::current()) const {
    return static_cast<T*>(checked_data(dtype_of<std::remove_const_t<T>>, where));
  }
  void* data(std::source_location where = std::source_location::current()) const;
  /// The elements in row-major order.
  template <class T>
  std::vector<T> to_vector(std::source_location where = std::source_location::current()) const {
    auto n = static_cast<size_t>(numel().guard_int());
    if constexpr (std::is_same_v<T, bool>) {  // whose vector has no elements to point to
      auto elements = std::make_unique<bool[]>(n);
      copy_out(elements.get(), dtype_of<T>, where);
      return std::vector<T>(elements.get(), elements.get() + n);
    } else {
      std::vector<T> out(n);
      copy_out(out.data(), dtype_of<T>, where);
      return out;
    }
  }
  /// The one element as a number of the host. While tracing it stays lazy until it is looked at.
  template <class T>
  Scalar<T> item(std::source_location where = std::source_location::current()) const;
  /// `if (t)`: the truth of a tensor with one element.
  explicit operator bool() const { return detail::item_bool(*this, {}); }

  Tensor& operator+=(const Tensor& other);
  Tensor& operator-=(const Tensor& other);
  Tensor& operator*=(const Tensor& other);
  Tensor& operator/=(const Tensor& other);
  Tensor& operator+=(Number other);
  Tensor& operator-=(Number other);
  Tensor& operator*=(Number other);
  Tensor& operator/=(Number other);

  /// The view select(0, index): a row of a matrix.
  Tensor operator[](SymInt index) const;
  /// The elements that a tensor of indices or a mask chooses, as index() does: a copy, and const, so
  /// that `x[mask] = 0` is refused, which would write to that copy.
  const Tensor operator[](const Tensor& index) const;  // NOLINT: const on purpose
#define TENON_REFUSED_ASSIGNMENT(Values)                                                          \
  template <bool may_assign = false>                                                              \
  void operator=(Values) const&& {                                                                \
    static_assert(may_assign,                                                                     \
                  "x[index] with a tensor is a copy of the elements, so assigning to it changes " \
                  "nothing; write x.index_put_({index}, values) or x.masked_fill_(mask, value)"); \
  }
  TENON_REFUSED_ASSIGNMENT(const Tensor&)
  TENON_REFUSED_ASSIGNMENT(Number)
#undef TENON_REFUSED_ASSIGNMENT

#include <tenon/tensor_methods.inc>
  /// On another device, of the same dtype.
  Tensor to(Device device, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> memory_format = std::nullopt) const {
    return to(device, dtype(), non_blocking, copy, memory_format);
  }
  // An integer is a size or a dimension here, rather than a list of one.
  template <std::integral T>
  std::vector<Tensor> split(T split_size, int64_t dim = 0) const {
    return split(SymInt(split_size), dim);
  }
  template <std::integral T>
  std::vector<Tensor> tensor_split(T sections, int64_t dim = 0) const {
    return tensor_split(SymInt(sections), dim);
  }
  template <std::integral T>
  Tensor count_nonzero(T dim) const {
    return count_nonzero(std::optional<int64_t>(dim));
  }

  detail::TensorHead* head() const { return head_; }
  static Tensor adopt(detail::TensorHead* head) {
    Tensor t;
    t.head_ = head;
    return t;
  }
  detail::TensorHead* release() { return std::exchange(head_, nullptr); }

 private:
  int64_t wrap(int64_t dim) const {
    int64_t rank = head_->ndim, wrapped = dim < 0 ? dim + rank : dim;
    if (wrapped < 0 || wrapped >= rank) [[unlikely]]
      fail_dim(dim);
    return wrapped;
  }
  /// The head, for the accessor of that name.
  const detail::TensorHead* there(const char* accessor) const {
    if (!head_) [[unlikely]]
      detail::fail_undefined(accessor);
    return head_;
  }
  [[noreturn]] void fail_dim(int64_t dim) const;
  void* checked_data(Dtype wanted, std::source_location where) const;
  void copy_out(void* to, Dtype wanted, std::source_location where) const;

  detail::TensorHead* head_ = nullptr;
};

#include <tenon/results.inc>

// Elementwise operators, the ops of the same meaning: x + y is add(x, y). A number keeps its
// category.
#define TENON_TENSOR_OPERATOR(symbol)                                 \
  TENON_API Tensor operator symbol(const Tensor& a, const Tensor& b); \
  TENON_API Tensor operator symbol(const Tensor& a, Number b);        \
  TENON_API Tensor operator symbol(Number a, const Tensor& b);
TENON_TENSOR_OPERATOR(+)
TENON_TENSOR_OPERATOR(-)
TENON_TENSOR_OPERATOR(*)
TENON_TENSOR_OPERATOR(/)
TENON_TENSOR_OPERATOR(%)
TENON_TENSOR_OPERATOR(==)
TENON_TENSOR_OPERATOR(!=)
TENON_TENSOR_OPERATOR(<)
TENON_TENSOR_OPERATOR(<=)
TENON_TENSOR_OPERATOR(>)
TENON_TENSOR_OPERATOR(>=)
TENON_TENSOR_OPERATOR(&)
TENON_TENSOR_OPERATOR(|)
TENON_TENSOR_OPERATOR(^)
#undef TENON_TENSOR_OPERATOR
TENON_API Tensor operator-(const Tensor& a);
TENON_API Tensor operator~(const Tensor& a);
TENON_API Tensor operator!(const Tensor& a);

inline Tensor to(const Tensor& self, Device device, bool non_blocking = false, bool copy = false,
                 std::optional<MemoryFormat> memory_format = std::nullopt) {
  return self.to(device, non_blocking, copy, memory_format);
}
template <std::integral T>
std::vector<Tensor> split(const Tensor& self, T split_size, int64_t dim = 0) {
  return self.split(split_size, dim);
}
template <std::integral T>
std::vector<Tensor> tensor_split(const Tensor& self, T sections, int64_t dim = 0) {
  return self.tensor_split(sections, dim);
}
template <std::integral T>
Tensor count_nonzero(const Tensor& self, T dim) {
  return self.count_nonzero(dim);
}

/// randint(low, high, size), where `size` stands in braces: `{}` is one number, rather than no dtype.
TENON_API Tensor randint(SymInt low, SymInt high, std::initializer_list<SymInt> size);

/// A tensor over memory of the caller, which must outlive it; `deleter` (if any) runs with the last
/// reference. Strides are row-major unless given, in elements.
TENON_API Tensor from_memory(void* data, IntList sizes, Dtype dtype, OptIntList strides = {},
                             void (*deleter)(void*) = nullptr, void* deleter_arg = nullptr);
namespace detail {
TENON_API Tensor tensor_from_bytes(const void* values, size_t count, IntList sizes, Dtype dtype);
TENON_API Tensor tensor_from_rows(const std::vector<Tensor>& rows);
/// Integers in braces are i64, as in PyTorch; numbers of other types keep theirs.
template <class T>
using LiteralOf = std::conditional_t<std::is_same_v<T, int>, int64_t, T>;
template <class T>
concept Element = std::is_arithmetic_v<T> || std::same_as<T, Half> || std::same_as<T, BFloat16>;
}  // namespace detail

/// A tensor with a copy of `values`, row-major, of the dtype of T.
template <class T>
Tensor tensor(const std::vector<T>& values, IntList sizes) {
  return detail::tensor_from_bytes(values.data(), values.size(), sizes, dtype_of<T>);
}
template <detail::Element T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, IntList{static_cast<int64_t>(values.size())});
}
/// Lists of lists; throws UserError where rows differ in length.
template <class T>
Tensor tensor(const std::vector<std::vector<T>>& rows) {
  if (rows.empty()) return tensor(std::vector<T>());
  std::vector<Tensor> tensors;
  for (const std::vector<T>& row : rows) tensors.push_back(tensor(row));
  return detail::tensor_from_rows(tensors);
}
/// A tensor without dimensions: tensor(3.0). An int becomes i64.
template <detail::Element T>
Tensor tensor(T value) {
  auto element = static_cast<detail::LiteralOf<T>>(value);
  return detail::tensor_from_bytes(&element, 1, IntList(), dtype_of<detail::LiteralOf<T>>);
}
/// A list of numbers: tensor({1, 2, 3}) is i64[3], tensor({1.0f, 2.0f}) f32[2].
template <detail::Element T>
Tensor tensor(std::initializer_list<T> values) {
  const std::array<int64_t, 1> sizes{static_cast<int64_t>(values.size())};
  if constexpr (std::is_same_v<T, int>) {
    std::vector<int64_t> elements(values.begin(), values.end());
    return tensor(elements, sizes);
  } else {
    return detail::tensor_from_bytes(values.begin(), values.size(), sizes, dtype_of<T>);
  }
}
/// Lists of lists: tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}). Throws UserError where rows differ in length.
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows) {
  std::vector<Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(tensor(row));
  return detail::tensor_from_rows(tensors);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> rows) {
  std::vector<Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(tensor(row));
  return detail::tensor_from_rows(tensors);
}

/// "f32[2, 3]" with strides where they are not row-major.
TENON_API std::string to_text(const Tensor& t);
TENON_API std::string symbolic_text(const Tensor& t);

/// Writes the elements with brackets, as `tensor([[1, 2], [3, 4]])`, and the dtype unless it is f32,
/// i64 or bool; of more than 1000 elements three at each end. In a compiled body this is a look at
/// data: what is printed is what is there at that point of a plain call.
TENON_API std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace tenon
