// Values and indices of a kernel: where they are emitted, and as what.
#include "emitter.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>

namespace inductor {

using llvm::Value;
using loopir::IndexKind;
using loopir::IndexNode;
using loopir::ValueNode;

// ---- where

bool Emitter::has_fold(Id v) {
  if (auto known = has_fold_.find(v); known != has_fold_.end()) return known->second;
  const ValueNode n = x.value_at(v);
  // A row in scratch memory is there once an earlier stage is complete, as folds are.
  bool out = n.code == loopir::value_folded || (n.code == loopir::value_load && is_scratch(n.a));
  loopir::Operands read = loopir::operands_of(n);
  for (Id o : read.values)
    if (o != none) out |= has_fold(o);
  if (read.index != none) out |= index_has_fold(read.index);
  return has_fold_[v] = out;
}
bool Emitter::index_has_fold(Id i) {
  const IndexNode& n = x.index_at(i);
  if (n.kind == IndexKind::value) return has_fold(static_cast<Id>(n.number));
  return std::any_of(n.operands.begin(), n.operands.end(), [&](Id o) { return index_has_fold(o); });
}

bool Emitter::varies(Id v) {
  if (!width_) return false;
  if (lanes_are_rows_ && has_fold(v)) return true;
  const Ids& all = x.variables_of(v);
  return std::binary_search(all.begin(), all.end(), lane_variable_);
}
bool Emitter::index_varies(Id i) {
  if (!width_) return false;
  return (lanes_are_rows_ && index_has_fold(i)) || x.depends_on(i, lane_variable_);
}
std::optional<Id> Emitter::lane_step(Id i) {
  if (lanes_are_rows_ && index_has_fold(i)) return std::nullopt;  // each lane has its own
  return x.coefficient(i, lane_variable_);
}

size_t Emitter::scope_of_variables(const Ids& variables) const {
  size_t out = 0;
  for (Id v : variables)
    if (auto at = variable_scope_.find(v); at != variable_scope_.end())
      out = std::max(out, at->second);
  return out;
}
size_t Emitter::scope_of(Id v) {
  size_t out = scope_of_variables(x.variables_of(v));
  return has_fold(v) ? std::max(out, row_scope_) : out;
}
size_t Emitter::lane_scope_of(Id v) { return std::max(lane_scope_, scope_of(v)); }
size_t Emitter::scope_of_index(Id i) {
  size_t out = scope_of_variables(x.variables_of_index(i));
  return index_has_fold(i) ? std::max(out, row_scope_) : out;
}

void Emitter::go_to(size_t scope) {
  llvm::BasicBlock* block = scopes_[scope].block;
  if (llvm::Instruction* end = block->getTerminator())
    b.SetInsertPoint(end);
  else
    b.SetInsertPoint(block);
}

// ---- values

Value* Emitter::value(Id v) {
  size_t scope = scope_of(v);
  auto& known = scopes_[scope].values;
  if (auto at = known.find(v); at != known.end()) return at->second;
  Value* out = emit_value(v);
  return scopes_[scope].values[v] = out;
}

Value* Emitter::lane_value(Id v) {
  Value* out = value(v);
  if (!width_ || varies(v)) return out;
  size_t scope = scope_of(v);
  auto& known = scopes_[scope].repeated;
  if (auto at = known.find(v); at != known.end()) return at->second;
  go_to(scope);
  return scopes_[scope].repeated[v] = repeat(out);
}

Value* Emitter::emit_value(Id v) {
  const ValueNode n = x.value_at(v);
  size_t scope = scope_of(v);
  switch (n.code) {
    case loopir::value_constant: {
      llvm::Type* type = lane_type(context_, n.dtype);
      uint64_t bits = n.a | uint64_t{n.b} << 32;
      return type->isFloatingPointTy() ? constant_of(type, std::bit_cast<double>(bits))
                                       : constant_of(type, static_cast<int64_t>(bits));
    }
    case loopir::value_folded:
      return folds_.at(n.a).result;
    case loopir::value_index:
      return varies(v) ? lane_index(n.a) : index(n.a);
    case loopir::value_load:
      return emit_load(n);
    case loopir::value_checked:
      return emit_checked(n);
    default:
      break;
  }
  bool wide = varies(v);
  Value* operands[3] = {};
  Id ids[] = {n.a, n.b, n.c};
  for (int i = 0; i < 3; ++i)
    if (ids[i] != none) operands[i] = wide ? lane_value(ids[i]) : value(ids[i]);
  go_to(scope);
  int32_t operand = x.dtype_of(n.a);
  if (options_.multiplies_by_reciprocals && wide && is_division(n) && !varies(n.b))
    return b.CreateFMul(operands[0], reciprocal(n.b));
  Value* out = emit_primitive(b, n.code, n.dtype, operand, operands[0], operands[1], operands[2]);
  bool is_narrow = n.dtype == TN_F16 || n.dtype == TN_BF16;
  return options_.rounds_narrow && is_narrow ? from_memory(to_memory(out, n.dtype), n.dtype) : out;
}

bool Emitter::is_division(const ValueNode& n) const {
  return n.code == TN_F_DIV && (n.dtype == TN_F32 || n.dtype == TN_F64);
}

// 1 / v for all lanes, where v is known; the insertion point stays.
Value* Emitter::reciprocal(Id v) {
  size_t scope = scope_of(v);
  Value*& known = scopes_[scope].reciprocals[v];
  if (known) return known;
  llvm::IRBuilderBase::InsertPointGuard point(b);
  Value* divisor = value(v);
  go_to(scope);
  known = repeat(b.CreateFDiv(constant_of(divisor->getType(), 1.0), divisor));
  return known;
}

Value* Emitter::full_mask(Id own) {
  Value* out = width_ ? mask_ : nullptr;
  if (own == none) return out;
  Value* more = lane_value(own);
  if (!out) return more;
  go_to(lane_scope_of(own));
  return b.CreateAnd(out, more);
}

Value* Emitter::from_memory(Value* loaded, int32_t dtype) {
  if (dtype == TN_BOOL)
    return b.CreateICmpNE(loaded, llvm::Constant::getNullValue(loaded->getType()));
  if (dtype == TN_F16) {
    Value* half = b.CreateBitCast(loaded, loaded->getType()->getWithNewType(b.getHalfTy()));
    Value* wide = b.CreateFPExt(half, half->getType()->getWithNewType(b.getFloatTy()));
    // Else LLVM would compare the halves, number by number.
    return b.CreateArithmeticFence(wide, wide->getType());
  }
  if (dtype == TN_BF16) {
    llvm::Type* words = loaded->getType()->getWithNewType(b.getInt32Ty());
    Value* bits = b.CreateShl(b.CreateZExt(loaded, words), llvm::ConstantInt::get(words, 16));
    return b.CreateBitCast(bits, words->getWithNewType(b.getFloatTy()));
  }
  return loaded;
}

Value* Emitter::to_memory(Value* v, int32_t dtype) {
  llvm::Type* type = v->getType()->getWithNewType(memory_type(context_, dtype));
  if (dtype == TN_BOOL) return b.CreateZExt(v, type);
  if (dtype == TN_F16)
    return b.CreateBitCast(b.CreateFPTrunc(v, type->getWithNewType(b.getHalfTy())), type);
  if (dtype == TN_BF16) return b.CreateBitCast(rounded_to_bf16(v), type);
  return v;
}

// The nearest one, of two the even one. Where the processor lacks the instruction it is found from
// the bits, since LLVM would call a function for each number. NaN stays NaN.
Value* Emitter::rounded_to_bf16(Value* v) {
  llvm::Type* type = v->getType();
  if (options_.has("avx512bf16")) return b.CreateFPTrunc(v, type->getWithNewType(b.getBFloatTy()));
  llvm::Type* words = type->getWithNewType(b.getInt32Ty());
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(words, n); };
  Value* bits = b.CreateBitCast(v, words);
  Value* high = b.CreateLShr(bits, number(16));
  Value* half = b.CreateAdd(b.CreateAnd(high, number(1)), number(0x7fff));
  Value* nearest = b.CreateLShr(b.CreateAdd(bits, half), number(16));
  Value* quiet = b.CreateOr(high, number(0x40));
  Value* out = b.CreateSelect(b.CreateFCmpUNO(v, v), quiet, nearest);
  return b.CreateTrunc(out, type->getWithNewType(b.getInt16Ty()));
}

