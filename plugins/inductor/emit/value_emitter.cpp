// Values: loads, primitives, what is repeated for lanes. Indices: integer arithmetic.
#include "value_emitter.h"

#include <lanes/lane_ops.h>
#include <lanes/memory_form.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>

namespace inductor {

using lanes::alignment;
using lanes::constant_of;
using lanes::emit_primitive;
using lanes::from_memory;
using lanes::lane_type;
using lanes::memory_type;
using lanes::to_memory;
using lanes::widened;
using llvm::Value;
using loopir::IndexKind;
using loopir::IndexNode;
using loopir::ValueNode;

// ---- values

Value* ValueEmitter::value(Id v) {
  size_t scope = scopes_.of_value(v);
  auto& known = scopes_[scope].values;
  if (auto at = known.find(v); at != known.end()) return at->second;
  Value* out = emit_value(v);
  return scopes_[scope].values[v] = out;
}

Value* ValueEmitter::lane_value(Id v) {
  Value* out = value(v);
  if (!lanes_.width || scopes_.varies(v)) return out;
  size_t scope = scopes_.of_value(v);
  auto& known = scopes_[scope].repeated;
  if (auto at = known.find(v); at != known.end()) return at->second;
  scopes_.go_to(scope);
  return scopes_[scope].repeated[v] = repeat(out);
}

Value* ValueEmitter::emit_value(Id v) {
  const ValueNode n = x_.value_at(v);
  switch (n.code) {
    case loopir::value_constant: {
      llvm::Type* type = lane_type(b_.getContext(), n.dtype);
      uint64_t bits = n.a | uint64_t{n.b} << 32;
      return type->isFloatingPointTy() ? constant_of(type, std::bit_cast<double>(bits))
                                       : constant_of(type, static_cast<int64_t>(bits));
    }
    case loopir::value_folded:
      return folded.at(n.a);
    case loopir::value_index:
      return scopes_.varies(v) ? lane_index(n.a) : index(n.a);
    case loopir::value_load:
      return emit_load(n);
    case loopir::value_checked:
      return emit_checked(n);
    case loopir::value_divisor:
      return emit_divisor(n);
    case loopir::value_real: {
      scopes_.go_to(0);
      Value* place = b_.CreateConstGEP1_64(b_.getDoubleTy(), frame_.symbols, n.a);
      return b_.CreateLoad(b_.getDoubleTy(), place);
    }
    default:
      return emit_primitive_of(v, n);
  }
}

namespace {

bool is_division(const ValueNode& n) {
  return n.code == TN_F_DIV && (n.dtype == TN_F32 || n.dtype == TN_F64);
}

}  // namespace

Value* ValueEmitter::emit_primitive_of(Id v, const ValueNode& n) {
  bool wide = scopes_.varies(v);
  Value* operands[3] = {};
  Id ids[] = {n.a, n.b, n.c};
  for (int i = 0; i < 3; ++i)
    if (ids[i] != none) operands[i] = wide ? lane_value(ids[i]) : value(ids[i]);
  scopes_.go_to(scopes_.of_value(v));
  int32_t operand = x_.dtype_of(n.a);
  if (options_.multiplies_by_reciprocals && wide && is_division(n) && !scopes_.varies(n.b))
    return b_.CreateFMul(operands[0], reciprocal(n.b));
  Value* out = emit_primitive(b_, n.code, n.dtype, operand, operands[0], operands[1], operands[2]);
  bool is_narrow = n.dtype == TN_F16 || n.dtype == TN_BF16;
  return options_.rounds_narrow && is_narrow
             ? from_memory(b_, to_memory(b_, out, n.dtype, to_bf16(options_)), n.dtype)
             : out;
}

// 1 / v for all lanes, where v is known; the insertion point stays.
Value* ValueEmitter::reciprocal(Id v) {
  size_t scope = scopes_.of_value(v);
  Value*& known = scopes_[scope].reciprocals[v];
  if (known) return known;
  llvm::IRBuilderBase::InsertPointGuard point(b_);
  Value* divisor = value(v);
  scopes_.go_to(scope);
  known = repeat(b_.CreateFDiv(constant_of(divisor->getType(), 1.0), divisor));
  return known;
}

Value* ValueEmitter::full_mask(Id own) {
  Value* out = lanes_.width ? lanes_.mask : nullptr;
  if (own == none) return out;
  Value* more = lane_value(own);
  if (!out) return more;
  scopes_.go_to(scopes_.of_lanes(own));
  return b_.CreateAnd(out, more);
}

Value* ValueEmitter::address(Id buffer, Value* element) {
  llvm::Type* type = memory_type(b_.getContext(), program_.buffers[buffer].dtype);
  return b_.CreateGEP(type, frame_.buffers.at(buffer), element);
}

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
  if (!step || !x_.is(*step, 1)) return emit_gather(n, mask, scope);
  Value* at = n.c == none ? index(n.b) : mapped_index(n, scope);
  scopes_.go_to(scope);
  llvm::Type* wide = widened(memory_type(b_.getContext(), n.dtype), lanes_.width);
  Value* place = address(n.a, at);
  Value* loaded =
      mask ? static_cast<Value*>(b_.CreateMaskedLoad(wide, place, alignment(n.dtype), mask,
                                                     llvm::Constant::getNullValue(wide)))
           : b_.CreateAlignedLoad(wide, place, alignment(n.dtype));
  return from_memory(b_, loaded, n.dtype);
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
  Value* loaded = b_.CreateMaskedGather(wide, address(n.a, at), alignment(n.dtype), mask,
                                        llvm::Constant::getNullValue(wide));
  return from_memory(b_, loaded, n.dtype);
}

