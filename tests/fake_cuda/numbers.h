// Elements of the float types, read and written as double, for doubles of the vendor's libraries.
#pragma once

#include <cstdint>

namespace fake_cuda {

enum class Number : uint8_t { f32, f64, f16, bf16, boolean };

double read(const void* base, int64_t at, Number type);
void write(void* base, int64_t at, Number type, double value);
int64_t bytes_of(Number type);
/// Rounded to ten bits behind the leading one.
double as_tf32(double value);

}  // namespace fake_cuda
