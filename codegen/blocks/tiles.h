// Which variables the lanes of a block run over.
#pragma once

#include <loopir/kernel.h>

namespace blocks {

/// Of lanes that are rows, the slowest variable first; empty where they are not.
loopir::Ids tile_of_rows(loopir::Expressions& x, const loopir::Nest& nest, int64_t width);
/// Of a stage; a scan goes along one variable.
loopir::Ids tile_of_stage(loopir::Expressions& x, const loopir::Stage& stage, loopir::Id lanes,
                          int64_t width);
/// Elements of a block for each value of the slowest variable.
int64_t inner_of(loopir::Expressions& x, const loopir::Ids& tile);
/// How many blocks the slowest variable makes.
loopir::Id blocks_of(loopir::Expressions& x, const loopir::Ids& tile, int64_t width);

}  // namespace blocks
