// SPDX-License-Identifier: Apache-2.0
// Sizes and numbers that may be symbolic while a function is being traced.
//
// A SymInt is one 64-bit word: an integer, or a pointer to an interned expression such as
// `2*s0 + 1`. Outside a trace it is always an integer and costs what an int64_t costs. Inside a
// trace, `if (x.size(0) > 8)` evaluates the comparison with the example's sizes and records what it
// took for granted as a guard, so that the compiled code runs only where the answer is the same.
//
// Threads: values; use freely. A symbolic value belongs to the trace that made it.
#pragma once

#include <tenon/error.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tenon {

struct Expr;  // core/sym/sym_expr.h: an immutable, interned expression

/// Operations of expressions; the numbers are those of TN_EX_* in tenon/plugin.h.
enum class SymOp : uint8_t {
  constant,
  symbol,
  add,
  mul,
  floordiv,
  ceildiv,
  mod,
  min,
  max,
  pow,
  truediv,
  to_float,
  trunc,
  eq,
  ne,
  lt,
  le,
  and_,
  or_,
  not_,
  select,
  floor_to_int,
  ceil_to_int,
  round_to_int,
};

class SymBool;
class SymFloat;

class TENON_API SymInt {
 public:
  constexpr SymInt() = default;
  /// Throws UserError below -2^62, the range that holds pointers.
  template <std::integral T>
  constexpr SymInt(T value) : word_(static_cast<int64_t>(value)) {  // NOLINT: implicit by design
    if (is_symbolic()) [[unlikely]]
      fail_range();
  }
  static SymInt from_expr(const Expr* expr) {
    SymInt result;
    result.word_ = static_cast<int64_t>(reinterpret_cast<uint64_t>(expr) | tag);
    return result;
  }
  /// From the word of another SymInt (word()).
  static constexpr SymInt from_word(int64_t word) {
    SymInt result;
    result.word_ = word;
    return result;
  }

  constexpr bool is_symbolic() const { return (static_cast<uint64_t>(word_) >> 62) == 2; }
  const Expr* expr() const {
    return reinterpret_cast<const Expr*>(static_cast<uint64_t>(word_) & ~tag);
  }
  constexpr int64_t word() const { return word_; }
  std::optional<int64_t> maybe_int() const {
    return is_symbolic() ? std::nullopt : std::optional<int64_t>(word_);
  }
  /// The plain number. A symbolic value is fixed to its example value by a guard; one without an
  /// example (data-dependent) throws UserError DataDependentError.
  int64_t guard_int() const { return is_symbolic() ? specialize() : word_; }
  operator int64_t() const { return guard_int(); }  // NOLINT: sizes are used as numbers everywhere

 private:
  static constexpr uint64_t tag = uint64_t{2} << 62;
  int64_t specialize() const;
  [[noreturn]] static void fail_range();

  int64_t word_ = 0;
};

/// A bool that may depend on symbolic sizes; `if (b)` evaluates it and records a guard.
class TENON_API SymBool {
 public:
  constexpr SymBool(bool value = false) : value_(value) {}  // NOLINT
  static SymBool from_expr(const Expr* expr) {
    SymBool result;
    result.expr_ = expr;
    return result;
  }
  bool is_symbolic() const { return expr_ != nullptr; }
  const Expr* expr() const { return expr_; }
  /// The value; a symbolic one is computed from the example values and guarded.
  bool guard_bool() const { return expr_ ? evaluate() : value_; }
  operator bool() const { return guard_bool(); }  // NOLINT: conditions are used as bools

 private:
  bool evaluate() const;
  const Expr* expr_ = nullptr;
  bool value_ = false;
};

/// A double that may depend on symbolic sizes or on data.
class TENON_API SymFloat {
 public:
  constexpr SymFloat(double value = 0) : value_(value) {}  // NOLINT
  static SymFloat from_expr(const Expr* expr) {
    SymFloat result;
    result.expr_ = expr;
    return result;
  }
  bool is_symbolic() const { return expr_ != nullptr; }
  const Expr* expr() const { return expr_; }
  double guard_float() const { return expr_ ? specialize() : value_; }
  operator double() const { return guard_float(); }  // NOLINT

 private:
  double specialize() const;
  const Expr* expr_ = nullptr;
  double value_ = 0;
};

