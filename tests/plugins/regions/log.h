/* What the test plugin `regions` has seen; its extension "test.regions", version 1. */
#pragma once

#include <stdint.h>

struct regions_log {
  const char* (*graphs)(void); /* texts of the compiled graphs since clear(), one after the other */
  int64_t (*compiles)(void);
  int64_t (*calls)(void);
  void (*clear)(void);
};
