// Value: one argument or result of an op call in 16 bytes, the calling convention inside the host.
//
// Arguments borrow: a tensor is the address of its handle, a list the address of its elements.
// Results own: a tensor is the object itself, a list a vector on the heap; `take` moves them out.
// In graphs the same 16 bytes hold references to values of the graph (tags ref and refs).
#pragma once

#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <bit>
#include <vector>

namespace tenon {

class Graph;
using ValueId = uint32_t;
inline constexpr ValueId no_value = 0xFFFFFFFFu;

enum class Tag : uint16_t {
  none,
  tensor,
  tensor_owned,
  tensors,
  tensors_owned,
  integer,
  floating,
  boolean,
  ints,
  floats,
  bools,
  string,
  strings,
  dtype,
  layout,
  memory_format,
  device,
  graph,
  opaque,
  ref,   ///< graphs only: a value id
  refs,  ///< graphs only: `count` value ids, no_value for holes
};

struct Value {
  uint64_t payload = 0;
  Tag tag = Tag::none;
  uint16_t sub = 0;  ///< floating, boolean: 1 = payload is an Expr
  uint32_t count = 0;

  static Value make(Tag tag, uint64_t payload, uint32_t count = 0, uint16_t sub = 0) {
    return {payload, tag, sub, count};
  }
  template <class T>
  static Value pointer(Tag tag, const T* p, size_t count = 0) {
    return {reinterpret_cast<uint64_t>(p), tag, 0, static_cast<uint32_t>(count)};
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(payload);
  }

  static Value of(const Tensor& t) { return t.defined() ? pointer(Tag::tensor, &t) : Value{}; }
  static Value of(TensorList l) { return pointer(Tag::tensors, l.data(), l.size()); }
  static Value of(SymInt v) { return make(Tag::integer, static_cast<uint64_t>(v.word())); }
  static Value of(int64_t v) { return of(SymInt(v)); }
  static Value of(double v) { return make(Tag::floating, std::bit_cast<uint64_t>(v)); }
  static Value of(bool v) { return make(Tag::boolean, v); }
  static Value of(Number n) {
    Tag tag = n.is_integer() ? Tag::integer : n.is_floating() ? Tag::floating : Tag::boolean;
    return make(tag, static_cast<uint64_t>(n.word()), 0, !n.is_integer() && n.is_symbolic());
  }
  static Value of(SymFloat v) { return of(Number(v)); }
  static Value of(SymBool v) { return of(Number(v)); }
  static Value of(IntList l) { return of(SymIntList(l)); }
  static Value of(SymIntList l) { return pointer(Tag::ints, l.data(), l.size()); }
  static Value of(DoubleList l) { return pointer(Tag::floats, l.data(), l.size()); }
  static Value of(BoolList l) { return pointer(Tag::bools, l.data(), l.size()); }
  static Value of(std::string_view s) { return pointer(Tag::string, s.data(), s.size()); }
  static Value of(const char* s) { return of(std::string_view(s)); }
  static Value of(StringList l) { return pointer(Tag::strings, l.data(), l.size()); }
  static Value of(Dtype d) { return make(Tag::dtype, static_cast<uint64_t>(d)); }
  static Value of(Layout l) { return make(Tag::layout, static_cast<uint64_t>(l)); }
  static Value of(MemoryFormat f) { return make(Tag::memory_format, static_cast<uint64_t>(f)); }
  static Value of(Device d) {
    return make(Tag::device, (static_cast<uint64_t>(static_cast<uint32_t>(d.type)) << 32) |
                                 static_cast<uint32_t>(d.index));
  }
  template <class L, class T>
  static Value of(const OptList<L, T>& l) {
    return l ? of(*l) : Value{};
  }
  template <class T>
  static Value of(const std::optional<T>& v) {
    return v ? of(*v) : Value{};
  }
  static Value of(std::nullopt_t) { return {}; }
  static Value ref(ValueId id) { return make(Tag::ref, id); }

  /// Results: the object changes its owner.
  static Value own(Tensor t) {
    return t.defined() ? pointer(Tag::tensor_owned, t.release()) : Value{};
  }
  static Value own(std::vector<Tensor> l) {
    return pointer(Tag::tensors_owned, new std::vector<Tensor>(std::move(l)));
  }