namespace detail {
TENON_API SymInt sym_int_op(SymOp op, SymInt a, SymInt b);    // slow path: an operand is symbolic
TENON_API SymBool sym_compare(SymOp op, SymInt a, SymInt b);  // eq ne lt le
[[noreturn]] TENON_API void fail_overflow(const char* operation, int64_t a, int64_t b);
[[noreturn]] TENON_API void fail_zero_divisor(int64_t a);

template <class T>
concept SizeLike = std::integral<T> || std::same_as<T, SymInt>;
template <class A, class B>
concept OneSymInt = SizeLike<A> && SizeLike<B> &&
    (std::same_as<A, SymInt> || std::same_as<B, SymInt>);

/// What counts as a real operand: not two plain numbers, and not integers alone.
template <class T>
concept RealLike = std::floating_point<T> || std::same_as<T, SymFloat>;
template <class A, class B>
concept OneSymReal = (RealLike<A> && RealLike<B> &&
                      !(std::floating_point<A> && std::floating_point<B>)) ||
                     (std::same_as<A, SymFloat> && SizeLike<B>) ||
                     (SizeLike<A> && std::same_as<B, SymFloat>) ||
                     (std::same_as<A, SymInt> && std::floating_point<B>) ||
                     (std::floating_point<A> && std::same_as<B, SymInt>);
TENON_API SymFloat to_real(SymInt value);
template <RealLike T>
SymFloat to_real(T value) {
  return SymFloat(value);
}
template <std::integral T>
SymFloat to_real(T value) {
  return SymFloat(static_cast<double>(value));
}
// An operand is symbolic.
TENON_API SymFloat sym_real_add(SymFloat a, SymFloat b);
TENON_API SymFloat sym_real_sub(SymFloat a, SymFloat b);
TENON_API SymFloat sym_real_mul(SymFloat a, SymFloat b);
TENON_API SymFloat sym_real_div(SymFloat a, SymFloat b);
TENON_API SymBool sym_real_compare(SymOp op, SymFloat a, SymFloat b);

constexpr int64_t floordiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
constexpr int64_t floormod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r + ((r != 0 && (r < 0) != (b < 0)) ? b : 0);
}
}  // namespace detail

/// Arithmetic is checked: overflow throws UserError. `/` and `%` round towards minus infinity.
template <class A, class B>
requires detail::OneSymInt<A, B> SymInt operator+(A a, B b) {
  SymInt x(a), y(b);
  if (x.is_symbolic() || y.is_symbolic()) return detail::sym_int_op(SymOp::add, x, y);
  int64_t r;
  if (__builtin_add_overflow(x.word(), y.word(), &r))
    detail::fail_overflow("+", x.word(), y.word());
  return r;
}
template <class A, class B>
requires detail::OneSymInt<A, B> SymInt operator*(A a, B b) {
  SymInt x(a), y(b);
  if (x.is_symbolic() || y.is_symbolic()) return detail::sym_int_op(SymOp::mul, x, y);
  int64_t r;
  if (__builtin_mul_overflow(x.word(), y.word(), &r))
    detail::fail_overflow("*", x.word(), y.word());
  return r;
}
template <class A, class B>
requires detail::OneSymInt<A, B> SymInt operator-(A a, B b) {
  SymInt x(a), y(b);
  if (x.is_symbolic() || y.is_symbolic())
    return detail::sym_int_op(SymOp::add, x, detail::sym_int_op(SymOp::mul, SymInt(-1), y));
  int64_t r;
  if (__builtin_sub_overflow(x.word(), y.word(), &r))
    detail::fail_overflow("-", x.word(), y.word());
  return r;
}
template <class A, class B>
requires detail::OneSymInt<A, B> SymInt operator/(A a, B b) {
  SymInt x(a), y(b);
  if (x.is_symbolic() || y.is_symbolic()) return detail::sym_int_op(SymOp::floordiv, x, y);
  if (y.word() == 0) detail::fail_zero_divisor(x.word());
  return detail::floordiv(x.word(), y.word());
}
template <class A, class B>
requires detail::OneSymInt<A, B> SymInt operator%(A a, B b) {
  SymInt x(a), y(b);
  if (x.is_symbolic() || y.is_symbolic()) return detail::sym_int_op(SymOp::mod, x, y);
  if (y.word() == 0) detail::fail_zero_divisor(x.word());
  return detail::floormod(x.word(), y.word());
}
template <std::same_as<SymInt> T>
SymInt operator-(T a) {
  return 0 - a;
}
inline SymInt& operator+=(SymInt& a, SymInt b) { return a = a + b; }
inline SymInt& operator-=(SymInt& a, SymInt b) { return a = a - b; }
inline SymInt& operator*=(SymInt& a, SymInt b) { return a = a * b; }
inline SymInt& operator/=(SymInt& a, SymInt b) { return a = a / b; }
inline SymInt& operator%=(SymInt& a, SymInt b) { return a = a % b; }
inline SymInt& operator++(SymInt& a) { return a = a + 1; }
inline SymInt& operator--(SymInt& a) { return a = a - 1; }
inline SymInt operator++(SymInt& a, int) { return std::exchange(a, a + 1); }
inline SymInt operator--(SymInt& a, int) { return std::exchange(a, a - 1); }

/// Arithmetic of real numbers, in double precision; a size beside one becomes real.
#define TENON_SYM_REAL(symbol, name, plain)                              \
  template <class A, class B>                                            \
  requires detail::OneSymReal<A, B> SymFloat operator symbol(A a, B b) { \
    SymFloat x = detail::to_real(a), y = detail::to_real(b);             \
    if (x.is_symbolic() || y.is_symbolic()) [[unlikely]]                 \
      return detail::name(x, y);                                         \
    return x.guard_float() plain y.guard_float();                        \
  }
