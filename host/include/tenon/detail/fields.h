// SPDX-License-Identifier: Apache-2.0
// The fields of plain structs, found without being listed. Part of tenon/tree.h.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tenon::detail {

struct AnyField {
  template <class T>
  operator T() const;  // NOLINT: only its type is used
};

template <class T, class... Fields>
constexpr size_t count_fields() {
  if constexpr (requires { T{Fields{}..., AnyField{}}; } && sizeof...(Fields) < 17)
    return count_fields<T, Fields..., AnyField>();
  else
    return sizeof...(Fields);
}

template <size_t>
using AnyFieldAt = AnyField;
/// Whether a struct can be made from these fields with `{}` between them.
template <class T, size_t... before, size_t... after>
consteval bool is_made_around(std::index_sequence<before...>, std::index_sequence<after...>) {
  return requires { T{AnyFieldAt<before>{}..., {}, AnyFieldAt<after>{}...}; };
}
/// Whether a struct of `n` fields has a C array among them: count_fields() counts its elements, while
/// one `{}` stands for all of them.
template <class T, size_t... i>
consteval bool has_c_array(std::index_sequence<i...>) {
  constexpr size_t n = sizeof...(i);
  return (... || (is_made_around<T>(std::make_index_sequence<i>(), std::index_sequence<>()) &&
                  !is_made_around<T>(std::make_index_sequence<i>(),
                                     std::make_index_sequence<n - 1 - i>())));
}
/// Named in the compiler's message where a field is a C array.
template <class T>
struct use_std_array_in_place_of_the_C_array_in;

template <class T>
struct AnyBaseOf {
  template <class B>
  requires(std::is_base_of_v<B, T> && !std::is_same_v<B, T>) operator B()
      const;  // NOLINT: likewise
};
/// Whether a struct has a base class: that is made before its fields.
template <class T>
inline constexpr bool has_base = requires {
  T{AnyBaseOf<T>{}};
};
/// Named in the compiler's message where a struct has a base class.
template <class T>
struct list_the_fields_by_TENON_TREE_in_the_derived;

template <class T, class V>
void visit_fields(T& v, V& visitor) {
  using U = std::remove_const_t<T>;
  constexpr size_t n = count_fields<U>();
  constexpr bool has_array = has_c_array<U>(std::make_index_sequence<n>());
  if constexpr (has_array) static_assert(sizeof(use_std_array_in_place_of_the_C_array_in<U>) > 0);
  if constexpr (has_base<U>)
    static_assert(sizeof(list_the_fields_by_TENON_TREE_in_the_derived<U>) > 0);
  static_assert(has_array || n <= 16, "a struct with more than 16 fields needs TENON_TREE");
  static_assert(
      n > 0 || std::is_empty_v<U>,
      "the fields of a struct are found only where each can be made without arguments; add "
      "TENON_TREE or TENON_OPAQUE to the struct");
#define TENON_FIELDS(count, ...)   \
  else if constexpr (n == count) { \
    auto& [__VA_ARGS__] = v;       \
    visitor.fields(__VA_ARGS__);   \
  }
  if constexpr (n == 0 || has_array || has_base<U>) {
  }
  TENON_FIELDS(1, a)
  TENON_FIELDS(2, a, b)
  TENON_FIELDS(3, a, b, c)
  TENON_FIELDS(4, a, b, c, d)
  TENON_FIELDS(5, a, b, c, d, e)
  TENON_FIELDS(6, a, b, c, d, e, f)
  TENON_FIELDS(7, a, b, c, d, e, f, g)
  TENON_FIELDS(8, a, b, c, d, e, f, g, h)
  TENON_FIELDS(9, a, b, c, d, e, f, g, h, i)
  TENON_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  TENON_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  TENON_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  TENON_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  TENON_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
  TENON_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
  TENON_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
#undef TENON_FIELDS
}

}  // namespace tenon::detail
