// The steps of one kernel: a walk over its stages.
#pragma once

#include "make.h"
#include "segments.h"
#include "tiles.h"
#include "values.h"

#include <functional>

namespace blocks {

using loopir::Ids;
using loopir::Stage;
using loopir::Statement;

using MakeBody = std::function<void()>;

/// The state of a fold while its stage is made.
struct State {
  Id value = none, place = none;
  Type type{};
};

class Maker {
 public:
  Maker(loopir::Program& program, const loopir::Nest& nest, Made& made,
        const std::map<Id, uint32_t>& buffers, const std::vector<int>& writers,
        const std::optional<Segments>& segments)
      : program_(program),
        x_(program.expressions),
        nest_(nest),
        code_(made.code),
        scopes_(program, made.code),
        uses_(uses_in(program, nest.kernel)),
        values_(program, made.code, scopes_, buffers, writers, uses_),
        writers_(writers),
        segments_(segments),
        tile_(tile_of_rows(x_, nest, made.code.width)),
        blocks_(tile_.size() > 1 ? blocks_of(x_, tile_, made.code.width) : none) {
    scopes_.lanes.are_rows = nest.lanes != none;
  }
  void run() {
    make_rows();
    hoist(code_);
    place_registers(code_, scopes_.registers());
  }

 private:
  void make_rows();
  void make_units(Id short_rows);
  void make_short_rows(Id longest);
  void make_segments(Id elements, const MakeBody& body);
  void bind_rows(const Ids& own, Id row);
  Id split(Id& row, Id n);
  void make_stages();
  void make_stage(const Stage& stage, Id lanes);
  void make_inner(const Ids& variables, size_t next, const MakeBody& body);
  void make_loop(Step loop, Id variable, const MakeBody& body);
  void make_lanes(Step loop, const Ids& tile, const MakeBody& body);
  bool is_long(const Stage& stage);
  void start(const Statement& s, State& state, bool is_wide);
  void step(const Statement& s);
  void finish(const Statement& s);
  void make_scan(const Statement& s);
  void store(const Statement& s, Operand value);
  void aim(const Statement& s, Operand value, const Values::Access& at);
  void make_statement(const Statement& s);
  bool by_lanes() const { return scopes_.lanes.are_rows; }
  bool are_segments_open() const { return scopes_.lanes.elements != none; }

  loopir::Program& program_;
  loopir::Expressions& x_;
  const loopir::Nest& nest_;
  Code& code_;
  Scopes scopes_;
  const Uses uses_;
  Values values_;
  const std::vector<int>& writers_;
  const std::optional<Segments>& segments_;
  const Ids tile_;   // lanes that are rows
  const Id blocks_;  // how many there are of a tile's slowest variable; none of one variable
  std::map<Id, State> states_;  // by fold
};

}  // namespace blocks