Value* Emitter::address(Id buffer, Value* element) {
  llvm::Type* type = memory_type(context_, program_.buffers[buffer].dtype);
  return b.CreateGEP(type, buffers_.at(buffer), element);
}

namespace {

llvm::Align alignment(int32_t dtype) {
  return llvm::Align(static_cast<uint64_t>(loopir::item_size(dtype)));
}

}  // namespace

bool Emitter::is_scratch(Id buffer) const {
  return program_.buffers[buffer].place == loopir::Buffer::Place::scratch;
}

// Where lanes are rows, an element of a row in scratch memory is one for each lane.
Value* Emitter::emit_lane_scratch(const ValueNode& n) {
  Value* at = index(n.b);
  go_to(std::max(lane_scope_, scope_of_index(n.b)));
  at = b.CreateMul(at, b.getInt64(full_width_));
  return from_memory(b.CreateAlignedLoad(widened(memory_type(context_, n.dtype), width_),
                                         address(n.a, at), alignment(n.dtype)),
                     n.dtype);
}

Value* Emitter::emit_load(const ValueNode& n) {
  if (lanes_are_rows_ && is_scratch(n.a)) return emit_lane_scratch(n);
  llvm::Type* type = memory_type(context_, n.dtype);
  bool index_moves = index_varies(n.b);
  bool mask_moves = n.c != none && varies(n.c);
  if (!index_moves && !mask_moves) {  // one element for all lanes
    Value* at = index(n.b);
    Value* condition = n.c == none ? nullptr : value(n.c);
    size_t scope = std::max(scope_of_index(n.b), n.c == none ? 0 : scope_of(n.c));
    go_to(scope);
    if (!condition)
      return from_memory(b.CreateAlignedLoad(type, address(n.a, at), alignment(n.dtype)), n.dtype);
    Value* loaded = b.CreateMaskedLoad(widened(type, 1), address(n.a, at), alignment(n.dtype),
                                       b.CreateVectorSplat(1, condition),
                                       llvm::Constant::getNullValue(widened(type, 1)));
    return from_memory(b.CreateExtractElement(loaded, uint64_t{0}), n.dtype);
  }
  auto step = lane_step(n.b);
  Value* mask = full_mask(n.c);
  size_t scope = std::max(lane_scope_, scope_of_index(n.b));
  if (n.c != none) scope = std::max(scope, scope_of(n.c));
  if (!step || !x.is(*step, 1)) return emit_gather(n, mask, scope);
  Value* at = n.c == none ? index(n.b) : mapped_index(n, scope);
  go_to(scope);
  llvm::Type* wide = widened(type, width_);
  Value* place = address(n.a, at);
  Value* loaded =
      mask ? static_cast<Value*>(b.CreateMaskedLoad(wide, place, alignment(n.dtype), mask,
                                                    llvm::Constant::getNullValue(wide)))
           : b.CreateAlignedLoad(wide, place, alignment(n.dtype));
  return from_memory(loaded, n.dtype);
}

