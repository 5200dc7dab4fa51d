// SPDX-License-Identifier: Apache-2.0
// Deep copies of trees: what smart pointers point to is copied too, so that a body may get other
// tensors in its arguments than the caller has in his. Part of tenon/compile.h.
#pragma once

#include <tenon/detail/copied_objects.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tenon::detail {

/// Makes deep copies, of one tree or of several whose shared pointers belong together: each shared
/// pointer gets an object of its own, and those that shared one share its copy.
class TreeCopier : public CopiedObjects, public TensorVisitor {
 public:
  template <class T>
  T copy(const T& v) {
    T copy = without_shared(v);
    split(copy);
    return copy;
  }
  /// The same for a value that the body gets to keep: what only this owns is not the caller's any more.
  template <class T>
  T copy_for_good(const T& v) {
    T copy = without_shared(v);
    owned_.clear();
    split(copy);
    return copy;
  }
  /// Copies what the shared pointers of a copy point to.
  template <class T>
  void split(T& copy) {
    visit_tree(copy, *this);
  }
  /// The elements of a span.
  template <class T>
  void add_elements(std::span<T> theirs, std::vector<T>& copies) {
    for (size_t i = 0; i < theirs.size(); ++i)
      objects.push_back({&theirs[i], &copies[i], &object_type<T>});
  }

  // As a visitor of copies that still share.
  template <class T>
  void pointer(std::shared_ptr<T>& p) {
    if (!p) return;
    for (const CopiedObject& known : objects)
      if (known.from == p.get()) {
        p = std::static_pointer_cast<T>(known.copy);
        return;
      }
    using U = std::remove_const_t<T>;
    auto original = std::const_pointer_cast<U>(p);
    auto copy = std::make_shared<U>(*p);
    objects.push_back({original.get(), copy.get(), &object_type<U>, original, copy});
    p = std::move(copy);
  }
  template <class T>
  void pointer(std::unique_ptr<T>& p) {
    for (auto [to, from] : owned_)
      if (to == p.get()) objects.push_back({from, to, &object_type<std::remove_const_t<T>>});
  }
  template <class T>
  void pointer(const T&) {}
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}

 private:
  template <class T>
  struct FieldCopier {
    TreeCopier& copier;
    std::optional<T> made = {};
    template <class... Fields>
    void fields(const Fields&... e) {
      made.emplace(T{copier.without_shared(e)...});
    }
  };

  template <class T>
  T without_shared(const T& v) {
    if constexpr (is_instance<T, std::unique_ptr>) {
      using U = typename T::element_type;
      if (!v) return nullptr;
      auto copy = std::make_unique<std::remove_const_t<U>>(without_shared(*v));
      owned_.emplace_back(copy.get(), const_cast<std::remove_const_t<U>*>(v.get()));
      return copy;
    } else if constexpr (is_instance<T, std::vector>) {
      T out;
      out.reserve(v.size());
      for (const auto& e : v) out.push_back(without_shared<typename T::value_type>(e));
      return out;
    } else if constexpr (std::is_copy_constructible_v<T>) {
      return v;
    } else {
      FieldCopier<T> fields{*this};
      visit_fields(v, fields);
      return std::move(*fields.made);
    }
  }

  std::vector<std::pair<void*, void*>> owned_;  // by unique pointers: the copy and the caller's
};

/// A copy that shares nothing with `v` but opaque objects and the tensors themselves.
template <class T>
T copy_tree(const T& v) {
  return TreeCopier().copy(v);
}

/// Puts shared pointers to the caller's objects into the places of those to their copies.
struct PointerRejoiner : TensorVisitor {
  std::span<const CopiedObject> objects;
  explicit PointerRejoiner(std::span<const CopiedObject> copied) : objects(copied) {}
  template <class T>
  void pointer(std::shared_ptr<T>& p) {
    for (const CopiedObject& o : objects)
      if (o.original && o.to == p.get()) p = std::static_pointer_cast<T>(o.original);
  }
  template <class T>
  void pointer(const T&) {}
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}
};

/// Whether a body that gets a copy of such a value may change objects that are not its own.
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

/// Whether values of this type can be copied; the elements of a container are asked, too.
template <class T>
inline constexpr bool is_copied = std::is_copy_constructible_v<T>;
template <template <class...> class C, class... A>
requires is_container<C<A...>> &&
    (sizeof...(A) >
     0) inline constexpr bool is_copied<C<A...>> = std::is_copy_constructible_v<C<A...>> &&
                                                   (... && is_copied<A>);

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
auto own_argument(const StoredArg<P>& arg, TreeCopier& copier) {
  using U = std::remove_cvref_t<P>;
  constexpr bool written = std::is_lvalue_reference_v<P> && !is_const_reference<P>;
  if constexpr (Opaque<U> || points_to_opaque<U> || written)
    return arg;
  else if constexpr (std::is_same_v<U, Tensor>)
    return Tensor();
  else if constexpr (is_view<U>) {
    const U& view = arg;
    typename ElementsOf<U>::type elements(view.begin(), view.end());
    copier.split(elements);
    return elements;
  } else if constexpr (std::is_lvalue_reference_v<P>)
    return copier.copy(static_cast<const U&>(arg));
  else
    return copier.copy_for_good(static_cast<const U&>(arg));
}

/// Keeps apart what the body may assign to elements of a span, once its copies lie where they stay.
template <class P, class Copy>
void add_elements(const StoredArg<P>& arg, Copy& copy, TreeCopier& copier) {
  using U = std::remove_cvref_t<P>;
  if constexpr (elements_are_assigned<U> && is_view<U>)
    copier.add_elements(std::span(static_cast<const U&>(arg)), copy);
}

}  // namespace tenon::detail
