// The scalar primitives that formulas are written in, over values of any kind.
//
// A formula is a captureless generic lambda, such as `[](auto x) { return x * sigmoid(x); }`. It is
// run with three kinds of x, so it uses only what all of them have: the operators and functions
// below, unqualified.
//   Lane<T>      one element of compute type T: numbers, constants, tests (scalar/lane.h)
//   Sym          records the primitives as a small program (scalar_program.h)
//   Vec<T>       a register, for rows that are compiled as one loop
// A comparison gives a mask, which knows `& | ^ ! ~` and `select(mask, a, b)`; both arms of a
// select are evaluated. Plain numbers mix with values and take their type.
//
// A kind of value has: `FormulaValue` (a tag type), `mask_type`, `is_integral`, `apply<code>(a,
// b)`, `literal(number)` (a value of the same type and place) and `cast_to<T>()`; its mask has
// `FormulaMask`, `value_type` and the same `apply`.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>

namespace tenon {

/// Codes of recorded primitives; frozen, equal to TN_F_* of tenon/plugin.h.
enum class ScalarCode : uint16_t {
#define TENON_SCALAR(name, routine, operands, types) name,
#include "core/scalar/codes.inc"
#undef TENON_SCALAR
};

inline constexpr int n_scalar_codes = static_cast<int>(ScalarCode::round) + 1;

struct ScalarCodeInfo {
  const char* name;
  int operands;
  char types;  ///< compute types: A all, N all but bool, F floats, I integers and bool, S integers
};

inline constexpr ScalarCodeInfo scalar_codes[] = {
#define TENON_SCALAR(name, routine, operands, types) {#name, operands, #types[0]},
#include "core/scalar/codes.inc"
#undef TENON_SCALAR
};

constexpr const ScalarCodeInfo& info_of(ScalarCode code) {
  return scalar_codes[static_cast<int>(code)];
}
constexpr bool is_comparison(ScalarCode code) {
  return code >= ScalarCode::eq && code <= ScalarCode::ge;
}
/// floor, ceil, trunc, round: leave integers as they are.
constexpr bool is_rounding(ScalarCode code) { return code >= ScalarCode::floor; }

namespace formula {

template <class V>
concept Value = requires {
  typename V::FormulaValue;
};
template <class M>
concept Mask = requires {
  typename M::FormulaMask;
};
template <class L>
concept Literal = std::is_arithmetic_v<L>;

template <class... A>
struct FirstValue;
template <class A, class... Rest>
struct FirstValue<A, Rest...> : FirstValue<Rest...> {};
template <Value A, class... Rest>
struct FirstValue<A, Rest...> {
  using type = A;
};
template <class... A>
using ValueOf = typename FirstValue<A...>::type;

/// At least one value; the others are values or plain numbers.
template <class... A>
concept Operands = (Value<A> || ...) && ((Value<A> || Literal<A>)&&...);

/// `a` as a value like `like`: a number becomes a constant of its type.
template <Value V, class A>
V as_value(V like, A a) {
  if constexpr (Literal<A>) {
    static_assert(std::is_integral_v<A> || !V::is_integral,
                  "formula: fractional literal in a formula that also serves integer dtypes");
    return like.literal(a);
  } else {
    static_assert(std::is_same_v<V, A>, "formula: values of different types; use cast<T>(x)");
    return a;
  }
}

template <class A, class... Rest>
auto first_value(A a, [[maybe_unused]] Rest... rest) {
  if constexpr (Value<A>)
    return a;
  else
    return first_value(rest...);
}

template <ScalarCode code, class... A>
auto apply(A... a) {
  using V = ValueOf<A...>;
  V like = first_value(a...);
  return V::template apply<code>(as_value<V>(like, a)...);
}

// One function for each primitive of one or two operands, named like it; the others follow below.
#define TENON_FUNCTION_0(name)
#define TENON_FUNCTION_1(name)         \
  template <Value V>                   \
  auto name(V a) {                     \
    return apply<ScalarCode::name>(a); \
  }
#define TENON_FUNCTION_2(name) \
  template <class A, class B>  \
  requires Operands<A, B>      \
  auto name(A a, B b) { return apply<ScalarCode::name>(a, b); }
#define TENON_FUNCTION_3(name)
#define TENON_SCALAR(name, routine, operands, types) TENON_FUNCTION_##operands(name)
#include "core/scalar/codes.inc"
#undef TENON_SCALAR
#undef TENON_FUNCTION_0
#undef TENON_FUNCTION_1
#undef TENON_FUNCTION_2
#undef TENON_FUNCTION_3

#define TENON_OPERATOR(symbol, code)                                       \
  template <class A, class B>                                              \
  requires Operands<A, B>                                                  \
  auto operator symbol(A a, B b) { return apply<ScalarCode::code>(a, b); } \
  static_assert(true)
TENON_OPERATOR(+, add);
TENON_OPERATOR(-, sub);
TENON_OPERATOR(*, mul);
TENON_OPERATOR(&, band);
TENON_OPERATOR(|, bor);
TENON_OPERATOR(^, bxor);
TENON_OPERATOR(==, eq);
TENON_OPERATOR(!=, ne);
TENON_OPERATOR(<, lt);
TENON_OPERATOR(<=, le);
TENON_OPERATOR(>, gt);
TENON_OPERATOR(>=, ge);
#undef TENON_OPERATOR

template <class A, class B>
requires Operands<A, B>
auto operator/(A a, B b) {
  static_assert(!ValueOf<A, B>::is_integral,
                "formula: / is true division; integers have truncdiv and floordiv");
  return apply<ScalarCode::div>(a, b);
}
template <Value V>
auto operator-(V a) {
  return apply<ScalarCode::neg>(a);
}
template <Value V>
auto operator~(V a) {
  return apply<ScalarCode::bnot>(a);
}

template <Mask M>
M operator&(M a, M b) {
  return M::template apply<ScalarCode::band>(a, b);
}
template <Mask M>
M operator|(M a, M b) {
  return M::template apply<ScalarCode::bor>(a, b);
}
template <Mask M>
M operator^(M a, M b) {
  return M::template apply<ScalarCode::bxor>(a, b);
}
template <Mask M>
M operator!(M a) {
  return M::template apply<ScalarCode::bnot>(a);
}
template <Mask M>
M operator~(M a) {
  return !a;
}

/// `mask ? a : b`. Two plain numbers give a value of the compute type.
template <Mask M, class A, class B>
auto select(M mask, A a, B b) {
  using V = typename M::value_type;
  if constexpr (Mask<A>) {
    return (mask & a) | (!mask & b);
  } else if constexpr (Literal<A> && Literal<B>) {
    V like = mask.value_like();
    return M::choose(mask, as_value<V>(like, a), as_value<V>(like, b));
  } else {
    auto like = first_value(a, b);
    return M::choose(mask, as_value(like, a), as_value(like, b));
  }
}

/// 1 where the mask holds, else 0, in the compute type.
template <Mask M>
auto as_number(M mask) {
  return select(mask, 1, 0);
}

/// Conversion to the C++ type T of a computing dtype; `cast<bool>` gives a mask.
template <class T, Value V>
auto cast(V a) {
  return a.template cast_to<T>();
}

template <class... V>
struct Outputs {
  std::tuple<V...> values;
};
/// Several results of one formula.
template <class... V>
Outputs<V...> outputs(V... values) {
  return {{values...}};
}

}  // namespace formula
}  // namespace tenon
