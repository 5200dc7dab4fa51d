// Tiles: loops over elements that lie the other way in memory, for processors with caches.
//
// Problem: in a transposed copy the lanes of a load lie a row of memory apart, and neighbours of
// each are read a whole sweep of the lanes later, when their line of the cache has long gone: rows
// of 2^n bytes fall into one set of it. Method: where a load counts by ones over another outer
// variable, lanes and that variable are both cut into pieces of one size each; a unit is one tile,
// whose lines stay in the cache until all of their elements are used. Pieces divide the extents, so
// that there is nothing left over; where none does, or sizes are not known, the nest stays as it is.
// Lanes of a tile are one vector and its rows a multiple of many, so that code may turn squares of
// it in registers.
// Cost: a division of the unit's number a tile. Reference: Lam, Rothberg and Wolf, The Cache
// Performance and Optimizations of Blocked Algorithms, 1991.
#include "kernel.h"

#include <algorithm>
#include <cstdlib>

namespace loopir {

namespace {

class Tiler {
 public:
  Tiler(Program& program, Nest& nest) : x_(program.expressions), nest_(nest) {}

  void run(int64_t vector_lanes) {
    constexpr int64_t longest = 32, least = 4, fewest_lanes = 8, elements_in_cache = 4096;
    bool may_turn = vector_lanes >= fewest_lanes;
    int64_t widest = may_turn ? vector_lanes : 16;
    if (!has_free_points()) return;
    Id across = crossed();
    if (across == none) return;
    auto n = x_.number_of(x_.extent_of(nest_.lanes)), m = x_.number_of(x_.extent_of(across));
    if (!n || !m || (!may_turn && *n * *m <= elements_in_cache)) return;
    int64_t wide = divisor(*n, vector_lanes, widest), high = divisor(*m, 1, longest);
    for (int64_t side = vector_lanes; may_turn && side >= least; side /= 2)
      if (int64_t d = divisor(*m, side, longest); d > 0) {
        high = d;
        break;
      }
    if (wide == 0 || high < least) return;
    cut(across, wide, high);
  }

 private:
  /// One stage whose points may be computed in any order.
  bool has_free_points() const {
    if (nest_.lanes == none || nest_.kernel.stages.size() != 1) return false;
    const Stage& stage = nest_.kernel.stages[0];
    auto is_free = [](const Statement& s) { return s.fold == Fold::none && !s.is_scatter; };
    return stage.inner.empty() && std::ranges::all_of(stage.statements, is_free);
  }

  /// The outer variable over which loads count by ones whose lanes lie apart; none: there is none.
  Id crossed() {
    constexpr int64_t line = 16;  // elements
    Id out = none;
    for (const Statement& s : nest_.kernel.stages[0].statements)
      for_each_load(x_, s.value, [&](const ValueNode& load) {
        auto apart = x_.coefficient(load.b, nest_.lanes);
        if (!apart || std::abs(x_.hint(*apart)) < line) return;
        for (Id v : nest_.kernel.outer) {
          auto step = v == nest_.lanes ? std::nullopt : x_.coefficient(load.b, v);
          if (out == none && step && x_.is(*step, 1)) out = v;
        }
      });
    return out;
  }

  /// The largest divisor of n that is a multiple of `of`, at most `most`; 0: there is none.
  static int64_t divisor(int64_t n, int64_t of, int64_t most) {
    for (int64_t d = most / of * of; d > 0; d -= of)
      if (n % d == 0) return d;
    return 0;
  }

  void cut(Id across, int64_t wide, int64_t high) {
    Ids& outer = nest_.kernel.outer;
    Stage& stage = nest_.kernel.stages[0];
    Id slow_lanes = none, lanes = none, slow_across = none, row = none;
    Substitution by{{nest_.lanes, pieces(nest_.lanes, wide, slow_lanes, lanes)},
                    {across, pieces(across, high, slow_across, row)}};
    for (Statement& s : stage.statements) {
      s.value = x_.substitute(s.value, by);
      if (s.index != none) s.index = x_.substitute_index(s.index, by);
    }
    std::erase_if(outer, [&](Id v) { return v == nest_.lanes || v == across; });
    for (Id slow : {slow_lanes, slow_across})  // of one piece the index is 0, no variable
      if (x_.index_at(slow).kind == IndexKind::variable) outer.push_back(slow);
    stage.inner = {row, lanes};
    nest_.lanes = none;
    nest_.lanes_of_stage = {lanes};
    nest_.rows = x_.constant(1);
    for (Id v : outer) nest_.rows = x_.multiply(nest_.rows, x_.extent_of(v));
  }
  /// v = slow * size + fast.
  Id pieces(Id v, int64_t size, Id& slow, Id& fast) {
    slow = x_.variable(x_.floordiv(x_.extent_of(v), x_.constant(size)));
    fast = x_.variable(x_.constant(size));
    return x_.add(x_.multiply(slow, x_.constant(size)), fast);
  }

  Expressions& x_;
  Nest& nest_;
};

}  // namespace

void cut_into_tiles(Program& program, Nest& nest, int64_t vector_lanes) {
  Tiler(program, nest).run(vector_lanes);
}

}  // namespace loopir
