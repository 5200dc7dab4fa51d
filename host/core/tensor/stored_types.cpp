// Copies to and from complex and f8 dtypes, an element at a time.
//
// Method: every element is loaded as two doubles (imaginary part 0 for real types) and stored from
// them. Integers would lose bits beyond 2^53 on the way, but an integer of that size cannot be told
// apart in c64, c128 or f8 anyway; copies without such a type do not come here.
// f8 rounds to nearest even. e5m2 is the upper half of f16 and has infinities; e4m3fn has none:
// what is too large becomes NaN, as in PyTorch.
#include "core/tensor/stored_types.h"

#include <tenon/half.h>

#include "core/error.h"
#include "core/kernels/block_kernels.h"
#include "core/scalar/scalar_constant.h"
#include "core/tensor/stride_grid.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace tenon {
namespace {

struct ComplexPair {
  double real = 0, imaginary = 0;
};

template <class T>
T load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <class T>
void store(char* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

struct F8Format {
  int mantissa_bits, bias;
  uint8_t largest;  ///< bits of the largest finite number
  bool has_infinity;
};
constexpr F8Format e5m2{2, 15, 0x7b, true}, e4m3fn{3, 7, 0x7e, false};

const F8Format& format_of(Dtype dtype) { return dtype == Dtype::f8e5m2 ? e5m2 : e4m3fn; }

double f8_value(uint8_t bits, const F8Format& format) {
  int magnitude = bits & 0x7f;
  int exponent = magnitude >> format.mantissa_bits;
  int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits)
                               : std::ldexp(mantissa + (1 << format.mantissa_bits),
                                            exponent - format.bias - format.mantissa_bits);
  if (magnitude > format.largest)
    value = format.has_infinity && mantissa == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x80) != 0 ? -value : value;
}

uint8_t f8_bits(double value, const F8Format& format) {
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  auto nan = static_cast<uint8_t>(sign | 0x7f);
  auto overflow = static_cast<uint8_t>(format.has_infinity ? sign | (format.largest + 1) : nan);
  if (std::isnan(value)) return nan;
  double a = std::abs(value);
  if (std::isinf(a)) return overflow;
  // The unit of the last place at a's exponent; below the normal range it stays the same.
  int exponent = std::max(a == 0 ? 1 - format.bias : std::ilogb(a), 1 - format.bias);
  double units = std::nearbyint(std::ldexp(a, format.mantissa_bits - exponent));
  // A carry into the next power of two comes out right: the fields are consecutive.
  double code = units + ((exponent + format.bias - 1) << format.mantissa_bits);
  if (code > format.largest) return overflow;
  return static_cast<uint8_t>(sign | static_cast<int>(code));
}

ComplexPair load_pair(const char* p, Dtype dtype) {
  switch (dtype) {
    case Dtype::c32:
      return {load<Half>(p), load<Half>(p + 2)};
    case Dtype::c64:
      return {load<float>(p), load<float>(p + 4)};
    case Dtype::c128:
      return {load<double>(p), load<double>(p + 8)};
    case Dtype::f8e5m2:
    case Dtype::f8e4m3fn:
      return {f8_value(load<uint8_t>(p), format_of(dtype)), 0};
    default:
      break;
  }
  double value;
  block_kernels().convert[static_cast<int>(block_type(dtype))][static_cast<int>(BlockType::f64)](
      &value, p, 1);
  return {value, 0};
}

void store_pair(char* p, Dtype dtype, ComplexPair value) {
  switch (dtype) {
    case Dtype::c32:
      store(p, Half(static_cast<float>(value.real)));
      return store(p + 2, Half(static_cast<float>(value.imaginary)));
    case Dtype::c64:
      store(p, static_cast<float>(value.real));
      return store(p + 4, static_cast<float>(value.imaginary));
    case Dtype::c128:
      store(p, value.real);
      return store(p + 8, value.imaginary);
    case Dtype::f8e5m2:
    case Dtype::f8e4m3fn:
      return store(p, f8_bits(value.real, format_of(dtype)));
    default:
      break;
  }
  // A complex number is true when either part is not 0.
  double real = dtype == Dtype::bool_ && value.imaginary != 0 ? 1.0 : value.real;
  block_kernels().convert[static_cast<int>(BlockType::f64)][static_cast<int>(block_type(dtype))](
      p, &real, 1);
}

// Real numbers as complex ones of the same precision: by far the most of such copies.
template <class T>
void widen_row(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t n) {
  for (int64_t i = 0; i < n; ++i, to += to_step, from += from_step) {
    store(to, load<T>(from));
    store(to + sizeof(T), T(0));
  }
}

using WidenRow = void (*)(char*, int64_t, const char*, int64_t, int64_t);

WidenRow widening(Dtype to, Dtype from) {
  if (to == Dtype::c64 && from == Dtype::f32) return widen_row<float>;
  return to == Dtype::c128 && from == Dtype::f64 ? widen_row<double> : nullptr;
}

}  // namespace

void convert_stored_types(const Operand& dst, const Operand& src, std::span<const int64_t> sizes) {
  const Operand* operands[] = {&dst, &src};
  StrideGrid grid = make_grid(operands, sizes);
  RowCursor cursor(grid, 0);
  WidenRow widen = widening(dst.dtype, src.dtype);
  for (int64_t row = 0; row < grid.n_rows(); ++row, cursor.advance()) {
    char* to = static_cast<char*>(dst.data) + cursor.offset(0);
    const char* from = static_cast<const char*>(src.data) + cursor.offset(1);
    if (widen) {
      widen(to, grid.inner_stride(0), from, grid.inner_stride(1), grid.inner_size());
      continue;
    }
    for (int64_t i = 0; i < grid.inner_size(); ++i)
      store_pair(to + i * grid.inner_stride(0), dst.dtype,
                 load_pair(from + i * grid.inner_stride(1), src.dtype));
  }
}

}  // namespace tenon
