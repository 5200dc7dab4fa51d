// What primitives do to one element: one struct each, so that a loop over it is vectorised.
//
// Problem: loops over these functions must be vectorised by the compiler, at any width, with the
//   limits that the host's primitives have (NaN, infinities, signed zeros, subnormal numbers).
// Method: no branches, choices by selection. exp(x) = 2^n exp(r) with x = n ln 2 + r, where r comes
//   from two subtractions, the first of which is exact, and exp(r) from a polynomial of degree 6.
//   log takes n and m in [0.75, 1.5) out of the bits, log1p adds what 1 + x was rounded by, expm1
//   leaves the 1 of exp(r) away. sigmoid goes through exp(-|x|). tanh and erf
//   are odd polynomials near 0 and 1 - 2 / (exp(2x) + 1) and 1 - 2^p(x) above. tools/fit_math.py
//   prints the coefficients. The other functions of f32, and all of f64, are those of the C
//   library, called for each element in double, where no host offers its loops (machine.cpp).
// Cost: 0.1 to 0.4 ns an element for the polynomials, 5 to 20 ns for a call.
// Errors: 2.5 ulp.
// Reference: Muller et al., Handbook of Floating-Point Arithmetic, chapter 10.
#pragma once

namespace blocks::BLOCKS_LEVEL {

#define BLOCKS_INLINE static inline __attribute__((always_inline))

template <class T>
constexpr bool is_real = false;
template <>
constexpr bool is_real<float> = true;
template <>
constexpr bool is_real<double> = true;
template <class T>
constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0);

/// As many f32 as the level has lanes: where the compiler would not find them by itself.
#if defined(__AVX512F__)
constexpr size_t vector_bytes = 64;
#elif defined(__AVX2__)
constexpr size_t vector_bytes = 32;
#else
constexpr size_t vector_bytes = 16;
#endif
typedef float Vector __attribute__((vector_size(vector_bytes)));
typedef float InMemory __attribute__((vector_size(vector_bytes), aligned(4), may_alias));
constexpr int64_t lanes = vector_bytes / sizeof(float);
template <>
constexpr bool is_real<Vector> = true;

/// Integers wrap: they are computed without a sign, in 32 bits at least.
template <size_t bytes>
struct WideOf {
  using type = uint32_t;
};
template <>
struct WideOf<8> {
  using type = uint64_t;
};
template <class T>
using Wide = typename WideOf<sizeof(T)>::type;

BLOCKS_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
BLOCKS_INLINE float float_of(uint32_t x) { return __builtin_bit_cast(float, x); }

BLOCKS_INLINE float root(float x) { return __builtin_sqrtf(x); }
BLOCKS_INLINE double root(double x) { return __builtin_sqrt(x); }
BLOCKS_INLINE float magnitude(float x) { return __builtin_fabsf(x); }
BLOCKS_INLINE double magnitude(double x) { return __builtin_fabs(x); }
BLOCKS_INLINE float with_sign(float x, float s) { return __builtin_copysignf(x, s); }
BLOCKS_INLINE double with_sign(double x, double s) { return __builtin_copysign(x, s); }

// ---- functions of f32 as polynomials

