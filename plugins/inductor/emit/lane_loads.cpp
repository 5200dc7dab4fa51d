// Loads: one element for all lanes, a block of lanes, a block turned around or with gaps, a gather.
//
// Problem: a gather takes an access of the cache for each lane, a block one for each register, yet
//   flipped, sliced, repeated and padded tensors are read in other orders than one after the other.
// Method: by what the index grows by from lane to lane. 1: a block. -1: a block, turned around. 2 to
//   4: blocks without gaps, of which lanes are picked. Where it is mostly 1, as in i % n, the code
//   looks at the last lane and takes a block or a gather. What is left is a gather.
// Cost: one or two instructions a register more than a block, 16 cycles or so a register for a
//   gather.
#include "gaps.h"
#include "value_emitter.h"

#include <lanes/lane_ops.h>
#include <lanes/memory_form.h>

#include <algorithm>
#include <limits>

namespace inductor {

using lanes::alignment;
using lanes::constant_of;
using lanes::from_memory;
using lanes::memory_type;
using lanes::widened;
using llvm::Value;
using loopir::IndexKind;
using loopir::IndexNode;
using loopir::ValueNode;

namespace {

// Lanes one after the other, as memory holds them.
Value* load_block(llvm::IRBuilder<>& b, int32_t dtype, unsigned width, Value* place, Value* mask) {
  llvm::Type* wide = widened(memory_type(b.getContext(), dtype), width);
  if (!mask) return b.CreateAlignedLoad(wide, place, alignment(dtype));
  return b.CreateMaskedLoad(wide, place, alignment(dtype), mask,
                            llvm::Constant::getNullValue(wide));
}

/// Bounds of what an index grows by from lane to lane.
struct Growth {
  int64_t least = 0, most = 0;
};

std::optional<Growth> growth_of(loopir::Expressions& x, Id i, Id lane) {
  if (!x.depends_on(i, lane)) return Growth{};
  const IndexNode n = x.index_at(i);
  if (n.kind == IndexKind::variable) return Growth{1, 1};
  if (n.kind == IndexKind::value || n.kind == IndexKind::floordiv) return std::nullopt;
  bool is_choice = n.kind == IndexKind::min || n.kind == IndexKind::max;
  std::optional<Growth> out;
  for (Id operand : n.operands) {
    auto own = growth_of(x, operand, lane);
    if (!own) return std::nullopt;
    if (!out)
      out = own;
    else if (is_choice)
      out = Growth{std::min(out->least, own->least), std::max(out->most, own->most)};
    else if (n.kind == IndexKind::sum)
      out = Growth{out->least + own->least, out->most + own->most};
    else
      return std::nullopt;  // a remainder by what differs, a product of indices
    if (n.kind == IndexKind::mod) {
      bool grows = out->least >= 0 && x.number_of(n.operands[1]).value_or(0) > 0;
      return grows ? std::optional(Growth{std::numeric_limits<int32_t>::min(), out->most})
                   : std::nullopt;
    }
  }
  if (n.kind != IndexKind::product) return out;
  if (n.number != 1 && n.number != -1) return std::nullopt;
  return n.number == 1 ? out : Growth{-out->most, -out->least};
}

bool may_be_in_order(loopir::Expressions& x, Id i, Id lane) {
  auto growth = growth_of(x, i, lane);
  return growth && growth->most == 1 && !x.reads_data(i);
}

}  // namespace

// Where lanes are rows, an element of a row in scratch memory is one for each lane.
Value* ValueEmitter::emit_lane_scratch(const ValueNode& n) {
  Value* at = index(n.b);
  scopes_.go_to(std::max(lanes_.scope, scopes_.of_index(n.b)));
  at = b_.CreateMul(at, b_.getInt64(lanes_.full_width));
  return from_memory(
      b_,
      b_.CreateAlignedLoad(widened(memory_type(b_.getContext(), n.dtype), lanes_.width),
                           address(n.a, at), alignment(n.dtype)),
      n.dtype);
}

// One element for all lanes.
Value* ValueEmitter::emit_one_load(const ValueNode& n) {
  Value* at = index(n.b);
  Value* condition = n.c == none ? nullptr : value(n.c);
  scopes_.go_to(std::max(scopes_.of_index(n.b), n.c == none ? 0 : scopes_.of_value(n.c)));
  llvm::Type* type = memory_type(b_.getContext(), n.dtype);
  Value* mask = condition ? b_.CreateVectorSplat(1, condition) : nullptr;
  Value* place = address(n.a, at);
  if (!mask) return from_memory(b_, b_.CreateAlignedLoad(type, place, alignment(n.dtype)), n.dtype);
  Value* nothing = llvm::Constant::getNullValue(widened(type, 1));
  Value* loaded = b_.CreateMaskedLoad(widened(type, 1), place, alignment(n.dtype), mask, nothing);
  return from_memory(b_, b_.CreateExtractElement(loaded, uint64_t{0}), n.dtype);
}

Value* ValueEmitter::emit_load(const ValueNode& n) {
  if (lanes_.are_rows && scopes_.is_scratch(n.a)) return emit_lane_scratch(n);
  if (!scopes_.index_varies(n.b) && (n.c == none || !scopes_.varies(n.c))) return emit_one_load(n);
  auto step = scopes_.lane_step(n.b);
  Value* mask = full_mask(n.c);
  size_t scope = std::max(lanes_.scope, scopes_.of_index(n.b));
  if (n.c != none) scope = std::max(scope, scopes_.of_value(n.c));
  return from_memory(b_, emit_lanes(n, step ? x_.number_of(*step) : std::nullopt, mask, scope),
                     n.dtype);
}

Value* ValueEmitter::emit_lanes(const ValueNode& n, std::optional<int64_t> step, Value* mask,
                                size_t scope) {
  if (step == 1) {
    Value* at = n.c == none ? index(n.b) : mapped_index(n, scope);
    scopes_.go_to(scope);
    return load_block(b_, n.dtype, lanes_.width, address(n.a, at), mask);
  }
  if (step == -1 && n.c == none) return emit_reversed(n, mask, scope);
  if (step && has_few_gaps(*step) && n.c == none) return emit_strided(n, *step, mask, scope);
  if (!step && n.c == none && scopes_.is_innermost_and_open(scope) &&
      may_be_in_order(x_, n.b, lanes_.variable))
    return emit_block_or_gather(n, mask, scope);
  if (step && !mask && n.c == none)
    if (Value* turned = emit_turned(n, *step, scope)) return turned;
  return emit_gather(n, mask, scope);
}

// The last lane lies first: a block that is turned around.
Value* ValueEmitter::emit_reversed(const ValueNode& n, Value* mask, size_t scope) {
  std::vector<int> turned;
  for (int l = static_cast<int>(lanes_.width); l-- > 0;) turned.push_back(l);
  Value* at = index(n.b);
  scopes_.go_to(scope);
  Value* first = b_.CreateSub(at, b_.getInt64(lanes_.width - 1));
  if (mask) mask = b_.CreateShuffleVector(mask, turned);
  return b_.CreateShuffleVector(load_block(b_, n.dtype, lanes_.width, address(n.a, first), mask),
                                turned);
}

// Blocks without gaps, of which lanes are picked. Whole ones end with the last lane, so that nothing
// behind it is read; else masks see to that.
Value* ValueEmitter::emit_strided(const ValueNode& n, int64_t step, Value* mask, size_t scope) {
  int64_t width = lanes_.width, last = (width - 1) * step;
  Value *at = index(n.b), *out = nullptr;
  scopes_.go_to(scope);
  for (int64_t block = 0; block < step; ++block) {
    int64_t first = mask ? block * width : std::min(block * width, last + 1 - width);
    Value* own = mask ? with_gaps(b_, mask, step, block) : nullptr;
    Value* place = address(n.a, b_.CreateAdd(at, constant_of(b_.getInt64Ty(), first)));
    Value* loaded = load_block(b_, n.dtype, lanes_.width, place, own);
    std::vector<int> picked;
    for (int64_t l = 0; l < width; ++l) {
      bool is_here = l * step / width == block;
      picked.push_back(static_cast<int>(is_here ? l * step - first + (out ? width : 0) : l));
    }
    out = b_.CreateShuffleVector(out ? out : loaded, loaded, picked);
  }
  return out;
}

// Indices such as i % n, or the clamped ones of padding, count by ones but for a few places. The
// last lane tells: it is width - 1 further on only where all lanes are neighbours.
Value* ValueEmitter::emit_block_or_gather(const ValueNode& n, Value* mask, size_t scope) {
  Id behind = x_.add(lanes_.variable, x_.constant(lanes_.width - 1));
  Value *first = index(n.b), *last = index(x_.substitute_index(n.b, {{lanes_.variable, behind}}));
  scopes_.go_to(scope);
  Value* in_order =
      b_.CreateICmpEQ(b_.CreateSub(last, first), b_.getInt64(lanes_.width - 1), "in_order");
  auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(b_.getContext(), name, frame_.function);
  };
  llvm::BasicBlock *near = block("near"), *far = block("far"), *join = block("join");
  b_.CreateCondBr(in_order, near, far);
  b_.SetInsertPoint(near);
  Value* loaded = load_block(b_, n.dtype, lanes_.width, address(n.a, first), mask);
  b_.CreateBr(join);
  // What the gather needs is known there alone.
  Scope before = scopes_[scope];
  scopes_[scope].block = far;
  Value* gathered = emit_gather(n, mask, scope);
  far = b_.GetInsertBlock();
  b_.CreateBr(join);
  scopes_[scope] = std::move(before);
  scopes_[scope].block = join;
  b_.SetInsertPoint(join);
  llvm::PHINode* out = b_.CreatePHI(loaded->getType(), 2);
  out->addIncoming(loaded, near);
  out->addIncoming(gathered, far);
  return out;
}

