// Functions that the C library does not have, or not for many threads.
#pragma once

#include <cstdint>

namespace inductor {

double erfinv(double x);
double digamma(double x);
double lgamma(double x);
/// Wraps; of a negative exponent what truncation towards 0 leaves.
int64_t integer_power(int64_t base, int64_t exponent);

}  // namespace inductor
