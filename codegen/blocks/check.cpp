#include "check.h"

#include <tenon/plugin.hpp>

namespace blocks {

void expect(bool holds, const char* what) {
  using tenon::plugin::text;
  if (!holds) throw tenon::plugin::error(TN_DATA_LOSS, text("saved code: {}", what));
}

Kinds numbers_of(const Step& s) {
  bool is_number = s.what <= Do::most;
  Kinds out{is_number || s.what == Do::number_of_value || is_loop(s), is_number || is_loop(s),
            is_number || is_loop(s)};
  out.a |= is_memory(s) || s.what == Do::count || s.what == Do::value_of_number;
  out.b |= s.what == Do::check;
  return out;
}

namespace {

void check_tile(const Code& c, const Step& s) {
  expect(s.tile < c.tiles.size(), "lanes of no shape");
  const Tile& t = c.tiles[s.tile];
  size_t n = t.steps.size();
  expect(n > 0 && n <= most_dimensions && t.extents.size() == n, "lanes of too many dimensions");
  int64_t inner = 1;
  for (size_t d = 1; d < n; ++d) {
    if (t.extents[d] < 0) {
      expect(~t.extents[d] < c.n_numbers, "an unknown number");
      continue;
    }
    expect(t.extents[d] > 0 && t.extents[d] <= c.width, "lanes that no block has");
    inner *= t.extents[d];
    expect(inner <= c.width, "lanes that no block has");
  }
  for (Id step : t.steps) expect(step < c.n_numbers, "an unknown number");
}

/// Registers, bodies and shapes that are there.
void check_step(const Code& c, const Step& s, size_t body) {
  Kinds kinds = numbers_of(s);
  auto known = [&](Id id, bool is_number) {
    expect(id == none || id < (is_number ? c.n_numbers : c.offsets.size()), "an unknown register");
  };
  known(s.out, kinds.out);
  known(s.a, kinds.a);
  known(s.b, kinds.b);
  known(s.c, false);
  known(s.d, false);
  expect(s.out != none, "a step without a result");
  auto where = static_cast<Where>(s.code);
  if (is_memory(s) && s.what != Do::point) {
    expect(where <= Where::places, "an unknown way to memory");
    expect(where == Where::places ? s.b != none : s.a != none, "memory without a place");
    if (where == Where::tiled) check_tile(c, s);
  }
  bool is_whole = s.a != none && s.b != none && s.c != none;
  if (s.what == Do::join)
    expect(is_whole && (s.then != TN_F_SELECT || s.d != none), "two primitives without operands");
  bool has_rows = s.a != none && (s.what == Do::join || (s.what == Do::apply && s.b != none));
  expect(s.rows == 0 || has_rows, "rows of a primitive without operands");
  if (s.what == Do::point) expect(s.a != none, "memory without a place");
  if (s.what == Do::count) check_tile(c, s);
  if (!is_loop(s)) return;
  expect(s.number > static_cast<int64_t>(body) && static_cast<size_t>(s.number) < c.bodies.size(),
         "a loop over a body that is not there");
  expect(s.inner > 0 && s.inner <= c.width, "a loop over too many lanes");
  bool has_extent = s.what != Do::units;
  expect(!has_extent || s.a != none, "a loop without an end");
  expect(s.what != Do::unit_rows || s.b != none, "rows of no length");
}

}  // namespace

void check_code(const Code& c) {
  constexpr int64_t widest = 4096;
  expect(c.width > 0 && c.width <= widest && c.row_bytes >= 0 && c.value_bytes >= 0 &&
             !c.bodies.empty(),
         "blocks of an impossible size");
  for (int64_t offset : c.offsets)
    expect(offset >= 0 && offset <= c.value_bytes, "a register outside of memory");
  for (int64_t offset : c.scratch_offsets)
    expect(offset >= 0 && offset <= c.row_bytes, "a row outside of memory");
  for (size_t b = 0; b < c.bodies.size(); ++b)
    for (const Step& s : c.bodies[b].steps) check_step(c, s, b);
}

}  // namespace blocks