// Where a masked load reads nothing at all its address may be far outside of the buffer. That is
// allowed, but processors take hundreds of cycles to find out where no page is mapped; so the
// address is one inside.
Value* Emitter::mapped_index(const ValueNode& n, size_t scope) {
  Value* zero = b.getInt64(0);
  if (!varies(n.c)) {  // decided once, before the lanes
    Id rest = x.subtract(n.b, lane_variable_);
    Value *is_read = value(n.c), *from = index(rest);
    go_to(std::max(scope_of(n.c), scope_of_index(rest)));
    Value* safe = b.CreateSelect(is_read, from, zero);
    go_to(scope);
    return b.CreateAdd(safe, variables_.at(lane_variable_));
  }
  Value *are_read = lane_value(n.c), *at = index(n.b);
  go_to(scope);
  return b.CreateSelect(b.CreateOrReduce(are_read), at, zero);
}

Value* Emitter::emit_gather(const ValueNode& n, Value* mask, size_t scope) {
  Value* at = lane_index(n.b);
  go_to(scope);
  llvm::Type* wide = widened(memory_type(context_, n.dtype), width_);
  if (!mask) mask = llvm::Constant::getAllOnesValue(widened(b.getInt1Ty(), width_));
  Value* loaded = b.CreateMaskedGather(wide, address(n.a, at), alignment(n.dtype), mask,
                                       llvm::Constant::getNullValue(wide));
  return from_memory(loaded, n.dtype);
}

