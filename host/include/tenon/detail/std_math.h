// SPDX-License-Identifier: Apache-2.0
// std::sqrt(x.size(1)), std::min(x.size(0), 4), std::max(loss.item<float>(), 0.0f): functions of <cmath>
// and <algorithm> for sizes and numbers that may be symbolic.
//
// A size converts to int64_t, for which <cmath> has no overload that wins; and std::min takes two
// values of one type. Programs write `std::` in front of both, where no lookup by argument helps, so
// the overloads stand in std. They take nothing but types of tenon.
//
// The least and the greatest of two sizes stay symbolic. The other functions look at the number.
#pragma once

#include <tenon/sym.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace tenon {

template <class T>
class Scalar;

namespace detail {

template <class T>
inline constexpr bool is_integer_scalar = false;
template <std::integral T>
inline constexpr bool is_integer_scalar<Scalar<T>> = true;

/// An integer of tenon.
template <class T>
concept SymIntegerLike = std::same_as<T, SymInt> || is_integer_scalar<T>;
template <class T>
concept SymNumber = std::same_as<T, SymInt> || std::same_as<T, SymFloat>;
template <class A, class B>
concept MixedSymNumbers = !std::same_as<A, B> && (OneSymInt<A, B> || OneSymReal<A, B>);

template <class A, class B>
using SymCommon = std::conditional_t<OneSymInt<A, B>, SymInt, SymFloat>;
template <class C, class A>
C sym_cast(A a) {
  if constexpr (std::same_as<C, SymInt>)
    return SymInt(a);
  else
    return to_real(a);
}

template <class T>
double as_double(const T& value) {
  return static_cast<double>(static_cast<int64_t>(value));
}
template <class T>
requires std::is_arithmetic_v<T> || std::same_as<T, SymFloat>
double as_double(const T& value) { return static_cast<double>(value); }

}  // namespace detail
}  // namespace tenon

namespace std {

#define TENON_STD_FUNCTION(name)                   \
  template <tenon::detail::SymIntegerLike T>       \
  double name(const T& x) {                        \
    return std::name(tenon::detail::as_double(x)); \
  }
TENON_STD_FUNCTION(sqrt)
TENON_STD_FUNCTION(cbrt)
TENON_STD_FUNCTION(exp)
TENON_STD_FUNCTION(exp2)
TENON_STD_FUNCTION(log)
TENON_STD_FUNCTION(log2)
TENON_STD_FUNCTION(log10)
TENON_STD_FUNCTION(log1p)
TENON_STD_FUNCTION(sin)
TENON_STD_FUNCTION(cos)
TENON_STD_FUNCTION(tanh)
TENON_STD_FUNCTION(ceil)
TENON_STD_FUNCTION(floor)
TENON_STD_FUNCTION(round)
TENON_STD_FUNCTION(trunc)
#undef TENON_STD_FUNCTION

template <class A, class B>
requires tenon::detail::SymIntegerLike<A> || tenon::detail::SymIntegerLike<B>
double pow(const A& base, const B& exponent) {
  return std::pow(tenon::detail::as_double(base), tenon::detail::as_double(exponent));
}

template <class T>
requires tenon::detail::SymNumber<T> T min(const T& a, const T& b) { return tenon::sym_min(a, b); }
template <class T>
requires tenon::detail::SymNumber<T> T max(const T& a, const T& b) { return tenon::sym_max(a, b); }
template <class A, class B>
requires tenon::detail::MixedSymNumbers<A, B>
auto min(const A& a, const B& b) {
  using C = tenon::detail::SymCommon<A, B>;
  return tenon::sym_min(tenon::detail::sym_cast<C>(a), tenon::detail::sym_cast<C>(b));
}
template <class A, class B>
requires tenon::detail::MixedSymNumbers<A, B>
auto max(const A& a, const B& b) {
  using C = tenon::detail::SymCommon<A, B>;
  return tenon::sym_max(tenon::detail::sym_cast<C>(a), tenon::detail::sym_cast<C>(b));
}

template <class T>
T min(const tenon::Scalar<T>& a, const type_identity_t<T>& b) {
  return std::min(a.value(), b);
}
template <class T>
T max(const tenon::Scalar<T>& a, const type_identity_t<T>& b) {
  return std::max(a.value(), b);
}
template <class T>
T min(const type_identity_t<T>& a, const tenon::Scalar<T>& b) {
  return std::min(a, b.value());
}
template <class T>
T max(const type_identity_t<T>& a, const tenon::Scalar<T>& b) {
  return std::max(a, b.value());
}
template <class T>
T min(const tenon::Scalar<T>& a, const tenon::Scalar<T>& b) {
  return std::min(a.value(), b.value());
}
template <class T>
T max(const tenon::Scalar<T>& a, const tenon::Scalar<T>& b) {
  return std::max(a.value(), b.value());
}

}  // namespace std
