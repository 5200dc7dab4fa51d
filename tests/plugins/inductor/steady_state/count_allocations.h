// Counts what the process takes from the heap: malloc and its kin are this program's own.
#pragma once

#include <cstdint>

/// Calls that gave memory since the program began, of all threads and libraries.
int64_t allocations();
