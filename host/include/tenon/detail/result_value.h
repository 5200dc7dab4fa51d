// SPDX-License-Identifier: Apache-2.0
// What a compiled callable returns for what its body returns. Part of tenon/compile.h.
//
// A body gets copies of its arguments, which end with it, so that references to them become values:
// `return std::tie(x, y)` and `return std::cref(x)` give tensors. References to opaque objects, such as
// modules, stay: those are the caller's own.
#pragma once

#include <tenon/tree.h>

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tenon::detail {

template <class T>
struct ResultValue;
/// The type of a result, or of a part of one, as the caller gets it.
template <class T>
using ValueOf = typename ResultValue<std::remove_cvref_t<T>>::type;

/// Whether a reference to such an object becomes a value.
template <class T>
inline constexpr bool is_given_by_value =
    !Opaque<std::remove_cv_t<T>> && std::is_copy_constructible_v<std::remove_cv_t<T>>;
template <class T>
using PartOf =
    std::conditional_t<std::is_reference_v<T> && !is_given_by_value<std::remove_reference_t<T>>,
                       std::type_identity<T>, ResultValue<std::remove_cvref_t<T>>>;

/// Whether a part of a container refers to what becomes a value.
template <class T>
inline constexpr bool refers_to_value = false;
template <class T>
inline constexpr bool refers_to_value<T&> = is_given_by_value<T>;
template <class T>
inline constexpr bool refers_to_value<std::reference_wrapper<T>> = is_given_by_value<T>;
template <template <class...> class C, class... A>
requires is_container<C<A...>>
inline constexpr bool refers_to_value<C<A...>> = (... || refers_to_value<std::remove_cv_t<A>>);
template <class T, size_t N>
inline constexpr bool refers_to_value<std::array<T, N>> = refers_to_value<T>;

template <class T>
struct ResultValue {
  static_assert(!refers_to_value<T>,
                "the body returns a container of references, and what they refer to ends with it; "
                "return a container of values");
  using type = T;
};
template <class T>
requires is_given_by_value<T>
struct ResultValue<std::reference_wrapper<T>> : ResultValue<std::remove_cv_t<T>> {
};
template <class... T>
struct ResultValue<std::tuple<T...>> {
  using type = std::tuple<typename PartOf<T>::type...>;
};
template <class A, class B>
struct ResultValue<std::pair<A, B>> {
  using type = std::pair<typename PartOf<A>::type, typename PartOf<B>::type>;
};

}  // namespace tenon::detail
