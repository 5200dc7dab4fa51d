// SPDX-License-Identifier: Apache-2.0
// Element types of tensors. The numbers are those of ATen's ScalarType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

enum class Dtype : int8_t {
  u8 = 0,
  i8 = 1,
  i16 = 2,
  i32 = 3,
  i64 = 4,
  f16 = 5,
  f32 = 6,
  f64 = 7,
  c32 = 8,    ///< two f16
  c64 = 9,    ///< two f32
  c128 = 10,  ///< two f64
  bool_ = 11,
  bf16 = 15,
  f8e5m2 = 23,
  f8e4m3fn = 24,
};

namespace detail {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;        // Tenon's graph text
  std::string_view torch_name;  // what torch prints after "torch."
  uint8_t itemsize;
  char kind;  // u, i: integral; f: floating; c: complex; b: bool
};

inline constexpr DtypeRow dtype_rows[] = {
    {Dtype::u8, "u8", "uint8", 1, 'u'},
    {Dtype::i8, "i8", "int8", 1, 'i'},
    {Dtype::i16, "i16", "int16", 2, 'i'},
    {Dtype::i32, "i32", "int32", 4, 'i'},
    {Dtype::i64, "i64", "int64", 8, 'i'},
    {Dtype::f16, "f16", "float16", 2, 'f'},
    {Dtype::f32, "f32", "float32", 4, 'f'},
    {Dtype::f64, "f64", "float64", 8, 'f'},
    {Dtype::c32, "c32", "complex32", 4, 'c'},
    {Dtype::c64, "c64", "complex64", 8, 'c'},
    {Dtype::c128, "c128", "complex128", 16, 'c'},
    {Dtype::bool_, "bool", "bool", 1, 'b'},
    {Dtype::bf16, "bf16", "bfloat16", 2, 'f'},
    {Dtype::f8e5m2, "f8e5m2", "float8_e5m2", 1, 'f'},
    {Dtype::f8e4m3fn, "f8e4m3fn", "float8_e4m3fn", 1, 'f'},
};

inline constexpr int dtype_numbers = 32;  // every number of an enumerator is below it

struct DtypeTable {
  int8_t row[dtype_numbers];
};

consteval DtypeTable make_dtype_table() {
  DtypeTable table{};
  for (int8_t& r : table.row) r = -1;
  int8_t i = 0;
  for (const DtypeRow& r : dtype_rows) table.row[static_cast<int>(r.dtype)] = i++;
  return table;
}

inline constexpr DtypeTable dtype_table = make_dtype_table();

constexpr const DtypeRow& dtype_row(Dtype dtype) {
  return dtype_rows[dtype_table.row[static_cast<uint8_t>(dtype)]];
}

}  // namespace detail

/// Whether `number` is the number of a Dtype, for numbers that come from outside.
constexpr bool is_dtype(int64_t number) {
  return number >= 0 && number < detail::dtype_numbers && detail::dtype_table.row[number] >= 0;
}

/// Bytes of one element.
constexpr int64_t itemsize(Dtype dtype) { return detail::dtype_row(dtype).itemsize; }

/// Tenon's name: "f32", "i64", "bool".
constexpr std::string_view name_of(Dtype dtype) { return detail::dtype_row(dtype).name; }

/// Torch's name: "float32", "int64", "bool".
constexpr std::string_view torch_name_of(Dtype dtype) {
  return detail::dtype_row(dtype).torch_name;
}

/// For messages: the same as `name_of`.
inline std::string to_text(Dtype dtype) { return std::string(name_of(dtype)); }

/// The dtype of a name of either kind, with or without "torch."; also "float", "double", "half",
/// "long", "int".
constexpr std::optional<Dtype> parse_dtype(std::string_view name) {
  constexpr std::string_view prefix = "torch.";
  if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  for (const detail::DtypeRow& row : detail::dtype_rows)
    if (name == row.name || name == row.torch_name) return row.dtype;
  if (name == "float") return Dtype::f32;
  if (name == "double") return Dtype::f64;
  if (name == "half") return Dtype::f16;
  if (name == "long") return Dtype::i64;
  if (name == "int") return Dtype::i32;
  return std::nullopt;
}

/// Real floating point, f8 included.
constexpr bool is_floating(Dtype dtype) { return detail::dtype_row(dtype).kind == 'f'; }
constexpr bool is_complex(Dtype dtype) { return detail::dtype_row(dtype).kind == 'c'; }
/// Whether tensors of the dtype have gradients: floating and complex ones.
constexpr bool is_differentiable(Dtype dtype) { return is_floating(dtype) || is_complex(dtype); }
/// Integers, with or without sign; bool is not one.
constexpr bool is_integral(Dtype dtype) {
  char kind = detail::dtype_row(dtype).kind;
  return kind == 'i' || kind == 'u';
}
/// Has negative values.
constexpr bool is_signed(Dtype dtype) {
  char kind = detail::dtype_row(dtype).kind;
  return kind == 'i' || kind == 'f' || kind == 'c';
}
constexpr bool is_f8(Dtype dtype) { return dtype == Dtype::f8e5m2 || dtype == Dtype::f8e4m3fn; }

/// The ten types that every op computes on; the others (complex, f8) are stored and converted only.
constexpr bool is_computing(Dtype dtype) { return !is_complex(dtype) && !is_f8(dtype); }

}  // namespace tenon
