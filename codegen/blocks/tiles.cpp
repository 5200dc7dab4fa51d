#include "tiles.h"

#include "code.h"

#include <algorithm>

namespace blocks {

using loopir::Ids;
using loopir::Stage;
using loopir::Statement;

namespace {

/// The indices of all loads and stores.
Ids indices_of(loopir::Expressions& x, const std::vector<const Stage*>& stages) {
  Ids out;
  auto see = [&](const loopir::ValueNode& load) { out.push_back(load.b); };
  for (const Stage* stage : stages)
    for (const Statement& s : stage->statements) {
      loopir::for_each_load(x, s.value, see);
      if (s.buffer == none) continue;
      out.push_back(s.index);
      loopir::for_each_index_load(x, s.index, see);
    }
  return out;
}

/// Lanes over the variable and, while a block has room, over those around it, the slowest first.
/// Extents of loops must not depend on what becomes lanes, and, unless blocks were very short, every
/// index must be a line in it: else each element is looked up by itself.
class TileMaker {
 public:
  TileMaker(loopir::Expressions& x, const Ids& variables, const std::vector<const Stage*>& stages)
      : x_(x), variables_(variables), indices_(indices_of(x, stages)) {
    for (Id v : variables) extents_.push_back(x.extent_of(v));
    for (const Stage* stage : stages)
      for (Id v : stage->inner) extents_.push_back(x.extent_of(v));
  }

  Ids around(Id lanes, int64_t width) {
    Ids out{lanes};
    int64_t inner = 1;
    auto at = std::ranges::find(variables_, lanes);
    while (at != variables_.begin() && out.size() + 1 < most_dimensions) {
      auto extent = x_.number_of(x_.extent_of(out.front()));
      if (!extent || *extent < 1 || inner * *extent > short_row(width)) break;
      --at;
      if (!has_fixed_extents(*at) || (inner * *extent >= worth_a_block && !is_line(*at))) break;
      inner *= *extent;
      out.insert(out.begin(), *at);
    }
    return out;
  }

 private:
  bool has_fixed_extents(Id variable) {
    return std::ranges::none_of(extents_, [&](Id e) { return x_.depends_on(e, variable); });
  }
  bool is_line(Id variable) {
    return std::ranges::all_of(indices_, [&](Id index) {
      return !x_.depends_on(index, variable) || x_.coefficient(index, variable).has_value();
    });
  }

  // So many elements cost no more in a block of their own than looked up one by one.
  static constexpr int64_t worth_a_block = 48;
  loopir::Expressions& x_;
  const Ids& variables_;
  Ids indices_, extents_;
};

}  // namespace

Ids tile_of_rows(loopir::Expressions& x, const loopir::Nest& nest, int64_t width) {
  if (nest.lanes == none) return {};
  std::vector<const Stage*> stages;
  for (const Stage& stage : nest.kernel.stages) stages.push_back(&stage);
  return TileMaker(x, nest.kernel.outer, stages).around(nest.lanes, width);
}

Ids tile_of_stage(loopir::Expressions& x, const Stage& stage, Id lanes, int64_t width) {
  if (lanes == none) return {};
  bool is_scan = std::ranges::any_of(stage.statements, &Statement::is_scan);
  return is_scan ? Ids{lanes} : TileMaker(x, stage.inner, {&stage}).around(lanes, width);
}

int64_t inner_of(loopir::Expressions& x, const Ids& tile) {
  int64_t out = 1;
  for (size_t k = 1; k < tile.size(); ++k) out *= *x.number_of(x.extent_of(tile[k]));
  return out;
}

Id blocks_of(loopir::Expressions& x, const Ids& tile, int64_t width) {
  int64_t rows = width / inner_of(x, tile);
  return x.floordiv(x.add(x.extent_of(tile[0]), x.constant(rows - 1)), x.constant(rows));
}

}  // namespace blocks
