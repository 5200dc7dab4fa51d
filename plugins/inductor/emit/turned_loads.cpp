// Loads whose lanes lie apart, in a loop over neighbours: a square of memory, turned in registers.
//
// Problem: a transposed copy reads a gather for each row of a tile, 16 accesses of the cache, though
//   the rows lie side by side: each lane's elements are one block of memory.
// Method: before the loop over the rows of a tile, each lane's block is loaded and squares of them
//   are transposed, in log2(n) rounds that exchange the quarters of ever smaller squares; the turned
//   tile lies on the stack, where the loop reads it row by row.
// Cost: four shuffles and a store for each vector, a tenth of what its gather takes.
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

/// Vectors of one size, behind one another as one; as many as a power of two.
Value* joined(llvm::IRBuilder<>& b, Vectors parts) {
  for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
    auto* type = llvm::cast<llvm::FixedVectorType>(parts[0]->getType());
    std::vector<int> all(size_t{2} * type->getNumElements());
    for (size_t l = 0; l < all.size(); ++l) all[l] = static_cast<int>(l);
    for (size_t k = 0; k < parts.size() / 2; ++k)
      parts[k] = b.CreateShuffleVector(parts[2 * k], parts[2 * k + 1], all);
  }
  return parts[0];
}

}  // namespace

// The loop around the lanes over which the load counts by ones; none where a tile has none.
Id ValueEmitter::row_of_tile(Id index) {
  bool is_whole = x_.number_of(x_.extent_of(lanes_.variable)) == int64_t{lanes_.width};
  if (!is_whole || lanes_.are_rows) return none;
  for (Id v : x_.variables_of_index(index)) {
    auto step = v == lanes_.variable ? std::nullopt : x_.coefficient(index, v);
    auto extent = x_.number_of(x_.extent_of(v));
    if (step && x_.is(*step, 1) && extent && scopes_.of_index(v) + 1 == lanes_.scope) return v;
  }
  return none;
}

Value* ValueEmitter::emit_turned(const loopir::ValueNode& n, int64_t step, size_t scope) {
  Id row = row_of_tile(n.b);
  if (row == none) return nullptr;
  int64_t width = lanes_.width, high = *x_.number_of(x_.extent_of(row));
  int64_t side = std::min<int64_t>(width, high & -high);
  if (side < 4 || !std::has_single_bit(static_cast<uint64_t>(width))) return nullptr;
  Id zero = x_.constant(0);
  Id first = x_.substitute_index(n.b, {{row, zero}, {lanes_.variable, zero}});
  if (scopes_.of_index(first) >= scopes_.of_index(row)) return nullptr;

  llvm::BasicBlock& entry = frame_.function->getEntryBlock();
  llvm::IRBuilder<> top(&entry, entry.begin());
  llvm::Type* element = memory_type(b_.getContext(), n.dtype);
  llvm::Type* wide = widened(element, lanes_.width);
  llvm::AllocaInst* tile = top.CreateAlloca(wide, top.getInt64(static_cast<uint64_t>(high)));
  tile->setAlignment(llvm::Align(64));

  Value* at = index(first);
  scopes_.go_to(scopes_.of_index(row) - 1);
  for (int64_t top_row = 0; top_row < high; top_row += side) {
    std::vector<Vectors> rows(static_cast<size_t>(side));
    for (int64_t left = 0; left < width; left += side) {
      Vectors square;
      for (int64_t l = left; l < left + side; ++l) {
        Value* place = b_.CreateAdd(at, b_.getInt64(static_cast<uint64_t>(l * step + top_row)));
        square.push_back(b_.CreateAlignedLoad(widened(element, static_cast<unsigned>(side)),
                                              address(n.a, place), alignment(n.dtype)));
      }
      transpose(b_, square);
      for (size_t k = 0; k < square.size(); ++k) rows[k].push_back(square[k]);
    }
    for (size_t k = 0; k < rows.size(); ++k)
      b_.CreateStore(joined(b_, std::move(rows[k])),
                     b_.CreateConstGEP1_64(wide, tile, static_cast<uint64_t>(top_row) + k));
  }
  Value* here = scopes_.variable(row);
  scopes_.go_to(scope);
  return b_.CreateLoad(wide, b_.CreateGEP(wide, tile, here));
}

}  // namespace inductor
