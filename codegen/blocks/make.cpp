#include "make.h"

#include "maker.h"
#include "segments.h"
#include "split.h"
#include "tiles.h"

#include <algorithm>
#include <bit>

namespace blocks {

using loopir::Ids;
using loopir::Stage;
using loopir::Statement;

namespace {

int64_t widest(const loopir::Program& program, const loopir::Kernel& kernel) {
  for (const Stage& stage : kernel.stages)
    for (const Statement& s : stage.statements)
      if (size_of(type_of(program.expressions.dtype_of(s.value))) == 8) return 8;
  return 4;
}

/// No more lanes than the largest block has elements.
int64_t width_for(loopir::Program& program, const loopir::Nest& nest) {
  loopir::Expressions& x = program.expressions;
  int64_t most = lanes_for(program, nest.kernel), largest = 1;
  auto see = [&](const Ids& tile) {
    if (tile.empty()) return;
    auto slowest = x.number_of(x.extent_of(tile[0]));
    largest = std::max(largest, slowest ? *slowest * inner_of(x, tile) : most);
  };
  see(tile_of_rows(x, nest, most));
  for (size_t s = 0; s < nest.kernel.stages.size(); ++s)
    see(tile_of_stage(x, nest.kernel.stages[s], nest.lanes_of_stage[s], most));
  if (largest >= most) return most;
  return std::max<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(largest))), 8);
}

/// Room for a block in place of a row.
void widen_scratch(const loopir::Program& program, int64_t width, inductor::KernelInterface& out) {
  int64_t end = 0;
  auto room = [&](Id buffer) { return width * loopir::item_size(program.buffers[buffer].dtype); };
  std::map<int64_t, Id> in_order;
  for (const auto& [buffer, offset] : out.scratch_offsets) in_order[offset] = buffer;
  for (auto at = in_order.begin(); at != in_order.end(); ++at) {
    auto next = std::next(at);
    int64_t size = (next == in_order.end() ? out.scratch_bytes : next->first) - at->first;
    out.scratch_offsets[at->second] = end;
    end += (std::max(size, room(at->second)) + 63) / 64 * 64;
  }
  out.scratch_bytes = end;
}

/// Rows, or blocks.
Id units_for(loopir::Program& program, const loopir::Nest& nest, int64_t width) {
  loopir::Expressions& x = program.expressions;
  Ids tile = tile_of_rows(x, nest, width);
  if (tile.size() < 2) return inductor::units_of(program, nest, width);
  Id out = blocks_of(x, tile, width);
  for (Id v : nest.kernel.outer)
    if (std::ranges::find(tile, v) == tile.end()) out = x.multiply(out, x.extent_of(v));
  return out;
}

/// Whether the units of the nest whose lanes were split are those of the whole one.
bool has_units_of(loopir::Expressions& x, const loopir::Nest& whole, const loopir::Nest& split,
                  int64_t width) {
  Ids tile = tile_of_rows(x, split, width);
  if (tile.size() < 2) return split.kernel.outer.size() == whole.kernel.outer.size();
  bool has_other = std::ranges::any_of(whole.kernel.outer, [&](Id v) {
    return v != whole.lanes && std::ranges::find(tile, v) != tile.end();
  });
  return !has_other && whole.kernel.outer.size() > 1 && x.is(blocks_of(x, tile, width), 1);
}

/// In vector instructions, roughly.
double cost_of(loopir::Program& program, const loopir::Nest& nest, const Made& made) {
  loopir::Expressions& x = program.expressions;
  int64_t inner = 1;
  for (const Stage& stage : nest.kernel.stages) {
    int64_t n = 1;
    for (Id v : stage.inner) n *= std::max<int64_t>(x.hint(x.extent_of(v)), 1);
    inner = std::max(inner, n);
  }
  bool units_are_blocks = nest.lanes != none && (nest.kernel.outer.size() == 1 || made.is_tiled);
  if (units_are_blocks)
    inner *= made.code.width;
  else if (nest.lanes != none)
    inner *= std::max<int64_t>(x.hint(x.extent_of(nest.lanes)), 1);
  size_t steps = 0;
  for (const Body& b : made.code.bodies) steps += b.steps.size();
  return static_cast<double>(inner) / 16 * static_cast<double>(steps + 2) * 2 + 40;
}

}  // namespace

int64_t lanes_for(const loopir::Program& program, const loopir::Kernel& kernel) {
  return widest(program, kernel) == 8 ? 512 : 1024;
}

Made make_code(loopir::Program& program, const loopir::Nest& whole) {
  const loopir::Nest nest = split_lanes(program, whole);
  Made out;
  Code& code = out.code;
  code.name = nest.kernel.name;
  int64_t most = lanes_for(program, nest.kernel);
  const std::optional<Segments> segments = segments_of(program, nest, most);
  code.width = segments ? most : width_for(program, nest);
  out.interface.symbol = "blocks";
  out.interface.width = static_cast<unsigned>(code.width);
  inductor::add_buffers(program, nest, out.interface);
  out.interface.units = units_for(program, nest, code.width);
  out.is_tiled = !has_units_of(program.expressions, whole, nest, code.width);
  std::map<Id, uint32_t> positions;
  for (Id b : out.interface.buffers) positions.emplace(b, static_cast<uint32_t>(positions.size()));
  code.n_buffers = static_cast<uint32_t>(positions.size());
  if (segments && segments->have_folds) widen_scratch(program, code.width, out.interface);
  for (const auto& [b, offset] : out.interface.scratch_offsets) {
    positions.emplace(b, static_cast<uint32_t>(positions.size()));
    code.scratch_offsets.push_back(offset);
  }
  code.row_bytes = out.interface.scratch_bytes;
  std::vector<int> writers(program.buffers.size());
  for (const Stage& stage : nest.kernel.stages)
    for (const Statement& s : stage.statements)
      if (s.buffer != none) ++writers[s.buffer];
  Maker(program, nest, out, positions, writers, segments).run();
  out.interface.scratch_bytes = code.scratch_bytes();
  out.interface.cost = cost_of(program, nest, out);
  return out;
}

}  // namespace blocks
