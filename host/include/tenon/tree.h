// SPDX-License-Identifier: Apache-2.0
// Trees: how arguments and results of compiled functions are taken apart into leaves.
//
// A leaf is a tensor, a symbolic number, a plain number, an enum, a bool or a string. Containers,
// optionals, variants, tuples, smart pointers and plain aggregates (structs without base classes,
// private members or C arrays, up to 16 fields) are taken apart without being asked. Any other type
// says how with one line inside the class:
//
//     class Ema { ...  TENON_TREE(Ema, weights, decay) };
//
// or, for types that cannot be changed, specialises tree_trait. Modules, optimisers, functions and
// pointers are opaque: the body gets the caller's own object, and tensors that it finds inside are
// captured ones. TENON_OPAQUE(Type), outside of all namespaces, makes another type opaque.
#pragma once

#include <tenon/detail/fields.h>
#include <tenon/detail/shared_nodes.h>
#include <tenon/detail/std_math.h>
#include <tenon/tensor.h>

#include <array>
#include <complex>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

namespace detail {
template <class T>
concept has_dtype = std::floating_point<T> || std::same_as<T, uint8_t> || std::signed_integral<T>;
template <class T>
using SymOf = std::conditional_t<std::is_same_v<T, bool>, SymBool,
                                 std::conditional_t<std::is_integral_v<T>, SymInt, SymFloat>>;
}  // namespace detail

namespace detail {

/// What a number that is still in the traced program is read from. Copies of a Scalar share it. Before
/// the body writes, the trace puts a copy in the tensor's place.
struct LazyNumber {
  Tensor tensor;
};
/// `t` is defined.
TENON_API std::shared_ptr<LazyNumber> lazy_number(Tensor t);

template <class T>
T item_as(const Tensor& t, std::source_location where) {
  if constexpr (std::is_same_v<T, bool>)
    return item_bool(t, where);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(item_int(t, where));
  else
    return static_cast<T>(item_double(t, where));
}

}  // namespace detail

/// A number of the host that stays in the traced program until somebody looks at it: returned, it
/// is an output of the graph; compared or converted, it is computed there and then. It is the number
/// that was there when it was asked for, whatever the body writes before somebody looks. As a SymInt,
/// SymFloat, SymBool or Number it is a symbol of the graph where the trace takes it in
/// (dynamo.capture_scalar_outputs, or fullgraph), else its value.
template <class T>
class Scalar {
 public:
  Scalar() = default;
  explicit Scalar(Tensor value, std::source_location made_at = std::source_location::current())
      : made_at_(made_at) {
    set_tensor(std::move(value));
  }
  Scalar(T value) : plain_(value) {}  // NOLINT: a number is a Scalar
  /// The value; ends the traced segment when it is not known yet.
  T value() const {
    if (!lazy_) return plain_;
    bool is_of_trace = lazy_->tensor.is_fake();
    T now = detail::item_as<T>(lazy_->tensor, made_at_);
    if (is_of_trace) {  // known from here on, to the thread that traces
      plain_ = now;
      lazy_.reset();
    }
    return now;
  }
  operator T() const { return value(); }  // NOLINT: used as a number
  /// The number as a symbol, see above.
  detail::SymOf<T> sym() const {
    if (!lazy_) return plain_;
    if constexpr (detail::has_dtype<T> || std::is_same_v<T, bool>) {
      if (std::optional<Number> n = detail::item_symbol(lazy_->tensor, dtype_of<T>)) {
        if constexpr (std::is_same_v<T, bool>)
          return n->sym_bool();
        else if constexpr (std::is_integral_v<T>)
          return n->sym_int();
        else
          return n->sym_float();
      }
    }
    return value();
  }
  operator detail::SymOf<T>() const { return sym(); }  // NOLINT: likewise
  operator Number() const { return sym(); }            // NOLINT: likewise
  /// What it is read from; undefined: it is known.
  const Tensor& tensor() const {
    static const Tensor none;
    return lazy_ ? lazy_->tensor : none;
  }
  void set_tensor(Tensor t) { lazy_ = t.defined() ? detail::lazy_number(std::move(t)) : nullptr; }

 private:
  mutable std::shared_ptr<detail::LazyNumber> lazy_;
  mutable T plain_{};
  std::source_location made_at_;  // the user's item() call, for messages
};
/// That of its value, which is a look at it.
template <class T>
std::string to_text(const Scalar<T>& number) {
  return to_text(detail::SymOf<T>(number.value()));
}

template <class T>
Scalar<T> Tensor::item(std::source_location where) const {
  if (!defined()) detail::fail_undefined("item");
  require(numel().guard_int() == 1, "item: expected a tensor with one element, found {}", *this);
  if (is_fake() && !detail::is_looked_at(*this)) return Scalar<T>(*this, where);
  return Scalar<T>(detail::item_as<T>(*this, where));
}

