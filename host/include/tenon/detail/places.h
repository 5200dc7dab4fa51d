// SPDX-License-Identifier: Apache-2.0
// Where a value lies: its own bytes, and those that its strings and vectors own. Part of
// tenon/compile.h.
#pragma once

#include <tenon/tree.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace tenon::detail {

using Address = const std::byte*;
template <class T>
Address address(const T* place) {
  return reinterpret_cast<Address>(place);
}

template <class T>
T* pointer_at(Address place) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(place));
}
template <class T, class U>
bool shares_owner(const std::shared_ptr<T>& a, const std::shared_ptr<U>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

/// A piece of memory.
struct Extent {
  Address begin;
  size_t bytes;
  bool holds(Address place) const { return begin <= place && place < begin + bytes; }
  bool overlaps(const Extent& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

/// Collects the memory of a value, as a visitor. A value and a copy of it have their pieces in one order.
struct Places {
  static constexpr bool stays_in_object = true;
  std::vector<Extent> extents;
  /// Whether what spans show counts.
  explicit Places(bool sees_views) : sees_views_(sees_views) {}

  template <class T>
  void place(const T& v) {
    if constexpr (is_by_reference<T>) return;
    add({address(std::addressof(v)), sizeof(T)});
    if constexpr (std::is_same_v<T, std::string>)
      add({address(v.data()), v.size() + 1});
    else if constexpr ((is_list<T> || is_view<T>)&&requires { v.data(); })
      if (!is_view<T> || sees_views_) open_block({address(v.data()), v.size() * sizeof(*v.data())});
  }
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}
  template <class T>
  void sym(const T&) {}
  template <class T>
  void number(const T&) {}
  template <class T>
  void text(const T&) {}
  void opaque(const void*) {}
  void shape(uint64_t) {}

 private:
  // Elements are no pieces of their own.
  void add(const Extent& piece) {
    if (!block_.holds(piece.begin) || piece.bytes == 0) extents.push_back(piece);
  }
  void open_block(const Extent& block) {
    extents.push_back(block);
    block_ = block;
  }
  const bool sees_views_;
  Extent block_ = {nullptr, 0};
};

/// Whether a result of this type may show the memory of other objects, or point to them.
template <class T>
consteval bool may_show_others();
template <class T>
inline constexpr bool arguments_show_others = false;
template <template <class...> class C, class... A>
inline constexpr bool arguments_show_others<C<A...>> = (... ||
                                                        may_show_others<std::remove_cvref_t<A>>());
template <class T, size_t N>
inline constexpr bool arguments_show_others<std::array<T, N>> = may_show_others<T>();

template <class T>
consteval bool may_show_others() {
  constexpr bool is_leaf = std::derived_from<T, Tensor> || is_scalar_leaf<T> ||
                           std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                           std::is_same_v<T, std::string> || std::is_same_v<T, SymInt> ||
                           std::is_same_v<T, SymFloat> || std::is_same_v<T, SymBool> ||
                           std::is_same_v<T, Number> || std::is_same_v<T, std::monostate>;
  if constexpr (is_view<T> || std::is_same_v<T, std::string_view> || std::is_pointer_v<T>)
    return true;
  else if constexpr (is_leaf || Opaque<T> || points_to_opaque<T>)
    return false;
  else if constexpr (is_container<T> || is_instance<T, std::unique_ptr>)
    return arguments_show_others<T>;
  else
    return !decltype(derives_from_tuple(static_cast<T*>(nullptr)))::value;
}

}  // namespace tenon::detail
