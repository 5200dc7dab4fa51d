// The numbers that Winograd's convolutions multiply, from the values of a tile at its points.
//
// A line has six numbers: the values at 0, infinity, 1 and -1, and the real and the imaginary part
// of that at i. So a tile has 6 x 6 of them: 16 real ones, eight complex ones with i in one
// direction, and four numbers with i in both. Those stand for u + v i + w j + x i j with an
// imaginary unit for each direction, whose products follow from two complex ones: with j = i and
// with j = -i.
//
// A complex product a b is three real ones: Re(a z) Re(b z) for the three cube roots z of 1. The
// usual ways to do with three have up to twice the variance.
#pragma once

#include "kernels.h"

namespace microkernel {

/// Parts before the complex ones, and before the two of i and j.
constexpr int real_parts = 16, single_parts = 40;

// Static, since each level of vectors has code of its own. Number: of T, which is it or a vector.

template <class Number>
constexpr Number half_root_of_3 = Number(0.86602540378443864676);

/// take(part, value) for the three parts of a complex number.
template <class Number, class T, class Take>
static inline void split_complex(int part, T real, T imaginary, Take&& take) {
  T half = real * Number(0.5), height = imaginary * half_root_of_3<Number>;
  take(part, real);
  take(part + 1, -half - height);
  take(part + 2, height - half);
}

/// take(part, value) for all parts of a tile.
template <class Number, class T, class Take>
static inline void split_into_parts(const T (&tile)[6][6], Take&& take) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) take(4 * i + j, tile[i][j]);
  for (int i = 0; i < 4; ++i) {
    split_complex<Number>(real_parts + 6 * i, tile[4][i], tile[5][i], take);
    split_complex<Number>(real_parts + 6 * i + 3, tile[i][4], tile[i][5], take);
  }
  split_complex<Number>(single_parts, tile[4][4] - tile[5][5], tile[5][4] + tile[4][5], take);
  split_complex<Number>(single_parts + 3, tile[4][4] + tile[5][5], tile[5][4] - tile[4][5], take);
}

/// What join_parts() leaves to one of the factors.
constexpr double factor_of_part(int part) {
  return part < real_parts ? 1 : part < single_parts ? 4.0 / 3 : 2.0 / 3;
}

/// A complex number from its parts, give(part), but for the factor.
template <class Number, class T, class Give>
static inline void join_complex(int part, T& real, T& imaginary, Give&& give) {
  T second = give(part + 1), third = give(part + 2);
  real = give(part) - (second + third) * Number(0.5);
  imaginary = (second - third) * half_root_of_3<Number>;
}

/// A tile from the products of the parts of two, give(part).
template <class Number, class T, class Give>
static inline void join_parts(T (&tile)[6][6], Give&& give) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) tile[i][j] = give(4 * i + j);
  for (int i = 0; i < 4; ++i) {
    join_complex<Number>(real_parts + 6 * i, tile[4][i], tile[5][i], give);
    join_complex<Number>(real_parts + 6 * i + 3, tile[i][4], tile[i][5], give);
  }
  T real, imaginary, conjugate_real, conjugate_imaginary;
  join_complex<Number>(single_parts, real, imaginary, give);
  join_complex<Number>(single_parts + 3, conjugate_real, conjugate_imaginary, give);
  tile[4][4] = conjugate_real + real;
  tile[5][5] = conjugate_real - real;
  tile[5][4] = imaginary + conjugate_imaginary;
  tile[4][5] = imaginary - conjugate_imaginary;
}

}  // namespace microkernel
