// One call of a machine: what its steps do.
#pragma once

#include "machine.h"
#include "places.h"

#include <tenon/primitives.h>

#include <algorithm>

namespace blocks {

struct Machine::Ready {
  Step step;
  union {
    Apply apply = nullptr;
    JoinedLoop joined;
    Accumulate accumulate;
    AccumulatePlaces places;
  };
  tn_primitive_fn of_host = nullptr;         // in place of `apply`
  Apply convert = nullptr;                   // between memory and register
  Apply widen = nullptr, combine = nullptr;  // of stores that change what is there
  size_t item = 0;                           // bytes in memory
  const Chain* chain = nullptr;              // that begins here
};

/// One call, on one thread.
struct Machine::Run {
  const Machine& machine;
  const int64_t* symbols;
  int64_t begin, end;
  std::byte* raw;  // memory as it is, of one block, and of another behind it
  void** values;
  int64_t* numbers;
  std::byte** buffers;
  int64_t n = 1;
  int64_t rows = 1, length = 1;                // of a block in segments
  int64_t first_block = 0, behind_blocks = 0;  // of the row that runs
  uint32_t errors = 0;

  void body(size_t i);
  [[gnu::always_inline]] void step(const Ready& r);
  void divide(const Step& s);
  int64_t lanes(const Step& s) const { return s.is_block ? n : 1; }
  void apply(const Ready& r);
  void apply_rows(const Ready& r);
  static void apply_to(const Ready& r, void* out, const void* a, const void* b, const void* c,
                       int64_t count);
  void join(const Ready& r);
  void check(const Step& s);
  void check_divisor(const Ready& r);
  Places places_of(const Ready& r) const;
  void spread(const Step& s, Places& out) const;
  void count(const Step& s);
  void load(const Ready& r);
  void store(const Ready& r);
  void update(const Ready& r, const Places& p);
  void start(const Step& s);
  void fill(const Step& s);
  void loop(const Step& s);
  void run_lanes(const Step& s, int64_t first, int64_t last);
  void expand(const Step& s);
  void fold(const Ready& r);
  void fold_place(const Ready& r);
  bool is_short(const Step& s) const { return numbers[s.b] <= short_row(machine.code_.width); }
  void run_blocks(const Step& s);
  void run_rows(const Step& s);
  void run_segments(const Step& s);
};

}  // namespace blocks
