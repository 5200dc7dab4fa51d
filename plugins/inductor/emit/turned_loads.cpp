// Loads whose lanes lie apart, in a loop over neighbours: a square of memory, turned in registers.
//
// Problem: a transposed copy reads a gather for each row of a tile, 16 accesses of the cache, though
//   the rows lie side by side: each lane's elements are one block of memory.
// Method: before the loop over the rows of a tile, a loop over the tile's squares loads each lane's
//   part of one and transposes it, in log2(n) rounds that exchange the quarters of ever smaller
//   squares; the turned tile lies on the stack, where the loop reads it row by row, and so do other
//   loops of the kernel that read the same.
// Cost: four shuffles and a store for each vector, a tenth of what its gather takes. The code is that
//   of one square, no wider than a register: unrolled, a tile of 64 rows took LLVM half a second.
#include "value_emitter.h"

#include <lanes/lane_ops.h>
#include <lanes/memory_form.h>

#include <llvm/IR/Function.h>

#include <algorithm>
#include <bit>

namespace inductor {

using lanes::alignment;
using lanes::memory_type;
using lanes::widened;
using llvm::Value;

namespace {

using Vectors = std::vector<Value*>;

/// As many vectors as each has lanes, a power of two: element j of vector i becomes i of j.
void transpose(llvm::IRBuilder<>& b, Vectors& rows) {
  int n = static_cast<int>(rows.size());
  for (int half = n / 2; half > 0; half /= 2) {
    std::vector<int> low, high;
    for (int l = 0; l < n; ++l) {
      low.push_back(l & half ? n + l - half : l);
      high.push_back(l & half ? n + l : l + half);
    }
    for (int i = 0; i < n; ++i) {
      if (i & half) continue;
      Value *above = rows[i], *below = rows[i + half];
      rows[i] = b.CreateShuffleVector(above, below, low);
      rows[i + half] = b.CreateShuffleVector(above, below, high);
    }
  }
}

// Of a vector in a tile, which begins at a multiple of 64 bytes.
llvm::Align alignment_of(llvm::Type* vector) {
  return llvm::Align(std::min<uint64_t>(64, vector->getPrimitiveSizeInBits() / 8));
}

// The loop around the lanes over which the load counts by ones; none where a tile has none.
Id row_of_tile(loopir::Expressions& x, Scopes& scopes, Id index) {
  const Lanes& lanes = scopes.lanes;
  bool is_whole = x.number_of(x.extent_of(lanes.variable)) == int64_t{lanes.width};
  if (!is_whole || lanes.are_rows) return none;
  for (Id v : x.variables_of_index(index)) {
    auto step = v == lanes.variable ? std::nullopt : x.coefficient(index, v);
    auto extent = x.number_of(x.extent_of(v));
    if (step && x.is(*step, 1) && extent && scopes.of_index(v) + 1 == lanes.scope) return v;
  }
  return none;
}

/// Elements in memory: `step` apart from lane to lane, side by side from row to row.
struct Tile {
  llvm::Type* element;
  Value* first;
  llvm::Align alignment;
  int64_t step, width, high, side;  // lanes, rows, and those of a square
};

// Before the loop that is open in the scope: all of it turned, on the stack.
Value* emit_tile(llvm::IRBuilder<>& b, Scopes& scopes, size_t scope, const Tile& t) {
  auto number = [&b](int64_t n) { return b.getInt64(static_cast<uint64_t>(n)); };
  llvm::BasicBlock& entry = scopes[scope].block->getParent()->getEntryBlock();
  llvm::IRBuilder<> top(&entry, entry.begin());
  llvm::AllocaInst* tile = top.CreateAlloca(t.element, number(t.high * t.width));
  tile->setAlignment(llvm::Align(64));
  llvm::Type* narrow = widened(t.element, static_cast<unsigned>(t.side));
  Value* across = number(t.width / t.side);
  auto turn_square = [&](Value* square) {
    Value* row = b.CreateMul(b.CreateUDiv(square, across), number(t.side));
    Value* lane = b.CreateMul(b.CreateURem(square, across), number(t.side));
    Value* from = b.CreateAdd(b.CreateMul(lane, number(t.step)), row);
    Value* to = b.CreateAdd(b.CreateMul(row, number(t.width)), lane);
    Vectors rows;
    for (int64_t l = 0; l < t.side; ++l) {
      Value* at = b.CreateGEP(t.element, t.first, b.CreateAdd(from, number(l * t.step)));
      rows.push_back(b.CreateAlignedLoad(narrow, at, t.alignment));
    }
    transpose(b, rows);
    for (int64_t k = 0; k < t.side; ++k) {
      Value* at = b.CreateGEP(t.element, tile, b.CreateAdd(to, number(k * t.width)));
      b.CreateAlignedStore(rows[static_cast<size_t>(k)], at, alignment_of(narrow));
    }
  };
  scopes.repeat_before_loop(scope, static_cast<uint64_t>(t.high / t.side * t.width / t.side),
                            turn_square);
  return tile;
}

}  // namespace

Value* ValueEmitter::emit_turned(const loopir::ValueNode& n, int64_t step, size_t scope) {
  Id row = frame_.written.contains(n.a) ? none : row_of_tile(x_, scopes_, n.b);
  if (row == none) return nullptr;
  int64_t width = lanes_.width, high = *x_.number_of(x_.extent_of(row));
  constexpr int64_t least = 4;  // fewer are gathered as fast
  int64_t of_register = options_.vector_bits / 8 / loopir::item_size(n.dtype);
  int64_t side = std::min({width, high & -high, std::max(least, of_register)});
  if (side < least || !std::has_single_bit(static_cast<uint64_t>(width))) return nullptr;
  Id zero = x_.constant(0);
  Id first = x_.substitute_index(n.b, {{row, zero}, {lanes_.variable, zero}});
  if (scopes_.of_index(first) >= scopes_.of_index(row)) return nullptr;

  size_t outside = scopes_.of_index(row) - 1;
  llvm::Type* element = memory_type(b_.getContext(), n.dtype);
  Value*& tile = scopes_[outside].tiles[{n.a, n.b}];
  if (!tile) {
    Value* at = index(first);
    scopes_.go_to(outside);
    Tile turned{element, address(n.a, at), alignment(n.dtype), step, width, high, side};
    tile = emit_tile(b_, scopes_, outside, turned);
  }
  Value* here = scopes_.variable(row);
  scopes_.go_to(scope);
  llvm::Type* wide = widened(element, lanes_.width);
  return b_.CreateAlignedLoad(wide, b_.CreateGEP(wide, tile, here), alignment_of(wide));
}

}  // namespace inductor
