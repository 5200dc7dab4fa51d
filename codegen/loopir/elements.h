// What an element of a dtype holds of a number, converted as the host converts it.
#pragma once

#include <cstdint>

namespace loopir {

/// Rounded to what a floating dtype holds, infinite where it is too large.
double real_element(double number, int32_t dtype);
/// The low bits of an integer, as many as an integer dtype has.
int64_t whole_element(int64_t number, int32_t dtype);
/// The same of a real number without its fraction. NaN and what is out of range give the minimum of
/// i32 or i64; narrower integers take the low bits of the i32.
int64_t whole_element(double number, int32_t dtype);

}  // namespace loopir
