// SPDX-License-Identifier: Apache-2.0
// tenon/formula.hpp - formulas written in C++: what an op does to each element, as a scalar
// program.
//
//   formula_program f = formula_of_elements<2>([](auto x, auto gate) {
//     return x * gate * sigmoid(gate);
//   });
//
// The function runs once, on values that record what is done to them: so no `if` on them, use
// select(mask, a, b); both arms are computed. Numbers are converted to the type of the call.
// Write what does not overflow halfway: x * sigmoid(x), not x / (1 + exp(-x)). Header only; needs
// <tenon/plugin.h> and no host.
#pragma once

#include <tenon/plugin.h>

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon::plugin {

/// A scalar program and its memory. Moving keeps what `abi` gives valid, copying does not.
struct formula_program {
  uint32_t n_inputs = 0;
  std::vector<tn_instr> instructions;
  std::vector<uint32_t> outputs;

  tn_formula abi() const {
    tn_formula f{};
    f.struct_size = sizeof f;
    f.n_inputs = n_inputs;
    f.n_outputs = static_cast<uint32_t>(outputs.size());
    f.n_instr = static_cast<uint32_t>(instructions.size());
    f.instr = instructions.data();
    f.outputs = outputs.data();
    return f;
  }
};

/// A value per element while a formula is recorded.
struct element {
  formula_program* program;
  uint32_t id;

  template <class... A>
  static element made(uint16_t code, uint16_t dtype, const element& first, const A&... rest) {
    uint32_t ids[] = {first.id, rest.id..., 0, 0};
    return first.add(
        {code, dtype, ids[0], sizeof...(rest) > 0 ? ids[1] : 0, sizeof...(rest) > 1 ? ids[2] : 0});
  }
  /// A constant beside this value.
  template <class T>
  element constant(T value) const {
    uint64_t bits = 0;
    if constexpr (std::is_integral_v<T>)
      bits = static_cast<uint64_t>(static_cast<int64_t>(value));
    else
      bits = std::bit_cast<uint64_t>(static_cast<double>(value));
    uint16_t kind = std::is_integral_v<T> ? TN_I64 : TN_F64;
    return add(
        {TN_F_CONST, kind, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), 0});
  }
  element add(tn_instr instr) const {
    program->instructions.push_back(instr);
    auto made = program->n_inputs + static_cast<uint32_t>(program->instructions.size()) - 1;
    return {program, made};
  }
};

template <class T>
concept element_or_number =
    std::same_as<std::remove_cvref_t<T>, element> || std::is_arithmetic_v<T>;
template <class A, class B>
concept element_operands = element_or_number<A> && element_or_number<B> &&
    (std::same_as<A, element> || std::same_as<B, element>);

namespace detail {

template <class A, class B>
element binary(uint16_t code, uint16_t dtype, const A& a, const B& b) {
  if constexpr (!std::same_as<A, element>)
    return element::made(code, dtype, b.constant(a), b);
  else if constexpr (!std::same_as<B, element>)
    return element::made(code, dtype, a, a.constant(b));
  else
    return element::made(code, dtype, a, b);
}

}  // namespace detail

#define TENON_ELEMENT_BINARY(name, code, dtype)                          \
  template <class A, class B>                                            \
  requires element_operands<A, B> element name(const A& a, const B& b) { \
    return detail::binary(code, dtype, a, b);                            \
  }
TENON_ELEMENT_BINARY(operator+, TN_F_ADD, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(operator-, TN_F_SUB, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(operator*, TN_F_MUL, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(operator/, TN_F_DIV, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(truncdiv, TN_F_TRUNCDIV, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(floordiv, TN_F_FLOORDIV, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(fmod, TN_F_FMOD, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(mod, TN_F_MOD, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(min, TN_F_MIN, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(max, TN_F_MAX, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(pow, TN_F_POW, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(copysign, TN_F_COPYSIGN, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(atan2, TN_F_ATAN2, TN_F_COMPUTE_TYPE)
TENON_ELEMENT_BINARY(operator==, TN_F_EQ, TN_BOOL)
TENON_ELEMENT_BINARY(operator!=, TN_F_NE, TN_BOOL)
TENON_ELEMENT_BINARY(operator<, TN_F_LT, TN_BOOL)
TENON_ELEMENT_BINARY(operator<=, TN_F_LE, TN_BOOL)
TENON_ELEMENT_BINARY(operator>, TN_F_GT, TN_BOOL)
TENON_ELEMENT_BINARY(operator>=, TN_F_GE, TN_BOOL)
#undef TENON_ELEMENT_BINARY

#define TENON_ELEMENT_UNARY(name, code) \
  inline element name(const element& a) { return element::made(code, TN_F_COMPUTE_TYPE, a); }
TENON_ELEMENT_UNARY(operator-, TN_F_NEG)
TENON_ELEMENT_UNARY(abs, TN_F_ABS)
TENON_ELEMENT_UNARY(sign, TN_F_SIGN)
TENON_ELEMENT_UNARY(sqrt, TN_F_SQRT)
TENON_ELEMENT_UNARY(rsqrt, TN_F_RSQRT)
TENON_ELEMENT_UNARY(exp, TN_F_EXP)
TENON_ELEMENT_UNARY(expm1, TN_F_EXPM1)
TENON_ELEMENT_UNARY(log, TN_F_LOG)
TENON_ELEMENT_UNARY(log2, TN_F_LOG2)
TENON_ELEMENT_UNARY(log1p, TN_F_LOG1P)
TENON_ELEMENT_UNARY(sin, TN_F_SIN)
TENON_ELEMENT_UNARY(cos, TN_F_COS)
TENON_ELEMENT_UNARY(tan, TN_F_TAN)
TENON_ELEMENT_UNARY(atan, TN_F_ATAN)
TENON_ELEMENT_UNARY(tanh, TN_F_TANH)
TENON_ELEMENT_UNARY(sigmoid, TN_F_SIGMOID)
TENON_ELEMENT_UNARY(erf, TN_F_ERF)
TENON_ELEMENT_UNARY(floor, TN_F_FLOOR)
TENON_ELEMENT_UNARY(ceil, TN_F_CEIL)
TENON_ELEMENT_UNARY(trunc, TN_F_TRUNC)
TENON_ELEMENT_UNARY(round, TN_F_ROUND)
#undef TENON_ELEMENT_UNARY

/// a where the mask holds, else b.
template <class A, class B>
requires element_operands<A, B> element select(const element& mask, const A& a, const B& b) {
  auto as_element = [&](const auto& x, const auto& other) {
    if constexpr (std::same_as<std::remove_cvref_t<decltype(x)>, element>)
      return x;
    else
      return other.constant(x);
  };
  return element::made(TN_F_SELECT, TN_F_COMPUTE_TYPE, mask, as_element(a, b), as_element(b, a));
}

/// Runs `f` on `n` recording values; it returns one element, or a tuple of several.
template <size_t n, class F>
formula_program formula_of_elements(F f) {
  formula_program program;
  program.n_inputs = n;
  auto result = [&]<size_t... i>(std::index_sequence<i...>) {
    return f(element{&program, static_cast<uint32_t>(i)}...);
  }
  (std::make_index_sequence<n>{});
  if constexpr (std::same_as<decltype(result), element>)
    program.outputs.push_back(result.id);
  else
    std::apply([&](const auto&... r) { (program.outputs.push_back(r.id), ...); }, result);
  return program;
}

}  // namespace tenon::plugin