// In range or 0, and the kernel's error is set.
Value* Emitter::emit_checked(const ValueNode& n) {
  Value* given = value(n.a);
  bool wide = given->getType()->isVectorTy();
  Value* mask = wide ? full_mask(n.c) : n.c == none ? nullptr : value(n.c);
  if (mask && !wide && mask->getType()->isVectorTy()) given = lane_value(n.a), wide = true;
  Value* size = index(n.b);
  size_t scope = std::max(scope_of(n.a), scope_of_index(n.b));
  if (n.c != none) scope = std::max(scope, scope_of(n.c));
  if (wide) scope = std::max(scope, lane_scope_);
  go_to(scope);
  if (wide) size = repeat(size);
  Value* zero = llvm::Constant::getNullValue(given->getType());
  Value* wrapped = b.CreateSelect(b.CreateICmpSLT(given, zero), b.CreateAdd(given, size), given);
  Value* bad = b.CreateICmpUGE(wrapped, size);
  Value* counted = mask ? b.CreateAnd(bad, mask) : bad;
  Value* any = wide ? b.CreateOrReduce(counted) : counted;
  Value* before = b.CreateLoad(b.getInt32Ty(), error_);
  b.CreateStore(b.CreateOr(before, b.CreateZExt(any, b.getInt32Ty())), error_);
  return b.CreateSelect(bad, zero, wrapped);
}

// ---- indices

Value* Emitter::index(Id i) {
  size_t scope = scope_of_index(i);
  auto& known = scopes_[scope].indices;
  if (auto at = known.find(i); at != known.end()) return at->second;
  Value* out = emit_index(i);
  return scopes_[scope].indices[i] = out;
}

namespace {

/// a / b and a % b as Python has them; plain ones where nothing is negative.
Value* divided(llvm::IRBuilder<>& b, Value* p, Value* q, bool remainder, bool is_plain) {
  if (is_plain) return remainder ? b.CreateURem(p, q) : b.CreateUDiv(p, q);
  Value* r = b.CreateSRem(p, q);
  Value* zero = llvm::Constant::getNullValue(p->getType());
  Value* adjust = b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpSLT(b.CreateXor(r, q), zero));
  if (remainder) return b.CreateSelect(adjust, b.CreateAdd(r, q), r);
  Value* quotient = b.CreateSDiv(p, q);
  return b.CreateSelect(adjust, b.CreateSub(quotient, constant_of(p->getType(), int64_t{1})),
                        quotient);
}

}  // namespace

