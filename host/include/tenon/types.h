// SPDX-License-Identifier: Apache-2.0
// Small value types of the public API: device, layout, numbers and borrowed lists.
#pragma once

#include <tenon/dtype.h>
#include <tenon/half.h>
#include <tenon/sym.h>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon {

namespace detail {
template <class T>
consteval Dtype dtype_for() {
  if constexpr (std::is_same_v<T, float>)
    return Dtype::f32;
  else if constexpr (std::is_same_v<T, double>)
    return Dtype::f64;
  else if constexpr (std::is_same_v<T, Half>)
    return Dtype::f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return Dtype::bf16;
  else if constexpr (std::is_same_v<T, bool>)
    return Dtype::bool_;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return Dtype::u8;
  else {
    static_assert(std::is_integral_v<T> && std::is_signed_v<T>, "no dtype has this element type");
    return sizeof(T) == 1   ? Dtype::i8
           : sizeof(T) == 2 ? Dtype::i16
           : sizeof(T) == 4 ? Dtype::i32
                            : Dtype::i64;
  }
}
}  // namespace detail

/// The dtype whose elements are T: `dtype_of<float>` is Dtype::f32.
template <class T>
inline constexpr Dtype dtype_of = detail::dtype_for<T>();

enum class DeviceType : int32_t { cpu = 0, cuda = 1, meta = 2 };

/// Where a tensor lives. Numbers from 16 upward are handed out by name when a plugin brings a
/// device.
struct Device {
  DeviceType type = DeviceType::cpu;
  int32_t index = 0;
  constexpr Device() = default;
  constexpr Device(DeviceType t, int32_t i = 0) : type(t), index(i) {}  // NOLINT
  /// Device("cuda:1"). Throws UserError for a text that names none.
  template <std::convertible_to<std::string_view> T>
  requires(!std::is_null_pointer_v<T>) explicit Device(const T& text) : Device(from_text(text)) {}
  friend constexpr bool operator==(Device, Device) = default;

 private:
  TENON_API static Device from_text(std::string_view text);
};
inline constexpr Device kCPU{DeviceType::cpu};
/// "cpu", "cuda", "cuda:1", "meta", "device16:0"; nothing: the text names no device. Whether there is
/// one is not asked.
TENON_API std::optional<Device> parse_device(std::string_view text);

/// The numbers are ATen's.
enum class Layout : int8_t { strided = 0, sparse = 1 };
enum class MemoryFormat : int8_t {
  contiguous = 0,
  preserve = 1,
  channels_last = 2,
  channels_last_3d = 3
};

TENON_API std::string to_text(Device device);
TENON_API std::string to_text(MemoryFormat format);

/// ATen's `Scalar`: an integer, double or bool that keeps its category, or a symbolic one.
class Number {
 public:
  enum class Kind : uint16_t { integer, floating, boolean };

  constexpr Number() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Number(T value) {  // NOLINT: implicit by design
    if constexpr (std::is_same_v<T, bool>) {
      kind_ = Kind::boolean;
      word_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      word_ = SymInt(value).word();
    } else {
      kind_ = Kind::floating;
      word_ = std::bit_cast<int64_t>(static_cast<double>(value));
    }
  }
  Number(SymInt value) : word_(value.word()) {}  // NOLINT
  Number(SymFloat value)                         // NOLINT
      : kind_(Kind::floating),
        symbolic_(value.is_symbolic()),
        word_(value.is_symbolic() ? std::bit_cast<int64_t>(value.expr())
                                  : std::bit_cast<int64_t>(double(value))) {}
  Number(SymBool value)  // NOLINT
      : kind_(Kind::boolean),
        symbolic_(value.is_symbolic()),
        word_(value.is_symbolic() ? std::bit_cast<int64_t>(value.expr()) : bool(value)) {}

