// Reductions. Over a block: within each warp by shuffles, then over the warps through shared memory.
// Every thread folds in an order that depends on nothing but the number of threads, and which two
// parts meet is the same for both of them, so all get the same bits.
#include "team.h"

#include <lanes/folds.h>
#include <lanes/lane_ops.h>

namespace inductor_cuda {

using llvm::Value;
using loopir::Statement;

namespace {

int32_t dtype_of(Frame& f, const Statement& s) { return f.program.expressions.dtype_of(s.value); }

/// Any value through shuffles of 32 bits.
Value* shuffled(Frame& f, Value* v, unsigned mask) {
  llvm::IRBuilder<>& b = f.b;
  llvm::Type* type = v->getType();
  unsigned bits = type->getScalarSizeInBits();
  Value* whole = type->isIntegerTy() ? v : b.CreateBitCast(v, b.getIntNTy(bits));
  if (bits <= 32) {
    Value* got = f.target.shuffled(b, b.CreateZExt(whole, b.getInt32Ty()), mask);
    return b.CreateBitCast(b.CreateTrunc(got, b.getIntNTy(bits)), type);
  }
  Value* low = f.target.shuffled(b, b.CreateTrunc(whole, b.getInt32Ty()), mask);
  Value* high = f.target.shuffled(b, b.CreateTrunc(b.CreateLShr(whole, 32), b.getInt32Ty()), mask);
  Value* both = b.CreateOr(b.CreateZExt(low, b.getInt64Ty()),
                           b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32));
  return b.CreateBitCast(both, type);
}

Part folded_over_warp(Frame& f, const Statement& s, Part part, unsigned threads) {
  for (unsigned mask = threads / 2; mask > 0; mask /= 2) {
    Part other{shuffled(f, part.value, mask), nullptr};
    if (part.position) other.position = shuffled(f, part.position, mask);
    part = combined(f, s, part, other);
  }
  return part;
}

/// Shared memory of one part.
Value* place(Frame& f, Value* number) {
  Value* offset = f.b.CreateMul(number, f.b.getInt32(static_cast<uint32_t>(bytes_of_part)));
  return f.b.CreateGEP(f.b.getInt8Ty(), f.folds, offset);
}
Value* place_of_position(Frame& f, Value* at) {
  return f.b.CreateConstGEP1_64(f.b.getInt8Ty(), at, 8);
}

void put(Frame& f, Value* at, const Part& part) {
  put_element(f, at, part.value);
  if (part.position) put_element(f, place_of_position(f, at), part.position);
}

Part get(Frame& f, Value* at, const Part& like) {
  Part out{get_element(f, at, like.value->getType()), nullptr};
  if (like.position)
    out.position = get_element(f, place_of_position(f, at), like.position->getType());
  return out;
}

/// Truth has a byte.
llvm::Type* type_in_memory(Frame& f, llvm::Type* type) {
  return type->isIntegerTy(1) ? f.b.getInt8Ty() : type;
}

}  // namespace

void put_element(Frame& f, Value* at, Value* v) {
  llvm::Type* type = type_in_memory(f, v->getType());
  unsigned bytes = type->getScalarSizeInBits() / 8;
  if (type != v->getType()) v = f.b.CreateZExt(v, type);
  f.b.CreateAlignedStore(v, f.target.shared(f.b, at, bytes, MemoryUse::write), llvm::Align(bytes));
}

Value* get_element(Frame& f, Value* at, llvm::Type* type) {
  llvm::Type* stored = type_in_memory(f, type);
  unsigned bytes = stored->getScalarSizeInBits() / 8;
  at = f.target.shared(f.b, at, bytes, MemoryUse::read);
  Value* v = f.b.CreateAlignedLoad(stored, at, llvm::Align(bytes));
  return stored == type ? v : f.b.CreateTrunc(v, type);
}

Part combined(Frame& f, const Statement& s, const Part& p, const Part& q) {
  int32_t dtype = dtype_of(f, s);
  if (!p.position) return {lanes::combined(f.b, s.fold, dtype, p.value, q.value), nullptr};
  Value* better = lanes::is_better(f.b, s.fold, dtype, q.value, q.position, p.value, p.position);
  return {f.b.CreateSelect(better, q.value, p.value),
          f.b.CreateSelect(better, q.position, p.position)};
}

