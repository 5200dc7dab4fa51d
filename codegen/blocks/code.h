// A kernel as code for a machine whose registers are blocks of elements.
//
// Steps are straight code in bodies; a step may be a loop over another body. There are two files of
// registers: numbers (integers that say where) and values, each one element or a block of up to
// `width`. Where a value lies is decided when the code is made; a load of dense memory only points
// its register there.
#pragma once

#include "elements/elements.h"

#include <loopir/fields.h>

#include <string>
#include <vector>

namespace blocks {

using loopir::Id;
using loopir::none;

enum class Do : uint8_t {
  // Numbers: out = a op b.
  set_number,  // number
  symbol,      // the call's number at `number`
  add,
  add_constant,
  multiply,
  multiply_constant,
  floordiv,
  mod,
  least,
  most,
  number_of_value,  // of one element
  // Values.
  constant,         // one element, whose bits are `number`
  real,             // one f64 out of the call's numbers
  value_of_number,  // one i64
  count,            // block: number a plus what `tile` adds for each lane, as i64
  fill,             // block of one element
  expand,           // block: one element a row, for each element of its segment
  copy,             // block
  apply,            // primitive `code`
  join,             // primitives `code`, of a and b, and `then`, of what that gives and c (and d)
  check,            // a: i64, b: size. Wraps negative ones; 0 where it is out of range
  check_divisor,
  // Memory: buffer, number a. Masks are in c.
  point,  // the register is that memory
  load,   // `code`: how (Where), by `tile` or a block b of indices
  store,  // the same; `number`: loopir::Store
  // Folds: `code` is the fold.
  start,       // state `out` = bits of `number`
  fold,        // of a into out; `number`: segment by segment
  fold_place,  // of a at positions b into out, places in c; the same
  scan,        // a in place, by state out
  // Loops over body `number`: variable `out`, extent a.
  loop,
  lanes,        // by blocks: `inner` elements for each value of the variable
  some_blocks,  // the same, of which `units` chooses
  first_block,  // the same, of which only the first one runs
  units,       // of the call's range: rows, or, where a is there, the a blocks of each row. Where b
               // is there, only for rows that are not short
  unit_lanes,  // by blocks of the call's range
  unit_rows,   // of the call's range, as many at once as a block has room for: a is the extent of
               // their variable, b how many elements a row has at most. Only where rows are short
  segments,    // once: each row has a elements
  last = segments
};

/// Which elements of a buffer a block is.
enum class Where : uint8_t { one, dense, tiled, places };

/// Lanes over several variables, the slowest first: how many values each has (but the first, which
/// takes what the block has; the complement of a number where only calls know), and the number that
/// an index grows by with it.
struct Tile {
  std::vector<int64_t> extents;
  std::vector<Id> steps;
};
constexpr size_t most_dimensions = 8;

struct Step {
  Do what = Do::set_number;
  bool is_block = false;   // the result, or what is stored
  uint8_t singles = 0;     // of a block: bit i is set where operand i is one element,
  uint8_t rows = 0;        // or, where this has it too, one element a row
  bool by_lanes = false;   // folds: each lane has its own
  bool is_second = false;  // join: c is the first operand of `then`
  uint16_t code = 0, then = 0;
  int32_t dtype = 0;            // of memory
  Type from{}, to = Type::f32;  // of operands and of the result
  Id out = none, a = none, b = none, c = none, d = none;
  uint32_t buffer = 0, tile = 0;
  int64_t number = 0, inner = 1;
};

/// Up to so many elements a row is short: with others it shares a block. What is one number in a
/// longer one costs less than copies of it in a block of several.
constexpr int64_t short_row(int64_t width) { return width / 4; }

/// Step::singles.
enum : uint8_t { a_is_single = 1, b_is_single = 2, c_is_single = 4, d_is_single = 8 };

struct Body {
  std::vector<Step> steps;
};

/// Where the registers of values lie in the thread's memory.
struct Code {
  std::string name;
  int64_t width = 1;
  uint32_t n_numbers = 0, n_buffers = 0;
  std::vector<int64_t> offsets;          // by value
  std::vector<int64_t> scratch_offsets;  // of rows, which are buffers behind those of the call
  int64_t row_bytes = 0, value_bytes = 0;
  std::vector<Tile> tiles;
  std::vector<Body> bodies;  // the first one is entered

  int64_t scratch_bytes() const;
};

template <class V>
void fields(V& v, Step& s) {
  v.choice(s.what, Do::last);
  loopir::each(v, s.is_block, s.singles, s.rows, s.by_lanes, s.is_second, s.code, s.then, s.dtype);
  v.choice(s.from, Type::truth);
  v.choice(s.to, Type::truth);
  loopir::each(v, s.out, s.a, s.b, s.c, s.d, s.buffer, s.tile, s.number, s.inner);
}

template <class V>
void fields(V& v, Body& b) {
  v(b.steps);
}

template <class V>
void fields(V& v, Tile& t) {
  loopir::each(v, t.extents, t.steps);
}

template <class V>
void fields(V& v, Code& c) {
  loopir::each(v, c.name, c.width, c.n_numbers, c.n_buffers, c.offsets, c.scratch_offsets,
               c.row_bytes, c.value_bytes, c.tiles, c.bodies);
}

/// What registers hold of a dtype. Throws `declined` for one that is not computed.
Type type_of(int32_t dtype);

}  // namespace blocks