// Terms of outer loops are added up in those.
Value* Emitter::sum_by_scope(const IndexNode& n) {
  Ids terms = n.operands;
  std::stable_sort(terms.begin(), terms.end(),
                   [&](Id p, Id q) { return scope_of_index(p) < scope_of_index(q); });
  Value* sum = nullptr;
  size_t scope = 0;
  for (Id t : terms) {
    Value* term = index(t);
    scope = std::max(scope, scope_of_index(t));
    go_to(scope);
    sum = sum        ? b.CreateAdd(sum, term)
          : n.number ? b.CreateAdd(term, b.getInt64(static_cast<uint64_t>(n.number)))
                     : term;
  }
  return sum;
}

Value* Emitter::emit_index(Id i) {
  const IndexNode n = x.index_at(i);
  switch (n.kind) {
    case IndexKind::constant:
      return b.getInt64(static_cast<uint64_t>(n.number));
    case IndexKind::variable:
      return variables_.at(i);
    case IndexKind::symbol: {
      go_to(0);
      Value* place =
          b.CreateConstGEP1_64(b.getInt64Ty(), arguments_[1], static_cast<uint64_t>(n.number));
      return b.CreateLoad(b.getInt64Ty(), place);
    }
    case IndexKind::value:
      return value(static_cast<Id>(n.number));
    case IndexKind::sum:
      return sum_by_scope(n);
    default:
      break;
  }
  std::vector<Value*> operands;
  for (Id o : n.operands) operands.push_back(index(o));
  go_to(scope_of_index(i));
  if (n.kind == IndexKind::product) {
    Value* out = b.getInt64(static_cast<uint64_t>(n.number));
    for (Value* o : operands) out = b.CreateMul(out, o);
    return out;
  }
  if (n.kind == IndexKind::min || n.kind == IndexKind::max)
    return b.CreateBinaryIntrinsic(
        n.kind == IndexKind::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, operands[0],
        operands[1]);
  bool plain = x.range(n.operands[0]).lower >= 0 && x.range(n.operands[1]).lower > 0;
  return divided(b, operands[0], operands[1], n.kind == IndexKind::mod, plain);
}

Value* Emitter::lane_index(Id i) {
  size_t scope = std::max(lane_scope_, scope_of_index(i));
  if (!index_varies(i)) {
    Value* scalar = index(i);
    go_to(scope);
    return repeat(scalar);
  }
  auto& known = scopes_[scope].repeated;
  Id key = ~i;  // indices share the table with values
  if (auto at = known.find(key); at != known.end()) return at->second;
  Value* out = emit_lane_index(i);
  return scopes_[scope].repeated[key] = out;
}

Value* Emitter::emit_lane_index(Id i) {
  const IndexNode n = x.index_at(i);
  size_t scope = std::max(lane_scope_, scope_of_index(i));
  if (n.kind == IndexKind::value) return lane_value(static_cast<Id>(n.number));
  if (i == lane_variable_) {
    go_to(scope);
    std::vector<llvm::Constant*> steps;
    for (unsigned l = 0; l < width_; ++l) steps.push_back(b.getInt64(l));
    return b.CreateAdd(repeat(variables_.at(i)), llvm::ConstantVector::get(steps));
  }
  std::vector<Value*> operands;
  for (Id o : n.operands) operands.push_back(lane_index(o));
  go_to(scope);
  Value* out = repeat(b.getInt64(static_cast<uint64_t>(n.number)));
  if (n.kind == IndexKind::sum || n.kind == IndexKind::product) {
    for (Value* o : operands)
      out = n.kind == IndexKind::sum ? b.CreateAdd(out, o) : b.CreateMul(out, o);
    return out;
  }
  if (n.kind == IndexKind::min || n.kind == IndexKind::max)
    return b.CreateBinaryIntrinsic(
        n.kind == IndexKind::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, operands[0],
        operands[1]);
  bool plain = x.range(n.operands[0]).lower >= 0 && x.range(n.operands[1]).lower > 0;
  return divided(b, operands[0], operands[1], n.kind == IndexKind::mod, plain);
}

}  // namespace inductor
