// Values: primitives, what is repeated for lanes. Indices: integer arithmetic.
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

// What a mean or a variance divides, where it is there in f64 as it is in f32: `sum`; else null.
Value* wide_dividend(const loopir::Expressions& x, const ValueNode& n,
                     const std::map<Id, Value*>& wide_sums, Value* sum) {
  if (n.code != TN_F_DIV || n.dtype != TN_F32) return nullptr;
  const ValueNode of = x.value_at(n.a);
  auto known = of.code == loopir::value_folded ? wide_sums.find(of.a) : wide_sums.end();
  if (known == wide_sums.end()) return nullptr;
  return known->second->getType()->isVectorTy() == sum->getType()->isVectorTy() ? known->second
                                                                                : nullptr;
}

Value* rounded_quotient(llvm::IRBuilderBase& b, Value* exact, Value* sum, Value* divisor) {
  Value* quotient = b.CreateFDiv(exact, b.CreateFPExt(divisor, exact->getType()));
  return b.CreateFPTrunc(quotient, sum->getType());
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
  if (Value* exact = wide_dividend(x_, n, wide_sums, operands[0]))
    return rounded_quotient(b_, exact, operands[0], operands[1]);
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

// Of lanes of 31 bits, as a product: vectors have no division, and no 128 bits of a product.
Value* short_quotient(llvm::IRBuilder<>& b, Value* lanes, uint64_t divisor) {
  auto shift = static_cast<uint64_t>(32 + std::bit_width(divisor - 1));
  uint64_t inverse = (uint64_t{1} << shift) / divisor + 1;
  auto all = [&](uint64_t number) { return llvm::ConstantInt::get(lanes->getType(), number); };
  return b.CreateLShr(b.CreateMul(lanes, all(inverse)), all(shift));
}

Value* inverse_of(llvm::IRBuilder<>& b, Value* number) {
  Value* real = b.CreateUIToFP(number, b.getDoubleTy());
  return b.CreateFDiv(llvm::ConstantFP::get(b.getDoubleTy(), 1.0), real);
}

/// Quotient and rest of lanes below 2^50 that are not negative.
struct Divided {
  Value *quotient, *rest;
};
// By a divisor that only calls know, as a product with its inverse in f64: vectors have no division.
// Of a number below 2^52 the bits are those of its sum with 2^52. The estimate is the quotient or one
// more.
Divided divided(llvm::IRBuilder<>& b, Value* lanes, Value* divisor, Value* inverse) {
  llvm::Type* integers = lanes->getType();
  llvm::Type* reals = inverse->getType();
  Value* two_to_52 = llvm::ConstantFP::get(reals, 0x1p52);
  Value* bits = llvm::ConstantInt::get(integers, uint64_t{0x433} << 52);
  Value* number = b.CreateFSub(b.CreateBitCast(b.CreateOr(lanes, bits), reals), two_to_52);
  Value* estimate = b.CreateFAdd(b.CreateFMul(number, inverse), two_to_52);
  Value* quotient = b.CreateSub(b.CreateBitCast(estimate, integers), bits);
  Value* rest = b.CreateSub(lanes, b.CreateMul(quotient, divisor));
  Value* is_above = b.CreateICmpSLT(rest, llvm::Constant::getNullValue(integers));
  return {b.CreateAdd(quotient, b.CreateSExt(is_above, integers)),
          b.CreateSelect(is_above, b.CreateAdd(rest, divisor), rest)};
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
  return lanes::emit_index_op(b_, n.kind, operands[0], operands[1], plain);
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
  loopir::Range range = x_.range(n.operands[0]);
  auto divisor = x_.number_of(n.operands[1]);
  bool is_short = range.lower >= 0 && range.upper < int64_t{1} << 31;
  bool divides = n.kind == IndexKind::floordiv || n.kind == IndexKind::mod;
  if (divides && is_short && divisor && *divisor > 0 && *divisor < int64_t{1} << 31) {
    Value* quotient = short_quotient(b_, operands[0], static_cast<uint64_t>(*divisor));
    if (n.kind == IndexKind::floordiv) return quotient;
    return b_.CreateSub(operands[0], b_.CreateMul(quotient, operands[1]));
  }
  bool plain = range.lower >= 0 && x_.range(n.operands[1]).lower > 0;
  // No memory has 2^50 elements, and what is counted are elements or less.
  if (divides && plain && !scopes_.index_varies(n.operands[1])) {
    Value* number = index(n.operands[1]);
    scopes_.go_to(scopes_.of_index(n.operands[1]));
    Value* inverse = inverse_of(b_, number);
    scopes_.go_to(scope);
    Divided d = divided(b_, operands[0], operands[1], repeat(inverse));
    return n.kind == IndexKind::floordiv ? d.quotient : d.rest;
  }
  return lanes::emit_index_op(b_, n.kind, operands[0], operands[1], plain);
}

}  // namespace inductor