/// c[0] + c[1] x + ..., by Horner's rule.
template <int n>
BLOCKS_INLINE float polynomial(float x, const float (&c)[n]) {
  float sum = c[n - 1];
#pragma GCC unroll 12
  for (int i = n - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

BLOCKS_INLINE float clamped(float x, float low, float high) {
  float above = x < low ? low : x;  // NaN stays
  return above > high ? high : above;
}

/// x = n ln 2 + r; `shifted` has n in its low bits.
struct ExpArgument {
  float r, shifted;
};
BLOCKS_INLINE ExpArgument exp_argument(float x) {
  constexpr float integer_place = 0x1.8p23f;
  float shifted = x * 0x1.715476p+0f + integer_place;
  float n = shifted - integer_place;
  float r = x - n * 0x1.62e4p-1f;
  return {r - n * 0x1.7f7d1cp-20f, shifted};
}
/// exp(r) - 1.
BLOCKS_INLINE float expm1_near_zero(float r) {
  constexpr float terms[] = {0.49999994f, 0.166665167f, 0.0416681021f, 0.00836919248f,
                             0.00138388935f};
  return (polynomial(r, terms) * r + 1) * r;
}
BLOCKS_INLINE float exp_near_zero(float r) { return expm1_near_zero(r) + 1; }
BLOCKS_INLINE float exp2_near_zero(float r) {
  constexpr float terms[] = {0.693147182f,   0.240226507f,   0.0555037819f,
                             0.00961847231f, 0.00133838039f, 0.000152801309f};
  return polynomial(r, terms) * r + 1;
}
// 2^(n + 64) 2^-64 or 2^(n - 64) 2^64: neither factor leaves the normal numbers, and a result that
// does is rounded once.
BLOCKS_INLINE float scaled(float p, float shifted, bool is_negative) {
  uint32_t place = is_negative ? (127u + 64u) << 23 : (127u - 64u) << 23;
  return p * float_of((bits_of(shifted) << 23) + place) * (is_negative ? 0x1p-64f : 0x1p64f);
}
/// 2^n where that is a normal number.
BLOCKS_INLINE float power_of_two(float shifted) {
  return float_of((bits_of(shifted) << 23) + (127u << 23));
}

BLOCKS_INLINE float exp_f32(float x) {
  ExpArgument a = exp_argument(clamped(x, -104, 89));
  return scaled(exp_near_zero(a.r), a.shifted, x < 0);
}
// 2^n (exp(r) - 1) + (2^n - 1), halved on the way: 2^128 would be infinite.
BLOCKS_INLINE float expm1_f32(float x) {
  ExpArgument a = exp_argument(clamped(x, -25, 89));
  float half = float_of((bits_of(a.shifted) << 23) + (126u << 23));
  float sum = half * expm1_near_zero(a.r) + (half - 0.5f);
  return x == 0 ? x : sum + sum;
}
BLOCKS_INLINE float exp2_f32(float x) {
  constexpr float integer_place = 0x1.8p23f;
  float inside = clamped(x, -151, 129);
  float shifted = inside + integer_place;
  return scaled(exp2_near_zero(inside - (shifted - integer_place)), shifted, x < 0);
}
BLOCKS_INLINE float log_f32(float x) {
  constexpr float terms[] = {0.333333403f,  -0.250001669f,  0.199995652f,
                             -0.166551694f, 0.142771751f,   -0.127311826f,
                             0.116956756f,  -0.0908706635f, 0.0373980552f};
  constexpr uint32_t low = 0x3f400000;  // 0.75
  bool is_subnormal = x < 0x1p-126f;
  uint32_t above = bits_of(is_subnormal ? x * 0x1p23f : x) - low;
  float m = float_of((above & 0x007fffff) + low);
  float k = static_cast<float>(static_cast<int32_t>(above) >> 23) - (is_subnormal ? 23.0f : 0.0f);
  float f = m - 1;
  float q = polynomial(f, terms) * f - 0.5f;
  float result = k * 0x1.62e4p-1f + (f + (q * (f * f) + k * 0x1.7f7d1cp-20f));
  float ordinary = x < __builtin_inff() ? result : x;
  float positive = x == 0 ? -__builtin_inff() : ordinary;
  return x < 0 ? __builtin_nanf("") : positive;
}
// log(u) with u = 1 + x, and what u was rounded by.
BLOCKS_INLINE float log1p_f32(float x) {
  float u = 1 + x, rest = x - (u - 1);
  bool is_rounded = u > 0 && u < __builtin_inff();
  float sum = log_f32(u) + (is_rounded ? rest : 0.0f) / (is_rounded ? u : 1.0f);
  return x == 0 ? x : sum;
}
BLOCKS_INLINE float sigmoid_f32(float x) {
  float a = -magnitude(x);
  ExpArgument argument = exp_argument(a < -104 ? -104 : a);
  float e = scaled(exp_near_zero(argument.r), argument.shifted, true);
  return (x < 0 ? e : 1.0f) / (e + 1);
}
BLOCKS_INLINE float tanh_f32(float x) {
  constexpr float terms[] = {-0.333333313f, 0.133332223f,    -0.053948462f,
                             0.0217087474f, -0.00819507334f, 0.00215761387f};
  float a = magnitude(x), z = x * x;
  float near = a * z * polynomial(z, terms) + a;
  float twice = a + a;
  ExpArgument argument = exp_argument(twice > 20 ? 20 : twice);  // beyond 10 the result is 1
  float far = 1 - 2 / (exp_near_zero(argument.r) * power_of_two(argument.shifted) + 1);
  return with_sign(a >= 0.625f ? far : near, x);
}
BLOCKS_INLINE float erf_f32(float x) {
  constexpr float near_terms[] = {0.128379151f,   -0.376124799f,  0.112816177f,
                                  -0.0267585646f, 0.00498068752f, -0.000592512486f};
  constexpr float far_terms[] = {-0.00294394093f, -1.61526704f,  -0.939977407f,
                                 -0.130681083f,   0.0222268216f, -0.00177389325f};
  constexpr float integer_place = 0x1.8p23f;
  float a = magnitude(x), z = x * x;
  float near = x * polynomial(z, near_terms) + x;
  float exponent = polynomial(a > 3.93f ? 3.93f : a, far_terms);  // beyond, the result is 1
  float shifted = exponent + integer_place;
  float rest = exponent - (shifted - integer_place);
  float far = 1 - exp2_near_zero(rest) * power_of_two(shifted);
  return a >= 0.93f ? with_sign(far, x) : near;
}

// ---- one struct for each primitive

#define BLOCKS_UNARY(Name, body)   \
  struct Name {                    \
    template <class T>             \
    BLOCKS_INLINE T run(T x) {     \
      return static_cast<T>(body); \
    }                              \
  };
#define BLOCKS_BINARY(Name, body)   \
  struct Name {                     \
    template <class T>              \
    BLOCKS_INLINE T run(T x, T y) { \
      return static_cast<T>(body);  \
    }                               \
  };

template <class T>
BLOCKS_INLINE auto wide(T x) {
  if constexpr (is_real<T>)
    return x;
  else
    return static_cast<Wide<T>>(x);
}
BLOCKS_UNARY(Neg, -wide(x))
BLOCKS_BINARY(Add, wide(x) + wide(y))
BLOCKS_BINARY(Sub, wide(x) - wide(y))
BLOCKS_BINARY(Mul, wide(x) * wide(y))
BLOCKS_BINARY(Div, x / y)
BLOCKS_UNARY(Sign, (x > 0) - (x < 0))
BLOCKS_UNARY(Same, x)
// NaN in either operand gives NaN, equal ones the first. Without a branch, which data would decide.
BLOCKS_BINARY(Min, ((y < x) | (y != y)) ? y : x)
BLOCKS_BINARY(Max, ((x < y) | (y != y)) ? y : x)

struct Abs {
  template <class T>
  BLOCKS_INLINE T run(T x) {
    if constexpr (is_real<T>)
      return magnitude(x);
    else
      return is_signed<T> && x < 0 ? static_cast<T>(-wide(x)) : x;
  }
};

BLOCKS_BINARY(BAnd, x& y)
BLOCKS_BINARY(BOr, x | y)
BLOCKS_BINARY(BXor, x ^ y)
BLOCKS_UNARY(BNot, ~x)
BLOCKS_UNARY(Not, x == 0)
BLOCKS_BINARY(TruthPow, x | (y == 0))
// Counts outside of the bits leave 0, or the sign.
struct Shl {
  template <class T>
  BLOCKS_INLINE T run(T x, T y) {
    constexpr Wide<T> bits = sizeof(T) * 8;
    auto count = static_cast<Wide<T>>(y);
    return count < bits ? static_cast<T>(wide(x) << (count & (bits - 1))) : T{0};
  }
};
struct Shr {
  template <class T>
  BLOCKS_INLINE T run(T x, T y) {
    constexpr Wide<T> bits = sizeof(T) * 8;
    auto count = static_cast<Wide<T>>(y);
    if constexpr (is_signed<T>) return static_cast<T>(x >> (count < bits ? count : bits - 1));
    return count < bits ? static_cast<T>(x >> (count & (bits - 1))) : T{0};
  }
};

// Divisions of integers never trap: by 0 they give 0, the minimum by -1 gives itself.
template <class T>
struct Quotient {
  T whole, rest;
};
template <class T>
BLOCKS_INLINE Quotient<T> divided(T x, T y) {
  if (y == 0) return {0, 0};
  if (is_signed<T> && y == static_cast<T>(-1)) return {static_cast<T>(-wide(x)), 0};
  return {static_cast<T>(x / y), static_cast<T>(x % y)};
}
template <class T>
BLOCKS_INLINE bool has_other_sign(T rest, T y) {
  return rest != 0 && (rest < 0) != (y < 0);
}
BLOCKS_INLINE float remainder_of(float x, float y) {
  return static_cast<float>(__builtin_fmod(x, y));
}
BLOCKS_INLINE double remainder_of(double x, double y) { return __builtin_fmod(x, y); }
BLOCKS_INLINE float below(float x) { return __builtin_floorf(x); }
BLOCKS_INLINE double below(double x) { return __builtin_floor(x); }

/// As ATen: the quotient of what the divisor goes into, to the nearest whole number.
template <class T>
BLOCKS_INLINE T floor_quotient(T x, T y) {
  if (y == 0) return x / y;
  T rest = remainder_of(x, y);
  T quotient = (x - rest) / y;
  if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return with_sign(T{0}, x / y);
  T whole = below(quotient);
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}
struct FloorDiv {
  template <class T>
  BLOCKS_INLINE T run(T x, T y) {
    if constexpr (is_real<T>) {
      return floor_quotient(x, y);
    } else {
      Quotient<T> q = divided(x, y);
      return static_cast<T>(q.whole - (is_signed<T> && has_other_sign(q.rest, y)));
    }
  }
};
struct TruncDiv {
  template <class T>
  BLOCKS_INLINE T run(T x, T y) {
    if constexpr (is_real<T>)
      return static_cast<T>(sizeof(T) == 4 ? __builtin_truncf(static_cast<float>(x / y))
                                           : __builtin_trunc(x / y));
    else
      return divided(x, y).whole;
  }
};
struct Fmod {
  template <class T>
  BLOCKS_INLINE T run(T x, T y) {
    if constexpr (is_real<T>)
      return remainder_of(x, y);
    else
      return divided(x, y).rest;
  }
};
struct Mod {
  template <class T>
  BLOCKS_INLINE T run(T x, T y) {
    T rest = Fmod::run(x, y);
    if constexpr (is_signed<T> || is_real<T>)
      if (has_other_sign(rest, y)) return static_cast<T>(rest + y);
    return rest;
  }
};
struct Pow {
  template <class T>
  BLOCKS_INLINE T run(T x, T y) {
    if constexpr (is_real<T>)
      return static_cast<T>(__builtin_pow(x, y));
    else
      return static_cast<T>(
          inductor::integer_power(static_cast<int64_t>(x), static_cast<int64_t>(y)));
  }
};
BLOCKS_BINARY(Copysign, with_sign(x, y))
BLOCKS_BINARY(Atan2, __builtin_atan2(x, y))

#define BLOCKS_COMPARISON(Name, op)       \
  struct Name {                           \
    template <class T>                    \
    BLOCKS_INLINE uint8_t run(T x, T y) { \
      return x op y;                      \
    }                                     \
    template <class V>                    \
    BLOCKS_INLINE auto mask(V x, V y) {   \
      return x op y;                      \
    }                                     \
  };
BLOCKS_COMPARISON(Eq, ==)
BLOCKS_COMPARISON(Ne, !=)
BLOCKS_COMPARISON(Lt, <)
BLOCKS_COMPARISON(Le, <=)
BLOCKS_COMPARISON(Gt, >)
BLOCKS_COMPARISON(Ge, >=)

BLOCKS_UNARY(Sqrt, root(x))
BLOCKS_UNARY(Rsqrt, T(1) / root(x))

#define BLOCKS_ROUNDING(Name, function)                                     \
  struct Name {                                                             \
    BLOCKS_INLINE float run(float x) { return __builtin_##function##f(x); } \
    BLOCKS_INLINE double run(double x) { return __builtin_##function(x); }  \
  };
BLOCKS_ROUNDING(Floor, floor)
BLOCKS_ROUNDING(Ceil, ceil)
BLOCKS_ROUNDING(Trunc, trunc)
BLOCKS_ROUNDING(Round, rint)

#define BLOCKS_FUNCTION(Name, of_float, of_double)           \
  struct Name {                                              \
    BLOCKS_INLINE float run(float x) { return of_float; }    \
    BLOCKS_INLINE double run(double x) { return of_double; } \
  };
/// Of the C library.
#define BLOCKS_CALL(Name, function) \
  BLOCKS_FUNCTION(Name, static_cast<float>(function(static_cast<double>(x))), function(x))
BLOCKS_FUNCTION(Exp, exp_f32(x), __builtin_exp(x))
BLOCKS_FUNCTION(Exp2, exp2_f32(x), __builtin_exp2(x))
BLOCKS_FUNCTION(Expm1, expm1_f32(x), __builtin_expm1(x))
BLOCKS_FUNCTION(Log, log_f32(x), __builtin_log(x))
BLOCKS_FUNCTION(Log1p, log1p_f32(x), __builtin_log1p(x))
BLOCKS_FUNCTION(Tanh, tanh_f32(x), __builtin_tanh(x))
BLOCKS_FUNCTION(Erf, erf_f32(x), __builtin_erf(x))
BLOCKS_FUNCTION(Sigmoid, sigmoid_f32(x),
                (x < 0 ? __builtin_exp(x) : 1.0) / (1.0 + __builtin_exp(-magnitude(x))))
BLOCKS_CALL(Log2, __builtin_log2)
BLOCKS_CALL(Log10, __builtin_log10)
BLOCKS_CALL(Sin, __builtin_sin)
BLOCKS_CALL(Cos, __builtin_cos)
BLOCKS_CALL(Tan, __builtin_tan)
BLOCKS_CALL(Asin, __builtin_asin)
BLOCKS_CALL(Acos, __builtin_acos)
BLOCKS_CALL(Atan, __builtin_atan)
BLOCKS_CALL(Sinh, __builtin_sinh)
BLOCKS_CALL(Cosh, __builtin_cosh)
BLOCKS_CALL(Asinh, __builtin_asinh)
BLOCKS_CALL(Acosh, __builtin_acosh)
BLOCKS_CALL(Atanh, __builtin_atanh)
BLOCKS_CALL(Erfc, __builtin_erfc)
BLOCKS_CALL(Erfinv, inductor::erfinv)
BLOCKS_CALL(Lgamma, inductor::lgamma)
BLOCKS_CALL(Digamma, inductor::digamma)

// ---- casts

/// Out of range and NaN give the minimum, as the processor's conversion does.
template <class To, class From>
BLOCKS_INLINE To to_integer(From x) {
  if constexpr (sizeof(To) == 8) {
    bool fits = x >= From(-0x1p63) && x < From(0x1p63);
    return fits ? static_cast<To>(x) : static_cast<To>(uint64_t{1} << 63);
  } else {
    bool fits = x >= From(-0x1p31) && x < From(0x1p31);
    int32_t whole = fits ? static_cast<int32_t>(x) : INT32_MIN;
    return static_cast<To>(whole);
  }
}

// ---- narrow numbers in memory

BLOCKS_INLINE float float_of_half(uint16_t half) {
  uint32_t shifted = static_cast<uint32_t>(half) << 16, twice = shifted + shifted;
  float normal = float_of((twice >> 4) + (0xE0u << 23)) * 0x1p-112f;
  float subnormal = float_of((twice >> 17) | (126u << 23)) - 0.5f;
  uint32_t out = twice < (1u << 27) ? bits_of(subnormal) : bits_of(normal);
  return float_of((shifted & 0x80000000u) | out);
}
BLOCKS_INLINE uint16_t half_of(float x) {
  uint32_t word = bits_of(x), twice = word + word;
  uint32_t exponent = twice & 0xFF000000u;
  uint32_t least = exponent < 0x71000000u ? 0x71000000u : exponent;
  float rounded = float_of((least >> 1) + 0x07800000u) + magnitude(x) * 0x1p112f * 0x1p-110f;
  uint32_t bits = bits_of(rounded);
  uint32_t number = ((bits >> 13) & 0x7C00u) + (bits & 0x0FFFu);
  uint32_t sign = (word & 0x80000000u) >> 16;
  return static_cast<uint16_t>(sign | (twice > 0xFF000000u ? 0x7E00u : number));
}
BLOCKS_INLINE float float_of_bf16(uint16_t x) { return float_of(static_cast<uint32_t>(x) << 16); }
// The nearest one, of two the even one; NaN stays NaN.
BLOCKS_INLINE uint16_t bf16_of(float x) {
  uint32_t bits = bits_of(x), high = bits >> 16;
  uint32_t nearest = (bits + (high & 1) + 0x7fff) >> 16;
  return static_cast<uint16_t>(x != x ? (high | 0x40) : nearest);
}

/// f.operator()<Eq>() and so on for the comparison of this code; nothing for another.
template <class F>
auto by_comparison(uint16_t code, F f) -> decltype(f.template operator()<Eq>()) {
  switch (code) {
    case TN_F_EQ:
      return f.template operator()<Eq>();
    case TN_F_NE:
      return f.template operator()<Ne>();
    case TN_F_LT:
      return f.template operator()<Lt>();
    case TN_F_LE:
      return f.template operator()<Le>();
    case TN_F_GT:
      return f.template operator()<Gt>();
    case TN_F_GE:
      return f.template operator()<Ge>();
    default:
      return nullptr;
  }
}

}  // namespace blocks::BLOCKS_LEVEL
