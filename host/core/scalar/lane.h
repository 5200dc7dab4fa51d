// Lane<T>: one element as a formula's value, for numbers, constants and tests.
//
// The routines are those of the block kernels, compiled for any x86-64, so results agree bit for
// bit.
#pragma once

#include "core/scalar/scalar.h"

#include <cmath>
#include <cstddef>

namespace tenon {

namespace lane {
#define TENON_INTERNAL inline
#define TENON_CONSTANT inline constexpr
#include "core/scalar/routines.inc"
#undef TENON_INTERNAL
#undef TENON_CONSTANT

template <ScalarCode code>
struct RoutineOf;
#define TENON_SCALAR(name, routine, operands, types) \
  template <>                                        \
  struct RoutineOf<ScalarCode::name> {               \
    using type = struct routine;                     \
  };
#include "core/scalar/codes.inc"
#undef TENON_SCALAR
}  // namespace lane

namespace formula {

template <class T>
struct LaneMask;

template <class T>
struct Lane {
  using FormulaValue = void;
  using mask_type = LaneMask<T>;
  static constexpr bool is_integral = std::is_integral_v<T>;

  T value;

  template <class L>
  Lane literal(L number) const {
    return {lane::Convert<T>::run(number)};
  }
  template <ScalarCode code, class... A>
  static auto apply(A... a);
  template <class U>
  auto cast_to() const;
};

template <class T>
struct LaneMask {
  using FormulaMask = void;
  using value_type = Lane<T>;

  bool value;

  Lane<T> value_like() const { return {T{}}; }
  template <class V>
  static V choose(LaneMask mask, V a, V b) {
    return mask.value ? a : b;
  }
  template <ScalarCode code, class... A>
  static LaneMask apply(A... a) {
    return {lane::RoutineOf<code>::type::run(a.value...)};
  }
  template <class B>
  requires std::is_same_v<B, bool>
  explicit operator B() const {
    static_assert(!std::is_same_v<B, bool>, "formula: use select(c, a, b) instead of ?: and if");
    return false;
  }
};

template <class T>
constexpr bool serves(char types) {
  if (types == 'A') return true;
  if (types == 'F') return std::is_floating_point_v<T>;
  if (types == 'N') return !std::is_same_v<T, bool>;
  return std::is_integral_v<T> && (types == 'I' || !std::is_same_v<T, bool>);
}

template <class T>
template <ScalarCode code, class... A>
auto Lane<T>::apply(A... a) {
  if constexpr (is_rounding(code) && std::is_integral_v<T>) {
    return Lane{a.value...};
  } else {
    static_assert(serves<T>(info_of(code).types),
                  "formula: a primitive that does not exist for one of the row's types");
    auto result = lane::RoutineOf<code>::type::run(a.value...);
    if constexpr (is_comparison(code))
      return LaneMask<T>{result};
    else
      return Lane{result};
  }
}

template <class T>
template <class U>
auto Lane<T>::cast_to() const {
  U result = lane::Convert<U>::run(value);
  if constexpr (std::is_same_v<U, bool>)
    return LaneMask<T>{result};
  else
    return Lane<U>{result};
}

/// Instantiates a formula for every compute type in `types`: rule breaks show up at compile time.
template <class F, unsigned types, unsigned masks, size_t... I>
constexpr void check_lanes(std::index_sequence<I...>) {
  auto check = []<class T>(T) {
    using R =
        std::invoke_result_t<F,
                             std::conditional_t<((masks >> I) & 1) != 0, LaneMask<T>, Lane<T>>...>;
    static_assert(sizeof(R) > 0);
  };
  if constexpr ((types & 1) != 0) check(float{}), check(double{});
  if constexpr ((types & 2) != 0)
    check(int8_t{}), check(uint8_t{}), check(int16_t{}), check(int32_t{}), check(int64_t{});
  if constexpr ((types & 4) != 0) check(bool{});
}

}  // namespace formula
}  // namespace tenon