// In range or 0, and the kernel's error is set.
Value* ValueEmitter::emit_checked(const ValueNode& n) {
  Value* given = value(n.a);
  bool wide = given->getType()->isVectorTy();
  Value* mask = wide ? full_mask(n.c) : n.c == none ? nullptr : value(n.c);
  if (mask && !wide && mask->getType()->isVectorTy()) given = lane_value(n.a), wide = true;
  Value* size = index(n.b);
  size_t scope = std::max(scopes_.of_value(n.a), scopes_.of_index(n.b));
  if (n.c != none) scope = std::max(scope, scopes_.of_value(n.c));
  if (wide) scope = std::max(scope, lanes_.scope);
  scopes_.go_to(scope);
  if (wide) size = repeat(size);
  Value* zero = llvm::Constant::getNullValue(given->getType());
  Value* wrapped = b_.CreateSelect(b_.CreateICmpSLT(given, zero), b_.CreateAdd(given, size), given);
  Value* bad = b_.CreateICmpUGE(wrapped, size);
  report(mask ? b_.CreateAnd(bad, mask) : bad, index_out_of_range);
  return b_.CreateSelect(bad, zero, wrapped);
}

// The divisor as it is: divisions by 0 give 0.
Value* ValueEmitter::emit_divisor(const ValueNode& n) {
  Value* given = value(n.a);
  bool wide = given->getType()->isVectorTy();
  Value* mask = wide ? full_mask(n.c) : n.c == none ? nullptr : value(n.c);
  if (mask && !wide && mask->getType()->isVectorTy()) given = lane_value(n.a), wide = true;
  size_t scope = scopes_.of_value(n.a);
  if (n.c != none) scope = std::max(scope, scopes_.of_value(n.c));
  if (wide) scope = std::max(scope, lanes_.scope);
  scopes_.go_to(scope);
  Value* bad = b_.CreateICmpEQ(given, llvm::Constant::getNullValue(given->getType()));
  report(mask ? b_.CreateAnd(bad, mask) : bad, division_by_zero);
  return given;
}

// Adds to the kernel's error where a lane is bad.
void ValueEmitter::report(Value* bad, KernelError error) {
  Value* any = bad->getType()->isVectorTy() ? b_.CreateOrReduce(bad) : bad;
  Value* before = b_.CreateLoad(b_.getInt32Ty(), frame_.error);
  Value* flag = b_.CreateSelect(any, b_.getInt32(error), b_.getInt32(0));
  b_.CreateStore(b_.CreateOr(before, flag), frame_.error);
}

// ---- indices

Value* ValueEmitter::index(Id i) {
  size_t scope = scopes_.of_index(i);
  auto& known = scopes_[scope].indices;
  if (auto at = known.find(i); at != known.end()) return at->second;
  Value* out = emit_index(i);
  return scopes_[scope].indices[i] = out;
}