/// Specialise with `template <class V> static void visit(T& value, V& visitor)` for a type of
/// yours.
template <class T>
struct tree_trait {};

/// Whether a type is handed to the body as it is; set by TENON_OPAQUE.
template <class T>
inline constexpr bool is_opaque = false;

namespace detail {

template <class T>
inline constexpr bool is_scalar_leaf = false;
template <class T>
inline constexpr bool is_scalar_leaf<Scalar<T>> = true;
template <class T, template <class...> class C>
inline constexpr bool is_instance = false;
template <class... A, template <class...> class C>
inline constexpr bool is_instance<C<A...>, C> = true;
template <class T>
inline constexpr bool is_std_array = false;
template <class T, size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;

template <class... T>
std::true_type derives_from_tuple(const std::tuple<T...>*);
std::false_type derives_from_tuple(const void*);
/// The tuple that a type derives from, as the results of topk() and others do.
template <class... T>
std::tuple<T...>& as_tuple(std::tuple<T...>& t) {
  return t;
}
template <class... T>
const std::tuple<T...>& as_tuple(const std::tuple<T...>& t) {
  return t;
}

template <class T>
inline constexpr bool is_function = false;
template <class F>
inline constexpr bool is_function<std::function<F>> = true;
template <class T>
inline constexpr bool is_smart_pointer =
    is_instance<T, std::unique_ptr> || is_instance<T, std::shared_ptr>;

template <class T>
concept Opaque = is_opaque<T> || is_function<T> || is_instance<T, std::reference_wrapper> ||
                 is_instance<T, std::weak_ptr> ||
                 (std::is_pointer_v<T> && !std::is_same_v<T, const char*>) ||
                 requires {
  typename T::tenon_opaque;
};
/// A smart pointer to an opaque object.
template <class T>
inline constexpr bool points_to_opaque = false;
template <class T>
requires is_smart_pointer<T>
inline constexpr bool points_to_opaque<T> = Opaque<std::remove_const_t<typename T::element_type>>;

template <class T>
inline constexpr bool is_list =
    is_instance<T, std::vector> || is_std_array<T> || is_instance<T, std::deque> ||
    is_instance<T, std::list> || is_instance<T, std::set>;
template <class T>
inline constexpr bool is_span = false;
template <class T, size_t N>
inline constexpr bool is_span<std::span<T, N>> = true;
template <class T>
inline constexpr bool is_view = is_span<T>;
template <class T>
inline constexpr bool is_view<List<T>> = true;
template <>
inline constexpr bool is_view<SymIntList> = true;

/// Values whose leaves visitors get as copies.
template <class T>
inline constexpr bool has_no_places =
    Opaque<T> || points_to_opaque<T> || std::is_same_v<T, Number> || std::is_same_v<T, SymBool> ||
    std::is_same_v<T, std::vector<bool>> || is_instance<T, std::complex>;

/// The address that stands for an opaque value.
template <class T>
const void* address_of(const T& v) {
  if constexpr (std::is_pointer_v<T>)
    return reinterpret_cast<const void*>(v);
  else if constexpr (is_instance<T, std::reference_wrapper>)
    return &v.get();
  else if constexpr (is_smart_pointer<T>)
    return v.get();
  else
    return &v;
}

/// The caller's argument, by reference.
template <class T>
struct ByReference {
  T* object;
  ByReference(T& t) : object(&t) {}        // NOLINT: made from an argument
  ByReference(T&& t) : object(&t) {}       // NOLINT: likewise
  operator T&() const { return *object; }  // NOLINT: handed on as one
};
template <class T>
inline constexpr bool is_by_reference = false;
template <class T>
inline constexpr bool is_by_reference<ByReference<T>> = true;

/// What holds values of other types and nothing else.
template <class T>
inline constexpr bool is_container =
    is_list<T> || is_view<T> || is_instance<T, std::map> || is_instance<T, std::unordered_map> ||
    is_instance<T, std::optional> || is_instance<T, std::variant> || is_instance<T, std::pair> ||
    is_instance<T, std::tuple>;

/// Whether a value of this type may hold tensors or symbols; types that are no trees hold none.
template <class T>
consteval bool may_hold_tensors();
template <class T>
inline constexpr bool arguments_hold_tensors = false;
template <template <class...> class C, class... A>
inline constexpr bool arguments_hold_tensors<C<A...>> = (... ||
                                                         may_hold_tensors<std::remove_cv_t<A>>());
template <class T, size_t N>
inline constexpr bool arguments_hold_tensors<std::array<T, N>> = may_hold_tensors<T>();
template <class T, size_t N>
inline constexpr bool arguments_hold_tensors<std::span<T, N>> =
    may_hold_tensors<std::remove_cv_t<T>>();

template <class T>
consteval bool may_hold_tensors() {
  if constexpr (std::derived_from<T, Tensor> || is_scalar_leaf<T> || std::is_same_v<T, SymInt> ||
                std::is_same_v<T, SymFloat> || std::is_same_v<T, Number> ||
                std::is_same_v<T, SymIntList>)
    return true;
  else if constexpr (Opaque<T> || points_to_opaque<T> || std::is_arithmetic_v<T>)
    return false;
  else if constexpr (is_container<T> || is_smart_pointer<T>)
    return arguments_hold_tensors<T>;
  else
    return (std::is_aggregate_v<T> && !std::is_array_v<T>) || requires(T & v) {
      v.tenon_visit_tree(v);
    }
  || requires(T & v) { tree_trait<T>::visit(v, v); };
}

/// Named in the compiler's message where a type is no tree: add one of the two to the type.
template <class T>
struct add_TENON_TREE_or_TENON_OPAQUE_to;

template <class T, class V>
void visit_tree(T& v, V& visitor);

/// A part of a value. Parts lie within it; what a reference among them refers to lies elsewhere and is
/// the program's own, which visitors with a count `outside` are told.
template <class Whole, class T, class V>
void visit_part(const Whole& whole, T& part, V& visitor) {
  [[maybe_unused]] const bool is_outside = reinterpret_cast<uintptr_t>(std::addressof(part)) -
                                               reinterpret_cast<uintptr_t>(std::addressof(whole)) >=
                                           sizeof(Whole);
  if constexpr (requires { visitor.outside; }) visitor.outside += is_outside;
  if constexpr (requires { visitor.reference(part); })
    if (is_outside) visitor.reference(part);
  visit_tree(part, visitor);
  if constexpr (requires { visitor.outside; }) visitor.outside -= is_outside;
}

/// A key of a map or an element of a set: no walk may replace it.
template <class T, class V>
void visit_key(const T& key, V& visitor) {
  if constexpr (requires { visitor.key(key); })
    visitor.key(key);
  else
    visit_tree(key, visitor);
}

/// Visitors may look at a map or set as one that is ordered by its keys.
template <class Keyed, class V>
void visit_keys_of(const Keyed& keyed, V& visitor) {
  if constexpr (requires { visitor.keys(keyed); }) visitor.keys(keyed);
}

/// What a pointer or an optional holds. A node of a graph of shared pointers is visited once.
template <class P, class V>
void visit_pointee(P& p, V& visitor) {
  if constexpr (is_instance<std::remove_const_t<P>, std::shared_ptr> &&
                requires { visitor.shared_nodes; }) {
    using Node = std::remove_const_t<typename P::element_type>;
    if constexpr (!std::derived_from<Node, Tensor> && !std::is_arithmetic_v<Node>)
      return visit_node(p.get(), visitor, [&] { visit_tree(*p, visitor); });
  }
  visit_tree(*p, visitor);
}

template <class V>
struct EachField {
  V& visitor;
  template <class... Fields>
  void fields(Fields&... e) {
    (visit_tree(e, visitor), ...);
  }
};

/// Walks a value. The visitor has tensor(Tensor&), number(...), text(std::string&), sym(...) for
/// leaves and shape(uint64_t) for what the containers look like. `V::reading` visitors see const
/// values; others may replace leaves.
template <class T, class V>
void visit_tree(T& v, V& visitor) {
  using U = std::remove_const_t<T>;
  if constexpr (requires { visitor.place(v); }) visitor.place(v);
  if constexpr (has_no_places<U> && requires { visitor.whole(v); }) {
    visitor.whole(v);
  } else if constexpr (std::derived_from<U, Tensor>) {
    visitor.tensor(v);
  } else if constexpr (is_scalar_leaf<U>) {
    visitor.scalar(v);
  } else if constexpr (std::is_same_v<U, SymInt> || std::is_same_v<U, SymFloat>) {
    visitor.sym(v);
  } else if constexpr (std::is_same_v<U, Number>) {
    visitor.shape(v.is_boolean());
    if (v.is_boolean())
      visitor.number(v.to_bool());
    else
      visitor.sym(v);
  } else if constexpr (std::is_same_v<U, SymBool>) {
    visitor.number(v.guard_bool());
  } else if constexpr (std::is_same_v<U, Device>) {
    visitor.number(v.type);
    visitor.number(v.index);
  } else if constexpr (is_instance<U, std::complex>) {
    visitor.number(v.real());
    visitor.number(v.imag());
  } else if constexpr (std::is_arithmetic_v<U> || std::is_enum_v<U>) {
    visitor.number(v);
  } else if constexpr (std::is_same_v<U, std::string> || std::is_same_v<U, std::string_view>) {
    if constexpr (requires { visitor.view(v); }) visitor.view(v);
    visitor.text(v);
  } else if constexpr (std::is_same_v<U, const char*>) {
    if constexpr (requires { visitor.view(v); }) visitor.view(v);
    visitor.shape(v ? 1 : 0);
    if (v) visitor.text(v);
  } else if constexpr (requires { tree_trait<U>::visit(v, visitor); }) {
    tree_trait<U>::visit(v, visitor);
  } else if constexpr (requires { v.tenon_visit_tree(visitor); }) {
    v.tenon_visit_tree(visitor);
  } else if constexpr (is_by_reference<U>) {
    visit_tree(*v.object, visitor);
  } else if constexpr (Opaque<U> || points_to_opaque<U>) {
    if constexpr (requires { visitor.view(v); }) visitor.view(v);
    visitor.opaque(address_of(v));
  } else if constexpr (std::is_same_v<U, std::vector<bool>>) {
    visitor.shape(v.size());
    for (bool e : v) visitor.number(e);
  } else if constexpr (is_list<U> || is_view<U>) {
    if constexpr (requires { visitor.view(v); }) visitor.view(v);
    if constexpr (is_instance<U, std::set>) visit_keys_of(v, visitor);
    visitor.shape(v.size());
    for (auto& e : v)
      if constexpr (is_instance<U, std::set>)
        visit_key(e, visitor);
      else
        visit_tree(e, visitor);
  } else if constexpr (is_instance<U, std::map>) {
    visit_keys_of(v, visitor);
    visitor.shape(v.size());
    for (auto& [key, e] : v) {
      visit_key(key, visitor);
      visit_tree(e, visitor);
    }
  } else if constexpr (is_instance<U, std::unordered_map>) {
    visit_keys_of(v, visitor);
    visitor.shape(v.size());
    std::map<typename U::key_type, decltype(&*v.begin())> ordered;
    for (auto& entry : v) ordered.emplace(entry.first, &entry);
    for (auto& [key, entry] : ordered) {
      visit_key(entry->first, visitor);
      visit_tree(entry->second, visitor);
    }
  } else if constexpr (is_instance<U, std::optional> || is_smart_pointer<U>) {
    visitor.shape(v ? 1 : 0);
    if constexpr (requires { visitor.pointer(v); }) visitor.pointer(v);
    if constexpr (!is_smart_pointer<U> || !requires { V::stays_in_object; })
      if (v) visit_pointee(v, visitor);
  } else if constexpr (is_instance<U, std::variant>) {
    visitor.shape(v.index());
    std::visit([&](auto& e) { visit_tree(e, visitor); }, v);
  } else if constexpr (is_instance<U, std::pair>) {
    visit_part(v, v.first, visitor);
    visit_part(v, v.second, visitor);
  } else if constexpr (decltype(derives_from_tuple(&v))::value) {
    std::apply([&](auto&... e) { (visit_part(v, e, visitor), ...); }, as_tuple(v));
  } else if constexpr (std::is_same_v<U, std::monostate>) {
  } else if constexpr (std::is_aggregate_v<U> && !std::is_array_v<U>) {
    EachField<V> each{visitor};
    visit_fields(v, each);
  } else if constexpr (std::is_array_v<U>) {
    static_assert(sizeof(use_std_array_in_place_of_the_C_array_in<U>) > 0);
  } else {
    static_assert(sizeof(add_TENON_TREE_or_TENON_OPAQUE_to<U>) > 0);
  }
}

/// A visitor that tensors alone matter to: what it says of them and of scalars is its own.
struct TensorVisitor {
  SharedNodes* shared_nodes = nullptr;
  template <class T>
  void sym(const T&) {}
  template <class T>
  void number(const T&) {}
  template <class T>
  void text(const T&) {}
  void opaque(const void*) {}
  void shape(uint64_t) {}
};

template <class Whole, class V, class... Fields>
void visit_each(const Whole& whole, V& visitor, Fields&... fields) {
  (visit_part(whole, fields, visitor), ...);
}

}  // namespace detail
}  // namespace tenon

/// Lists the fields of a class for tenon::compile, inside of it.
#define TENON_TREE(Type, ...)                                 \
  template <class Visitor>                                    \
  void tenon_visit_tree(Visitor& visitor) {                   \
    ::tenon::detail::visit_each(*this, visitor, __VA_ARGS__); \
  }                                                           \
  template <class Visitor>                                    \
  void tenon_visit_tree(Visitor& visitor) const {             \
    ::tenon::detail::visit_each(*this, visitor, __VA_ARGS__); \
  }
/// Hands values of this type to compiled callables as they are. Outside of all namespaces.
#define TENON_OPAQUE(...) \
  template <>             \
  inline constexpr bool tenon::is_opaque<__VA_ARGS__> = true;
