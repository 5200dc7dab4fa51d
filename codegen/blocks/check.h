// Whether code holds together: it may come from a file.
#pragma once

#include "code.h"

namespace blocks {

inline bool is_loop(const Step& s) { return s.what >= Do::loop; }
inline bool is_memory(const Step& s) {
  return s.what == Do::point || s.what == Do::load || s.what == Do::store;
}

/// Which of a step's operands are numbers; the others are values.
struct Kinds {
  bool out = false, a = false, b = false;
};
Kinds numbers_of(const Step& s);

/// Throws `error` (TN_DATA_LOSS) with `what` unless it holds.
void expect(bool holds, const char* what);

/// Throws `error` (TN_DATA_LOSS) unless all registers, bodies and shapes that steps name are there.
void check_code(const Code& c);

}  // namespace blocks
