// Whether two declarations of one function are called alike: types differ by name only where they
// have one size, and pointers where both are pointers.
#pragma once

#include <tuple>
#include <type_traits>

template <class Ours, class Theirs>
constexpr bool is_like =
    sizeof(Ours) == sizeof(Theirs) &&
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_floating_point_v<Ours> ==
        std::is_floating_point_v<Theirs>;

template <class Ours, class Theirs>
constexpr bool are_alike = false;
template <class R, class... Ours, class T, class... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) constexpr bool are_alike<R (*)(Ours...), T (*)(Theirs...)> =
    is_like<R, T> && (is_like<Ours, Theirs> && ...);

template <class Ours, class Theirs>
constexpr bool all_alike = false;
template <class... Ours, class... Theirs>
constexpr bool all_alike<std::tuple<Ours...>, std::tuple<Theirs...>> = (are_alike<Ours, Theirs> &&
                                                                        ...);