namespace {

/// min, max, a / b and a % b as Python has them; plain ones where nothing is negative.
Value* integer_op(llvm::IRBuilder<>& b, IndexKind kind, Value* p, Value* q, bool is_plain) {
  if (kind == IndexKind::min) return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, p, q);
  if (kind == IndexKind::max) return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, p, q);
  bool remainder = kind == IndexKind::mod;
  if (is_plain) return remainder ? b.CreateURem(p, q) : b.CreateUDiv(p, q);
  Value* zero = llvm::Constant::getNullValue(p->getType());
  // A size that is 0 traps nobody: no element is there to be found.
  q = b.CreateSelect(b.CreateICmpEQ(q, zero), constant_of(p->getType(), int64_t{1}), q);
  Value* r = b.CreateSRem(p, q);
  Value* adjust = b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpSLT(b.CreateXor(r, q), zero));
  if (remainder) return b.CreateSelect(adjust, b.CreateAdd(r, q), r);
  Value* quotient = b.CreateSDiv(p, q);
  return b.CreateSelect(adjust, b.CreateSub(quotient, constant_of(p->getType(), int64_t{1})),
                        quotient);
}

}  // namespace

// Terms of outer loops are added up in those.
Value* ValueEmitter::sum_by_scope(const IndexNode& n) {
  Ids terms = n.operands;
  std::stable_sort(terms.begin(), terms.end(),
                   [&](Id p, Id q) { return scopes_.of_index(p) < scopes_.of_index(q); });
  Value* sum = nullptr;
  size_t scope = 0;
  for (Id t : terms) {
    Value* term = index(t);
    scope = std::max(scope, scopes_.of_index(t));
    scopes_.go_to(scope);
    sum = sum        ? b_.CreateAdd(sum, term)
          : n.number ? b_.CreateAdd(term, b_.getInt64(static_cast<uint64_t>(n.number)))
                     : term;
  }
  return sum;
}

Value* ValueEmitter::emit_index(Id i) {
  const IndexNode n = x_.index_at(i);
  switch (n.kind) {
    case IndexKind::constant:
      return b_.getInt64(static_cast<uint64_t>(n.number));
    case IndexKind::variable:
      return scopes_.variable(i);
    case IndexKind::symbol: {
      scopes_.go_to(0);
      Value* place =
          b_.CreateConstGEP1_64(b_.getInt64Ty(), frame_.symbols, static_cast<uint64_t>(n.number));
      return b_.CreateLoad(b_.getInt64Ty(), place);
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
  scopes_.go_to(scopes_.of_index(i));
  if (n.kind == IndexKind::product) {
    Value* out = b_.getInt64(static_cast<uint64_t>(n.number));
    for (Value* o : operands) out = b_.CreateMul(out, o);
    return out;
  }
  bool plain = x_.range(n.operands[0]).lower >= 0 && x_.range(n.operands[1]).lower > 0;
  return integer_op(b_, n.kind, operands[0], operands[1], plain);
}

Value* ValueEmitter::lane_index(Id i) {
  size_t scope = std::max(lanes_.scope, scopes_.of_index(i));
  if (!scopes_.index_varies(i)) {
    Value* scalar = index(i);
    scopes_.go_to(scope);
    return repeat(scalar);
  }
  auto& known = scopes_[scope].repeated;
  Id key = ~i;  // indices share the table with values
  if (auto at = known.find(key); at != known.end()) return at->second;
  Value* out = emit_lane_index(i);
  return scopes_[scope].repeated[key] = out;
}

Value* ValueEmitter::emit_lane_index(Id i) {
  const IndexNode n = x_.index_at(i);
  size_t scope = std::max(lanes_.scope, scopes_.of_index(i));
  if (n.kind == IndexKind::value) return lane_value(static_cast<Id>(n.number));
  if (i == lanes_.variable) {
    scopes_.go_to(scope);
    std::vector<llvm::Constant*> steps;
    for (unsigned l = 0; l < lanes_.width; ++l) steps.push_back(b_.getInt64(l));
    return b_.CreateAdd(repeat(scopes_.variable(i)), llvm::ConstantVector::get(steps));
  }
  std::vector<Value*> operands;
  for (Id o : n.operands) operands.push_back(lane_index(o));
  scopes_.go_to(scope);
  Value* out = repeat(b_.getInt64(static_cast<uint64_t>(n.number)));
  if (n.kind == IndexKind::sum || n.kind == IndexKind::product) {
    for (Value* o : operands)
      out = n.kind == IndexKind::sum ? b_.CreateAdd(out, o) : b_.CreateMul(out, o);
    return out;
  }
  bool plain = x_.range(n.operands[0]).lower >= 0 && x_.range(n.operands[1]).lower > 0;
  return integer_op(b_, n.kind, operands[0], operands[1], plain);
}

}  // namespace inductor