Part folded_over_block(Frame& f, const Statement& s, const Part& own) {
  unsigned threads = f.plan.form.threads, warps = threads / warp;
  Part part = folded_over_warp(f, s, own, warp);
  if (warps == 1) return part;
  Value* thread = f.target.thread(f.b);
  Value* lane = f.b.CreateAnd(thread, f.b.getInt32(warp - 1));
  Value* first = f.b.getInt32(static_cast<uint32_t>(s.folded) * warps);
  emit_if(f, f.b.CreateICmpEQ(lane, f.b.getInt32(0)), [&] {
    put(f, place(f, f.b.CreateAdd(first, f.b.CreateUDiv(thread, f.b.getInt32(warp)))), part);
  });
  f.target.barrier(f.b);
  // Each thread takes the part of one warp; those of `warps` neighbours are all of them.
  Value* which = f.b.CreateAnd(lane, f.b.getInt32(warps - 1));
  return folded_over_warp(f, s, get(f, place(f, f.b.CreateAdd(first, which)), part), warps);
}

// Within a warp: of neighbours of 2, 4, ... threads the second half takes what the first half has.
// Whose part is the first of two is the same for both, so that all threads get the same whole.
Scanned scanned_over_warp(Frame& f, const Statement& s, Value* own, Value* lane) {
  llvm::IRBuilder<>& b = f.b;
  int32_t dtype = dtype_of(f, s);
  auto join = [&](Value* p, Value* q) { return lanes::combined(b, s.fold, dtype, p, q); };
  Scanned out{lanes::neutral(s.fold, own->getType(), dtype), own};
  for (unsigned mask = 1; mask < warp; mask *= 2) {
    Value* other = shuffled(f, out.all, mask);
    Value* is_second = b.CreateICmpNE(b.CreateAnd(lane, b.getInt32(mask)), b.getInt32(0));
    out.before = b.CreateSelect(is_second, join(other, out.before), out.before);
    out.all =
        join(b.CreateSelect(is_second, other, out.all), b.CreateSelect(is_second, out.all, other));
  }
  return out;
}

Scanned scanned_over_block(Frame& f, const Statement& s, Value* own) {
  llvm::IRBuilder<>& b = f.b;
  unsigned warps = f.plan.form.threads / warp;
  int32_t dtype = dtype_of(f, s);
  Value* thread = f.target.thread(b);
  Value* lane = b.CreateAnd(thread, b.getInt32(warp - 1));
  Scanned in_warp = scanned_over_warp(f, s, own, lane);
  if (warps == 1) return in_warp;
  Value* number = b.CreateUDiv(thread, b.getInt32(warp));
  Value* first = b.getInt32(static_cast<uint32_t>(s.folded) * warps);
  f.target.barrier(b);  // the parts of the points before have been read
  emit_if(f, b.CreateICmpEQ(lane, b.getInt32(0)),
          [&] { put(f, place(f, b.CreateAdd(first, number)), {in_warp.all}); });
  f.target.barrier(b);
  Scanned out{lanes::neutral(s.fold, own->getType(), dtype), nullptr};
  out.all = out.before;
  for (unsigned w = 0; w < warps; ++w) {
    Value* part = get(f, place(f, b.CreateAdd(first, b.getInt32(w))), {own}).value;
    Value* is_before = b.CreateICmpULT(b.getInt32(w), number);
    out.all = lanes::combined(b, s.fold, dtype, out.all, part);
    out.before = b.CreateSelect(is_before, out.all, out.before);
  }
  out.before = lanes::combined(b, s.fold, dtype, out.before, in_warp.before);
  return out;
}

Part folded_over_column(Frame& f, const Statement& s, const Part& own) {
  unsigned rows = f.plan.form.threads / columns_of_block;
  Value* thread = f.target.thread(f.b);
  f.target.barrier(f.b);  // the parts of the fold before have been read
  put(f, place(f, thread), own);
  f.target.barrier(f.b);
  Value* column = f.b.CreateAnd(thread, f.b.getInt32(columns_of_block - 1));
  Part out = get(f, place(f, column), own);
  for (unsigned r = 1; r < rows; ++r) {
    Value* next = f.b.CreateAdd(column, f.b.getInt32(r * columns_of_block));
    out = combined(f, s, out, get(f, place(f, next), own));
  }
  return out;
}

}  // namespace inductor_cuda