TENON_SYM_REAL(+, sym_real_add, +)
TENON_SYM_REAL(-, sym_real_sub, -)
TENON_SYM_REAL(*, sym_real_mul, *)
TENON_SYM_REAL(/, sym_real_div, /)
#undef TENON_SYM_REAL
template <std::same_as<SymFloat> T>
SymFloat operator-(T a) {
  return -1.0 * a;
}
inline SymFloat& operator+=(SymFloat& a, SymFloat b) { return a = a + b; }
inline SymFloat& operator-=(SymFloat& a, SymFloat b) { return a = a - b; }
inline SymFloat& operator*=(SymFloat& a, SymFloat b) { return a = a * b; }
inline SymFloat& operator/=(SymFloat& a, SymFloat b) { return a = a / b; }

#define TENON_SYM_COMPARISON(symbol, op, left, right)                                           \
  template <class A, class B>                                                                   \
  requires detail::OneSymInt<A, B> SymBool operator symbol(A a, B b) {                          \
    SymInt x(a), y(b);                                                                          \
    if (x.is_symbolic() || y.is_symbolic()) return detail::sym_compare(SymOp::op, left, right); \
    return SymBool(x.word() symbol y.word());                                                   \
  }
TENON_SYM_COMPARISON(==, eq, x, y)
TENON_SYM_COMPARISON(!=, ne, x, y)
TENON_SYM_COMPARISON(<, lt, x, y)
TENON_SYM_COMPARISON(<=, le, x, y)
TENON_SYM_COMPARISON(>, lt, y, x)
TENON_SYM_COMPARISON(>=, le, y, x)
#undef TENON_SYM_COMPARISON

#define TENON_SYM_REAL_COMPARISON(symbol, op, left, right)              \
  template <class A, class B>                                           \
  requires detail::OneSymReal<A, B> SymBool operator symbol(A a, B b) { \
    SymFloat x = detail::to_real(a), y = detail::to_real(b);            \
    if (x.is_symbolic() || y.is_symbolic()) [[unlikely]]                \
      return detail::sym_real_compare(SymOp::op, left, right);          \
    return SymBool(x.guard_float() symbol y.guard_float());             \
  }
TENON_SYM_REAL_COMPARISON(==, eq, x, y)
TENON_SYM_REAL_COMPARISON(!=, ne, x, y)
TENON_SYM_REAL_COMPARISON(<, lt, x, y)
TENON_SYM_REAL_COMPARISON(<=, le, x, y)
TENON_SYM_REAL_COMPARISON(>, lt, y, x)
TENON_SYM_REAL_COMPARISON(>=, le, y, x)
#undef TENON_SYM_REAL_COMPARISON

namespace detail {
TENON_API SymBool sym_and(SymBool a, SymBool b);
TENON_API SymBool sym_or(SymBool a, SymBool b);
TENON_API SymBool sym_not(SymBool a);
template <class A, class B>
concept OneSymBool = (std::same_as<A, SymBool> &&
                      (std::same_as<B, SymBool> || std::same_as<B, bool>)) ||
                     (std::same_as<A, bool> && std::same_as<B, SymBool>);
}  // namespace detail

/// Conditions are joined by `&` and `|`, which keep them symbolic; `&&` and `||` look at the first.
template <class A, class B>
requires detail::OneSymBool<A, B> SymBool operator&(A a, B b) { return detail::sym_and(a, b); }
template <class A, class B>
requires detail::OneSymBool<A, B> SymBool operator|(A a, B b) { return detail::sym_or(a, b); }
template <std::same_as<SymBool> T>
SymBool operator!(T a) {
  return detail::sym_not(a);
}
TENON_API SymInt sym_min(SymInt a, SymInt b);
TENON_API SymInt sym_max(SymInt a, SymInt b);
TENON_API SymFloat sym_min(SymFloat a, SymFloat b);
TENON_API SymFloat sym_max(SymFloat a, SymFloat b);

/// True only where it holds for all values that the guards allow; never adds a guard.
TENON_API bool statically_known_true(SymBool condition);

/// The plain value. In a compiled body the text is for this call: asking for it is a look at the
/// value, as a conversion is. Where nothing is recorded a symbolic value is its expression.
TENON_API std::string to_text(SymInt value);
TENON_API std::string to_text(SymBool value);
TENON_API std::string to_text(SymFloat value);

/// The text that messages and graphs use: a symbolic value is its expression, such as "2*s0 + 1", and
/// nobody looks at it.
TENON_API std::string symbolic_text(SymInt value);
TENON_API std::string symbolic_text(SymBool value);
TENON_API std::string symbolic_text(SymFloat value);

}  // namespace tenon
