// Loops of primitives over blocks, and which loop a primitive of some types is.
#pragma once

namespace blocks::BLOCKS_LEVEL {

// `out` may be an operand at the same elements, never at others.
#define BLOCKS_EACH _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)

template <class F, class T, class R = T>
void unary(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* to = static_cast<R*>(out);
  auto* x = static_cast<const T*>(a);
  BLOCKS_EACH to[i] = F::run(x[i]);
}

template <class F, class T, class R>
void of_blocks(void* out, const void* a, const void* b, const void*, int64_t n) {
  auto* to = static_cast<R*>(out);
  auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  BLOCKS_EACH to[i] = F::run(x[i], y[i]);
}
template <class F, class T, class R>
void of_first_single(void* out, const void* a, const void* b, const void*, int64_t n) {
  auto* to = static_cast<R*>(out);
  T x = *static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  BLOCKS_EACH to[i] = F::run(x, y[i]);
}
template <class F, class T, class R>
void of_second_single(void* out, const void* a, const void* b, const void*, int64_t n) {
  auto* to = static_cast<R*>(out);
  auto* x = static_cast<const T*>(a);
  T y = *static_cast<const T*>(b);
  BLOCKS_EACH to[i] = F::run(x[i], y);
}
template <class F, class T, class R = T>
Apply binary(Shape shape) {
  return shape == Shape::blocks         ? of_blocks<F, T, R>
         : shape == Shape::first_single ? of_first_single<F, T, R>
                                        : of_second_single<F, T, R>;
}

// Of places by a size: through doubles, which are exact here, since a division of 64 bits takes 20
// cycles. A quotient may be off by one before it is put right.
template <bool of_rest>
void divide_places(void* out, const void* a, const void* b, const void*, int64_t n) {
  auto* to = static_cast<int64_t*>(out);
  auto* x = static_cast<const int64_t*>(a);
  int64_t y = *static_cast<const int64_t*>(b), all = 0;
  for (int64_t i = 0; i < n; ++i) all |= x[i];
  constexpr int64_t most = int64_t{1} << 50;
  if (y <= 0 || all < 0 || all >= most) {
    using F = FloorDiv;
    for (int64_t i = 0; i < n; ++i) to[i] = of_rest ? Mod::run(x[i], y) : F::run(x[i], y);
    return;
  }
  double part = 1.0 / static_cast<double>(y);
  BLOCKS_EACH {
    auto q = static_cast<int64_t>(static_cast<double>(x[i]) * part);
    int64_t rest = x[i] - q * y;
    q += rest < 0 ? -1 : rest >= y ? 1 : 0;
    to[i] = of_rest ? x[i] - q * y : q;
  }
}

template <class T>
void select(void* out, const void* a, const void* b, const void* c, int64_t n) {
  auto* to = static_cast<T*>(out);
  auto* mask = static_cast<const uint8_t*>(a);
  auto *x = static_cast<const T*>(b), *y = static_cast<const T*>(c);
  BLOCKS_EACH to[i] = mask[i] ? x[i] : y[i];
}

template <class To, class From>
void cast(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* to = static_cast<To*>(out);
  auto* x = static_cast<const From*>(a);
  if constexpr (is_real<From> && !is_real<To>) {
    BLOCKS_EACH to[i] = to_integer<To>(x[i]);
  } else {
    BLOCKS_EACH to[i] = static_cast<To>(x[i]);
  }
}
template <class From>
void cast_to_truth(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* to = static_cast<uint8_t*>(out);
  auto* x = static_cast<const From*>(a);
  BLOCKS_EACH to[i] = x[i] != 0;
}

// ---- which loop

template <class From>
Apply cast_from(Type to) {
  switch (to) {
    case Type::f32:
      return cast<float, From>;
    case Type::f64:
      return cast<double, From>;
    case Type::i64:
      return cast<int64_t, From>;
    case Type::i32:
      return cast<int32_t, From>;
    case Type::i16:
      return cast<int16_t, From>;
    case Type::i8:
      return cast<int8_t, From>;
    case Type::u8:
      return cast<uint8_t, From>;
    default:
      return cast_to_truth<From>;
  }
}

template <class T>
Apply comparison(uint16_t code, Shape shape) {
  return by_comparison(code, [&]<class F> { return binary<F, T, uint8_t>(shape); });
}

template <class T>
Apply arithmetic(uint16_t code, Shape shape) {
  switch (code) {
    case TN_F_NEG:
      return unary<Neg, T>;
    case TN_F_ABS:
      return unary<Abs, T>;
    case TN_F_SIGN:
      return unary<Sign, T>;
    case TN_F_ADD:
      return binary<Add, T>(shape);
    case TN_F_SUB:
      return binary<Sub, T>(shape);
    case TN_F_MUL:
      return binary<Mul, T>(shape);
    case TN_F_TRUNCDIV:
      return binary<TruncDiv, T>(shape);
    case TN_F_FLOORDIV:
      return binary<FloorDiv, T>(shape);
    case TN_F_FMOD:
      return binary<Fmod, T>(shape);
    case TN_F_MOD:
      return binary<Mod, T>(shape);
    case TN_F_MIN:
      return binary<Min, T>(shape);
    case TN_F_MAX:
      return binary<Max, T>(shape);
    case TN_F_POW:
      return binary<Pow, T>(shape);
    default:
      return comparison<T>(code, shape);
  }
}

template <class T>
struct Row {
  uint16_t code;
  Apply loop;
};
template <class T>
Apply function(uint16_t code) {
  constexpr Row<T> rows[] = {{TN_F_SQRT, unary<Sqrt, T>},       {TN_F_RSQRT, unary<Rsqrt, T>},
                             {TN_F_EXP, unary<Exp, T>},         {TN_F_EXP2, unary<Exp2, T>},
                             {TN_F_EXPM1, unary<Expm1, T>},     {TN_F_LOG, unary<Log, T>},
                             {TN_F_LOG2, unary<Log2, T>},       {TN_F_LOG10, unary<Log10, T>},
                             {TN_F_LOG1P, unary<Log1p, T>},     {TN_F_SIN, unary<Sin, T>},
                             {TN_F_COS, unary<Cos, T>},         {TN_F_TAN, unary<Tan, T>},
                             {TN_F_ASIN, unary<Asin, T>},       {TN_F_ACOS, unary<Acos, T>},
                             {TN_F_ATAN, unary<Atan, T>},       {TN_F_SINH, unary<Sinh, T>},
                             {TN_F_COSH, unary<Cosh, T>},       {TN_F_TANH, unary<Tanh, T>},
                             {TN_F_ASINH, unary<Asinh, T>},     {TN_F_ACOSH, unary<Acosh, T>},
                             {TN_F_ATANH, unary<Atanh, T>},     {TN_F_SIGMOID, unary<Sigmoid, T>},
                             {TN_F_ERF, unary<Erf, T>},         {TN_F_ERFC, unary<Erfc, T>},
                             {TN_F_ERFINV, unary<Erfinv, T>},   {TN_F_LGAMMA, unary<Lgamma, T>},
                             {TN_F_DIGAMMA, unary<Digamma, T>}, {TN_F_FLOOR, unary<Floor, T>},
                             {TN_F_CEIL, unary<Ceil, T>},       {TN_F_TRUNC, unary<Trunc, T>},
                             {TN_F_ROUND, unary<Round, T>}};
  if (Apply loop = vector_loop<T>(code)) return loop;
  for (const Row<T>& row : rows)
    if (row.code == code) return row.loop;
  return nullptr;
}

template <class T>
Apply real(uint16_t code, Shape shape) {
  if (code == TN_F_DIV) return binary<Div, T>(shape);
  if (code == TN_F_COPYSIGN) return binary<Copysign, T>(shape);
  if (code == TN_F_ATAN2) return binary<Atan2, T>(shape);
  if (Apply loop = arithmetic<T>(code, shape)) return loop;
  return function<T>(code);
}

bool is_rounding(uint16_t code) {
  return code == TN_F_FLOOR || code == TN_F_CEIL || code == TN_F_TRUNC || code == TN_F_ROUND;
}

template <class T>
Apply integer(uint16_t code, Shape shape) {
  switch (code) {
    case TN_F_BAND:
      return binary<BAnd, T>(shape);
    case TN_F_BOR:
      return binary<BOr, T>(shape);
    case TN_F_BXOR:
      return binary<BXor, T>(shape);
    case TN_F_BNOT:
      return unary<BNot, T>;
    case TN_F_SHL:
      return binary<Shl, T>(shape);
    case TN_F_SHR:
      return binary<Shr, T>(shape);
    default:
      return is_rounding(code) ? unary<Same, T> : arithmetic<T>(code, shape);
  }
}

Apply truth(uint16_t code, Shape shape) {
  switch (code) {
    case TN_F_ADD:
    case TN_F_BOR:
    case TN_F_MAX:
      return binary<BOr, uint8_t>(shape);
    case TN_F_MUL:
    case TN_F_BAND:
    case TN_F_MIN:
      return binary<BAnd, uint8_t>(shape);
    case TN_F_SUB:
    case TN_F_BXOR:
      return binary<BXor, uint8_t>(shape);
    case TN_F_BNOT:
      return unary<Not, uint8_t>;
    case TN_F_POW:  // 0 to the 0 is 1
      return binary<TruthPow, uint8_t>(shape);
    case TN_F_ABS:
    case TN_F_SIGN:
      return unary<Same, uint8_t>;
    default:
      return is_rounding(code) ? unary<Same, uint8_t> : comparison<uint8_t>(code, shape);
  }
}

/// f of a type given as a value: f(T{}), where truth is a byte.
template <class F>
auto with_type(Type type, F f) {
  switch (type) {
    case Type::f32:
      return f(float{});
    case Type::f64:
      return f(double{});
    case Type::i64:
      return f(int64_t{});
    case Type::i32:
      return f(int32_t{});
    case Type::i16:
      return f(int16_t{});
    case Type::i8:
      return f(int8_t{});
    default:
      return f(uint8_t{});
  }
}

Apply find_primitive(uint16_t code, Type operand, Type result, Shape shape) {
  if (code == TN_F_SELECT)
    return with_type(result, [](auto x) -> Apply { return select<decltype(x)>; });
  if (code == TN_F_CAST)
    return with_type(operand, [&](auto x) -> Apply { return cast_from<decltype(x)>(result); });
  if (operand == Type::truth) return truth(code, shape);
  if (operand == Type::i64 && shape == Shape::second_single) {
    if (code == TN_F_FLOORDIV) return divide_places<false>;
    if (code == TN_F_MOD) return divide_places<true>;
  }
  return with_type(operand, [&](auto x) -> Apply {
    if constexpr (is_real<decltype(x)>)
      return real<decltype(x)>(code, shape);
    else
      return integer<decltype(x)>(code, shape);
  });
}

// ---- between memory and registers

template <class To, class From, To (*f)(From)>
void converted(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* to = static_cast<To*>(out);
  auto* x = static_cast<const From*>(a);
  BLOCKS_EACH to[i] = f(x[i]);
}
constexpr Apply from_half = converted<float, uint16_t, float_of_half>;
constexpr Apply from_bf16 = converted<float, uint16_t, float_of_bf16>;
constexpr Apply to_half = converted<uint16_t, float, half_of>;
constexpr Apply to_bf16 = converted<uint16_t, float, bf16_of>;
constexpr Apply to_truth = cast_to_truth<uint8_t>;

}  // namespace blocks::BLOCKS_LEVEL
