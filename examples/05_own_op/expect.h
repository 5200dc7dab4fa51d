// The check of the examples: says what does not hold and ends with status 1.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::exit(1);
}