// Where a masked load reads nothing at all its address may be far outside of the buffer. That is
// allowed, but processors take hundreds of cycles to find out where no page is mapped; so the
// address is one inside.
Value* ValueEmitter::mapped_index(const ValueNode& n, size_t scope) {
  Value* zero = b_.getInt64(0);
  if (!scopes_.varies(n.c)) {  // decided once, before the lanes
    Id rest = x_.subtract(n.b, lanes_.variable);
    Value *is_read = value(n.c), *from = index(rest);
    scopes_.go_to(std::max(scopes_.of_value(n.c), scopes_.of_index(rest)));
    Value* safe = b_.CreateSelect(is_read, from, zero);
    scopes_.go_to(scope);
    return b_.CreateAdd(safe, scopes_.variable(lanes_.variable));
  }
  Value *are_read = lane_value(n.c), *at = index(n.b);
  scopes_.go_to(scope);
  return b_.CreateSelect(b_.CreateOrReduce(are_read), at, zero);
}

Value* ValueEmitter::emit_gather(const ValueNode& n, Value* mask, size_t scope) {
  Value* at = lane_index(n.b);
  scopes_.go_to(scope);
  llvm::Type* wide = widened(memory_type(b_.getContext(), n.dtype), lanes_.width);
  if (!mask) mask = llvm::Constant::getAllOnesValue(widened(b_.getInt1Ty(), lanes_.width));
  return b_.CreateMaskedGather(wide, address(n.a, at), alignment(n.dtype), mask,
                               llvm::Constant::getNullValue(wide));
}

}  // namespace inductor
