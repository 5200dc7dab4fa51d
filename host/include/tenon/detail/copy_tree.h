// SPDX-License-Identifier: Apache-2.0
// Deep copies of trees: what smart pointers point to is copied too, so that a body may get other
// tensors in its arguments than the caller has in his. Part of tenon/compile.h.
#pragma once

#include <tenon/tree.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tenon::detail {

/// Gives each shared pointer of a copied tree an object of its own; those that shared one share its
/// copy.
struct PointerSplitter : TensorVisitor {
  std::vector<std::pair<const void*, std::shared_ptr<void>>> copied;

  template <class T>
  void pointer(std::shared_ptr<T>& p) {
    if (!p) return;
    for (auto& [from, to] : copied)
      if (from == p.get()) {
        p = std::static_pointer_cast<T>(to);
        return;
      }
    auto copy = std::make_shared<std::remove_const_t<T>>(*p);
    copied.emplace_back(p.get(), copy);
    p = std::move(copy);
  }
  template <class T>
  void pointer(const T&) {}
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}
};

template <class T>
T copy_unsplit(const T& v);

template <class T>
struct FieldCopier {
  std::optional<T> made = {};
  template <class... Fields>
  void fields(const Fields&... e) {
    made.emplace(T{copy_unsplit(e)...});
  }
};

template <class T>
T copy_unsplit(const T& v) {
  if constexpr (is_instance<T, std::unique_ptr>) {
    using U = typename T::element_type;
    return v ? std::make_unique<U>(copy_unsplit(*v)) : nullptr;
  } else if constexpr (is_instance<T, std::vector>) {
    T out;
    out.reserve(v.size());
    for (const auto& e : v) out.push_back(copy_unsplit<typename T::value_type>(e));
    return out;
  } else if constexpr (std::is_copy_constructible_v<T>) {
    return v;
  } else {
    FieldCopier<T> copier;
    visit_fields(v, copier);
    return std::move(*copier.made);
  }
}

/// A copy that shares nothing with `v` but opaque objects and the tensors themselves.
template <class T>
T copy_tree(const T& v) {
  T copy = copy_unsplit(v);
  PointerSplitter splitter;
  visit_tree(copy, splitter);
  return copy;
}

/// Whether a body that gets a copy of such a value may assign to tensors that it does not own.
template <class T>
consteval bool may_be_assigned_through();
template <class T>
inline constexpr bool elements_are_assigned = false;
template <template <class...> class C, class... A>
inline constexpr bool elements_are_assigned<C<A...>> =
    (... || may_be_assigned_through<std::remove_cv_t<A>>());
template <class T, size_t N>
inline constexpr bool elements_are_assigned<std::span<T, N>> = !std::is_const_v<T>;

template <class T>
consteval bool may_be_assigned_through() {
  if constexpr (!may_hold_tensors<T>() || std::derived_from<T, Tensor> || is_scalar_leaf<T>)
    return false;
  else if constexpr (is_smart_pointer<T>)
    return true;
  else if constexpr (is_container<T>)
    return elements_are_assigned<T>;
  else
    return std::is_aggregate_v<T> && !std::is_array_v<T>;
}

// ---- arguments

template <class P>
inline constexpr bool is_const_reference =
    std::is_lvalue_reference_v<P>&& std::is_const_v<std::remove_reference_t<P>>;

/// What a call keeps of an argument of type P: the caller's object where it is a reference.
template <class P>
using StoredArg =
    std::conditional_t<std::is_lvalue_reference_v<P>, ByReference<std::remove_reference_t<P>>,
                       std::remove_cvref_t<P>>;

template <class T>
struct ElementsOf {};
template <class T, size_t N>
struct ElementsOf<std::span<T, N>> {
  using type = std::vector<std::remove_const_t<T>>;
};
template <class T>
struct ElementsOf<List<T>> {
  using type = std::vector<T>;
};
template <>
struct ElementsOf<SymIntList> {
  using type = std::vector<SymInt>;
};

/// What the body's own copy of an argument is kept in: elements for a view, the caller's object
/// where it is opaque or may be written. The tensors in it are about to be replaced.
template <class P>
auto own_argument(const StoredArg<P>& arg) {
  using U = std::remove_cvref_t<P>;
  constexpr bool written = std::is_lvalue_reference_v<P> && !is_const_reference<P>;
  if constexpr (Opaque<U> || points_to_opaque<U> || written)
    return arg;
  else if constexpr (std::is_same_v<U, Tensor>)
    return Tensor();
  else if constexpr (is_view<U>) {
    const U& view = arg;
    return typename ElementsOf<U>::type(view.begin(), view.end());
  } else
    return copy_tree(static_cast<const U&>(arg));
}

}  // namespace tenon::detail