  Kind kind() const { return kind_; }
  bool is_integer() const { return kind_ == Kind::integer; }
  bool is_floating() const { return kind_ == Kind::floating; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_symbolic() const {
    return kind_ == Kind::integer ? SymInt::from_word(word_).is_symbolic() : symbolic_;
  }
  /// The value in each category; a symbolic one is guarded only by the plain conversions below.
  TENON_API SymInt sym_int() const;
  TENON_API SymFloat sym_float() const;
  TENON_API SymBool sym_bool() const;
  int64_t to_int() const { return sym_int().guard_int(); }
  double to_double() const { return sym_float().guard_float(); }
  bool to_bool() const { return sym_bool().guard_bool(); }
  int64_t word() const { return word_; }
  static Number from_word(Kind kind, bool symbolic, int64_t word) {
    Number n;
    n.kind_ = kind;
    n.symbolic_ = symbolic;
    n.word_ = word;
    return n;
  }

 private:
  Kind kind_ = Kind::integer;
  bool symbolic_ = false;  // for floating and boolean; an integer carries it in its word
  int64_t word_ = 0;
};
TENON_API std::string to_text(Number value);
TENON_API std::string symbolic_text(Number value);

/// A borrowed view of consecutive values; made from braces, vectors, arrays or one value. Valid as
/// long as what it was made from, so never store one.
template <class T>
class List {
 public:
  constexpr List() = default;
  /// A literal 0 is no address: `x.index({0, 1})` would be one.
  template <class P>
  requires(
      (std::is_pointer_v<P> ||
       std::is_null_pointer_v<P>)&&std::is_convertible_v<P, const T*>) constexpr List(P data,
                                                                                      size_t size)
      : data_(data), size_(size) {}
// A list made from braces lives until the call that takes it returns, which g++ warns of.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
#endif
  constexpr List(std::initializer_list<T> values)  // NOLINT: for arguments of a call
      : data_(values.begin()), size_(values.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  template <class A>
  List(const std::vector<T, A>& values) : data_(values.data()), size_(values.size()) {}  // NOLINT
  template <size_t N>
  constexpr List(const std::array<T, N>& values) : data_(values.data()), size_(N) {}  // NOLINT
  constexpr List(const T& one) : data_(&one), size_(1) {}                             // NOLINT

  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  List slice(size_t from) const { return {data_ + from, size_ - from}; }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

using IntList = List<int64_t>;

/// Sizes: a list of SymInt, also made from plain integers, whose words are the same, and from one.
/// Throws UserError for one below -2^62, as SymInt does.
class SymIntList : public List<SymInt> {
  /// Holds the one size of a list, as a temporary of the call that the list is an argument of.
  struct One {
    SymInt size;
  };

 public:
  using List<SymInt>::List;
  SymIntList() = default;
  SymIntList(List<SymInt> values) : List(values) {}                                // NOLINT
  SymIntList(IntList values) : List(words_of(values), values.size()) {}            // NOLINT
  SymIntList(const std::vector<int64_t>& values) : SymIntList(IntList(values)) {}  // NOLINT
  template <std::integral T>
  requires(!std::same_as<T, bool>) SymIntList(T size, One&& one = One{})  // NOLINT: x.view(6)
      : List(&(one.size = size), 1) {}
  bool is_symbolic() const {
    for (SymInt v : *this)
      if (v.is_symbolic()) return true;
    return false;
  }

 private:
  static const SymInt* words_of(IntList values) {
    for (int64_t v : values) static_cast<void>(SymInt(v));  // asks for the range
    return reinterpret_cast<const SymInt*>(values.data());
  }
};

/// A list or nothing, for schema types such as `int[]?`; made from braces, unlike std::optional.
template <class L, class T>
class OptList {
 public:
  constexpr OptList() = default;
  constexpr OptList(std::nullopt_t) {}                                               // NOLINT
  constexpr OptList(L list) : list_(list), has_(true) {}                             // NOLINT
  constexpr OptList(std::initializer_list<T> values) : list_(values), has_(true) {}  // NOLINT
  OptList(const std::vector<T>& values) : list_(values), has_(true) {}               // NOLINT
  constexpr OptList(const T& one) : list_(one), has_(true) {}                        // NOLINT
  constexpr bool has_value() const { return has_; }
  explicit constexpr operator bool() const { return has_; }
  const L& operator*() const { return list_; }
  const L* operator->() const { return &list_; }
  L value_or_empty() const { return list_; }

 private:
  L list_;
  bool has_ = false;
};

/// Whether two lists of sizes are the same; where one is symbolic, the answer is a condition of the
/// code that is being recorded.
TENON_API bool operator==(SymIntList a, SymIntList b);

using DoubleList = List<double>;
using StringList = List<std::string_view>;
using BoolList = List<bool>;
using OptIntList = OptList<IntList, int64_t>;
using OptSymIntList = OptList<SymIntList, SymInt>;
using OptDoubleList = OptList<DoubleList, double>;

TENON_API std::string to_text(IntList values);
TENON_API std::string to_text(SymIntList values);
TENON_API std::string symbolic_text(IntList values);
TENON_API std::string symbolic_text(SymIntList values);

// What to_text gives, for streams.
template <std::same_as<Dtype> T>
std::ostream& operator<<(std::ostream& out, T dtype) {
  return out << std::string_view(to_text(dtype));
}
template <std::same_as<Device> T>
std::ostream& operator<<(std::ostream& out, T device) {
  return out << std::string_view(to_text(device));
}
template <class T>
requires std::same_as<T, SymIntList> || std::same_as<T, IntList> std::ostream& operator<<(
    std::ostream& out, T values) {
  return out << std::string_view(to_text(values));
}

}  // namespace tenon