  bool is_none() const { return tag == Tag::none; }
  Number number() const {
    switch (tag) {
      case Tag::integer:
        return SymInt::from_word(static_cast<int64_t>(payload));
      case Tag::floating:
        return Number::from_word(Number::Kind::floating, sub, static_cast<int64_t>(payload));
      case Tag::boolean:
        return Number::from_word(Number::Kind::boolean, sub, static_cast<int64_t>(payload));
      default:
        fail_internal("a number was expected in a value");
    }
  }
  bool is_number() const { return tag >= Tag::integer && tag <= Tag::boolean; }
  /// A number or a list of integers that a symbol is in.
  bool is_symbolic() const {
    if (is_number()) return number().is_symbolic();
    return tag == Tag::ints && SymIntList(List<SymInt>(as<SymInt>(), count)).is_symbolic();
  }
  Device device() const {
    return {static_cast<DeviceType>(payload >> 32), static_cast<int32_t>(payload & 0xFFFFFFFFu)};
  }
};
static_assert(sizeof(Value) == 16);

/// Releases what a result owns.
inline void drop(Value& v) {
  if (v.tag == Tag::tensor_owned)
    Tensor::adopt(reinterpret_cast<detail::TensorHead*>(v.payload));
  else if (v.tag == Tag::tensors_owned)
    delete reinterpret_cast<std::vector<Tensor>*>(v.payload);
  v = Value{};
}

template <class T>
T take(Value& v) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (v.tag == Tag::none) return Tensor();
    ensure(v.tag == Tag::tensor_owned, "a tensor result was expected");
    return Tensor::adopt(reinterpret_cast<detail::TensorHead*>(std::exchange(v, Value{}).payload));
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    ensure(v.tag == Tag::tensors_owned, "a tensor list result was expected");
    auto* list = reinterpret_cast<std::vector<Tensor>*>(std::exchange(v, Value{}).payload);
    std::vector<Tensor> out = std::move(*list);
    delete list;
    return out;
  } else if constexpr (std::is_same_v<T, Number>) {
    return v.number();
  } else if constexpr (std::is_same_v<T, SymInt>) {
    return v.number().sym_int();
  } else if constexpr (std::is_same_v<T, bool>) {
    return v.number().to_bool();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return v.number().to_int();
  } else {
    static_assert(std::is_same_v<T, double>);
    return v.number().to_double();
  }
}

template <class T>
inline constexpr bool is_optional_v = false;
template <class T>
inline constexpr bool is_optional_v<std::optional<T>> = true;

inline const Tensor& undefined_tensor() {
  static const Tensor none;
  return none;
}

/// The argument as the C++ type of a kernel's parameter. Symbolic integers become plain ones by a
/// guard where the parameter is plain.
template <class P>
decltype(auto) arg_as(const Value& v) {
  using T = std::remove_cvref_t<P>;
  if constexpr (std::is_same_v<T, Tensor>) {
    return v.tag == Tag::none ? undefined_tensor() : *v.as<Tensor>();
  } else if constexpr (std::is_same_v<T, TensorList>) {
    return TensorList(v.as<Tensor>(), v.count);
  } else if constexpr (std::is_same_v<T, SymIntList>) {
    return SymIntList(List<SymInt>(v.as<SymInt>(), v.count));
  } else if constexpr (std::is_same_v<T, IntList>) {
    SymIntList words(List<SymInt>(v.as<SymInt>(), v.count));
    require(
        !words.is_symbolic(),
        "a list of plain integers was expected, found the symbolic ones {}; call guard_int() on "
        "each, which fixes it to its value in this trace",
        words);
    return IntList(v.as<int64_t>(), v.count);
  } else if constexpr (std::is_same_v<T, OptSymIntList>) {
    return v.is_none() ? OptSymIntList() : OptSymIntList(arg_as<SymIntList>(v));
  } else if constexpr (std::is_same_v<T, OptIntList>) {
    return v.is_none() ? OptIntList() : OptIntList(arg_as<IntList>(v));
  } else if constexpr (std::is_same_v<T, DoubleList>) {
    return DoubleList(v.as<double>(), v.count);
  } else if constexpr (std::is_same_v<T, OptDoubleList>) {
    return v.is_none() ? OptDoubleList() : OptDoubleList(arg_as<DoubleList>(v));
  } else if constexpr (std::is_same_v<T, BoolList>) {
    return BoolList(v.as<bool>(), v.count);
  } else if constexpr (std::is_same_v<T, StringList>) {
    return StringList(v.as<std::string_view>(), v.count);
  } else if constexpr (is_optional_v<T>) {
    using U = typename T::value_type;
    return v.is_none() ? T() : T(arg_as<U>(v));
  } else if constexpr (std::is_same_v<T, Number>) {
    return v.number();
  } else if constexpr (std::is_same_v<T, SymInt>) {
    return v.number().sym_int();
  } else if constexpr (std::is_same_v<T, SymFloat>) {
    return v.number().sym_float();
  } else if constexpr (std::is_same_v<T, SymBool>) {
    return v.number().sym_bool();
  } else if constexpr (std::is_same_v<T, bool>) {
    return v.number().to_bool();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return v.number().to_int();
  } else if constexpr (std::is_same_v<T, double>) {
    return v.number().to_double();
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return std::string_view(v.as<char>(), v.count);
  } else if constexpr (std::is_same_v<T, Device>) {
    return v.device();
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(v.payload);
  } else {
    static_assert(std::is_same_v<T, Value>, "a parameter type that no schema type maps to");
    return Value(v);
  }
}

}  // namespace tenon
