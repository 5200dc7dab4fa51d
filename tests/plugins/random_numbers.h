// Numbers for tests of microkernels.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

/// n numbers in [-1, 1), the same for the same seed.
template <class T>
std::vector<T> random_numbers(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<T> numbers(-1, 1);
  std::vector<T> out(static_cast<size_t>(n));
  for (T& x : out) x = numbers(generator);
  return out;
}
