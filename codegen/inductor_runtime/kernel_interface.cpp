// What a kernel's interface says of its nest, whoever makes the code.
#include "kernel_interface.h"

#include <algorithm>

namespace inductor {

using loopir::Id;
using loopir::none;
using loopir::Stage;
using loopir::Statement;

void add_buffers(loopir::Program& program, const loopir::Nest& nest, KernelInterface& out) {
  loopir::Access access;
  for (const Stage& stage : nest.kernel.stages) {
    loopir::add_extent_loads(program.expressions, stage.inner, access.reads);
    for (const Statement& s : stage.statements) {
      loopir::add_loads(program.expressions, s.value, access.reads);
      if (s.buffer == none) continue;
      access.reads.push_back(s.buffer);
      loopir::add_index_loads(program.expressions, s.index, access.reads);
    }
  }
  for (Id buffer : access.reads) {
    const loopir::Buffer& info = program.buffers[buffer];
    if (info.place != loopir::Buffer::Place::scratch) {
      if (std::find(out.buffers.begin(), out.buffers.end(), buffer) == out.buffers.end())
        out.buffers.push_back(buffer);
      continue;
    }
    if (!out.scratch_offsets.emplace(buffer, out.scratch_bytes).second) continue;
    int64_t elements = nest.lanes != none ? out.width : 1;
    for (Id size : info.sizes) elements *= program.expressions.range(size).upper;
    out.scratch_bytes += (elements * loopir::item_size(info.dtype) + 127) / 64 * 64;
  }
}

Id units_of(loopir::Program& program, const loopir::Nest& nest, int64_t width) {
  if (nest.lanes == none || nest.kernel.outer.size() != 1) return nest.rows;
  loopir::Expressions& x = program.expressions;
  Id last = x.constant(width - 1);
  return x.floordiv(x.add(x.extent_of(nest.lanes), last), x.constant(width));
}

}  // namespace inductor
