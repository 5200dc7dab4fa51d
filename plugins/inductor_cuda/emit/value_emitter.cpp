// One walk over values and indices.
#include "value_emitter.h"

#include "draws.h"
#include "memory.h"

#include <lanes/lane_ops.h>
#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>
#include <limits>

namespace inductor_cuda {

using lanes::lane_type;
using llvm::Value;
using loopir::IndexKind;
using loopir::IndexNode;
using loopir::ValueNode;

bool ValueEmitter::differs(const Ids& variables) const {
  return lanes_ != none && std::binary_search(variables.begin(), variables.end(), lanes_);
}

Value* ValueEmitter::value(Id v, unsigned lane) {
  if (!differs(x_.variables_of(v))) lane = 0;
  for (size_t s = scopes_.size(); s-- > 0;)
    if (auto at = scopes_[s].values.find({v, lane}); at != scopes_[s].values.end())
      return at->second;
  Value* out = emit(v, lane);
  return scopes_.back().values[{v, lane}] = out;
}

Value* ValueEmitter::emit(Id v, unsigned lane) {
  const ValueNode n = x_.value_at(v);
  switch (n.code) {
    case loopir::value_constant: {
      llvm::Type* type = lane_type(b_.getContext(), n.dtype);
      uint64_t bits = n.a | uint64_t{n.b} << 32;
      return type->isFloatingPointTy() ? lanes::constant_of(type, std::bit_cast<double>(bits))
                                       : lanes::constant_of(type, static_cast<int64_t>(bits));
    }
    case loopir::value_folded:
      return folded_.at(n.a);
    case loopir::value_index:
      return emit_number(n.a, lane);
    case loopir::value_load:
      return emit_load(v, n, lane);
    case loopir::value_checked:
      return emit_checked(n, lane);
    case loopir::value_divisor:
      return emit_divisor(n, lane);
    case loopir::value_real:
      return b_.CreateBitCast(f_.numbers.at(n.a), b_.getDoubleTy());
    case loopir::value_drawn:
      return emit_drawn(v, n, lane);
    case loopir::value_exact:
      return emit_exact(n, lane);
    default:
      return emit_primitive_of(n, lane);
  }
}

Value* ValueEmitter::emit_primitive_of(const ValueNode& n, unsigned lane) {
  if (Value* out = emit_narrowed(n, lane)) return out;
  if (is_exponential(n) && all_is_narrow())
    return lanes::emit_math(b_, n.code, value(n.a, lane), nullptr, true);
  Value* operands[3] = {};
  Id ids[] = {n.a, n.b, n.c};
  for (int i = 0; i < 3; ++i)
    if (ids[i] != none) operands[i] = value(ids[i], lane);
  Value* out = lanes::emit_primitive(b_, n.code, n.dtype, x_.dtype_of(n.a), operands[0],
                                     operands[1], operands[2]);
  bool is_narrow = n.dtype == TN_F16 || n.dtype == TN_BF16;
  return f_.numerics.rounds_narrow && is_narrow ? rounded(f_, out, n.dtype) : out;
}

/// A function or quotient whose result is rounded to 16 bits next, with as many digits as that takes.
/// Null for what is none.
Value* ValueEmitter::emit_narrowed(const ValueNode& n, unsigned lane) {
  if (n.code != TN_F_CAST || !loopir::is_narrow(n.dtype)) return nullptr;
  const ValueNode of = x_.value_at(n.a);
  bool is_function = lanes::is_math(of.code) && of.b == none;
  if (of.dtype != TN_F32 || (!is_function && of.code != TN_F_DIV)) return nullptr;
  Value* x = value(of.a, lane);
  Value* out = is_function ? lanes::emit_math(b_, of.code, x, nullptr, true)
                           : lanes::emit_narrow_quotient(b_, x, value(of.b, lane));
  return f_.numerics.rounds_narrow ? rounded(f_, out, n.dtype) : out;
}

bool ValueEmitter::is_exponential(const ValueNode& n) {
  return n.dtype == TN_F32 && (n.code == TN_F_EXP || n.code == TN_F_EXP2);
}

// Their short form is exp(x) of an x half a unit of its last place off, as far as any x that was
// computed is: numbers that leave the kernel in 16 bits do not show it, while places and truth may.
bool ValueEmitter::all_is_narrow() const {
  for (const loopir::Stage& stage : f_.plan.nest.kernel.stages)
    for (const loopir::Statement& s : stage.statements) {
      if (s.buffer == none) continue;
      const loopir::Buffer& to = f_.program.buffers[s.buffer];
      bool stays = to.place == loopir::Buffer::Place::scratch;
      if (!stays && !loopir::is_narrow(to.dtype)) return false;
    }
  return true;
}

Value* ValueEmitter::emit_load(Id v, const ValueNode& n, unsigned lane) {
  if (f_.host_numbers.contains(n.a)) return host_number(f_, n.a);
  for (size_t s = scopes_.size(); s-- > 0;)
    if (auto at = scopes_[s].kept.find({n.a, lane}); at != scopes_[s].kept.end()) return at->second;
  if (n.c != none) {
    Value* mask = value(n.c, lane);
    if (guard_) mask = b_.CreateAnd(mask, guard_);
    return load(f_, n.a, index(n.b, lane), 1, mask)[0];
  }
  unsigned together = width_of(n.a, n.b);
  unsigned first = lane / together * together;
  std::vector<Value*> loaded = load(f_, n.a, index(n.b, first), together, guard_);
  for (unsigned i = 0; together > 1 && i < together; ++i)
    scopes_.back().values[{v, first + i}] = loaded[i];
  return loaded[lane - first];
}

unsigned ValueEmitter::width_of(Id buffer, Id index) const {
  auto width = f_.plan.widths.find({buffer, index, lanes_});
  return width == f_.plan.widths.end() || count_ == 1 ? 1 : width->second;
}

// Else what is drawn leaves the kernel as a float at most.
bool ValueEmitter::keeps_doubles() const {
  return std::ranges::any_of(f_.plan.buffers,
                             [&](Id b) { return f_.program.buffers[b].dtype == TN_F64; });
}

Value* ValueEmitter::emit_drawn(Id v, const ValueNode& n, unsigned lane) {
  unsigned together = width_of(none, n.b), first = lane / together * together;
  Value* element = b_.CreateZExt(index(n.b, first), b_.getInt64Ty());
  std::vector<Value*> made = drawn(b_, f_.numbers.at(n.a), f_.numbers.at(n.a + 1), element,
                                   together, static_cast<loopir::Draw>(n.c), keeps_doubles());
  for (unsigned i = 0; together > 1 && i < together; ++i)
    scopes_.back().values[{v, first + i}] = made[i];
  return made[lane - first];
}

Value* ValueEmitter::emit_exact(const ValueNode& n, unsigned lane) {
  llvm::IRBuilderBase::FastMathFlagGuard as_before(b_);
  b_.clearFastMathFlags();
  return emit(n.a, lane);
}

// In range or 0, and the flag is set.
Value* ValueEmitter::emit_checked(const ValueNode& n, unsigned lane) {
  Value* given = value(n.a, lane);
  Value* size = b_.CreateSExt(index(n.b, lane), b_.getInt64Ty());
  Value* mask = n.c == none ? nullptr : value(n.c, lane);
  Value* zero = b_.getInt64(0);
  Value* wrapped = b_.CreateSelect(b_.CreateICmpSLT(given, zero), b_.CreateAdd(given, size), given);
  Value* bad = b_.CreateICmpUGE(wrapped, size);
  report(mask ? b_.CreateAnd(bad, mask) : bad, f_.position_check, given);
  return b_.CreateSelect(bad, zero, wrapped);
}

// The divisor as it is: divisions by 0 give 0.
Value* ValueEmitter::emit_divisor(const ValueNode& n, unsigned lane) {
  Value* given = value(n.a, lane);
  Value* mask = n.c == none ? nullptr : value(n.c, lane);
  Value* bad = b_.CreateICmpEQ(given, llvm::Constant::getNullValue(given->getType()));
  report(mask ? b_.CreateAnd(bad, mask) : bad, f_.divisor_check, b_.getInt64(0));
  return given;
}

// The host reads both words as one: one store.
void ValueEmitter::report(Value* bad, Value* check, Value* value) {
  if (guard_) bad = b_.CreateAnd(bad, guard_);
  emit_if(f_, bad, [&] {
    constexpr unsigned bytes = 16;
    auto* pair = llvm::FixedVectorType::get(b_.getInt64Ty(), 2);
    Value* both = b_.CreateInsertElement(llvm::PoisonValue::get(pair), check, uint64_t{0});
    both = b_.CreateInsertElement(both, value, uint64_t{1});
    b_.CreateAlignedStore(both, f_.target.global(b_, f_.flag, bytes, MemoryUse::report),
                          llvm::Align(bytes));
  });
}

// ---- indices

Value* ValueEmitter::index(Id i, unsigned lane) {
  if (!differs(x_.variables_of_index(i))) lane = 0;
  for (size_t s = scopes_.size(); s-- > 0;)
    if (auto at = scopes_[s].indices.find({i, lane}); at != scopes_[s].indices.end())
      return at->second;
  Value* out = emit_index(i, lane, f_.index_type());
  return scopes_.back().indices[{i, lane}] = out;
}

// Places fit into the kernel's indices; numbers that the program computes with need not.
Value* ValueEmitter::emit_number(Id i, unsigned lane) {
  auto range = x_.range(i);
  bool fits = range.lower >= std::numeric_limits<int32_t>::min() &&
              range.upper <= std::numeric_limits<int32_t>::max();
  return fits ? b_.CreateSExt(index(i, lane), b_.getInt64Ty())
              : emit_index(i, lane, b_.getInt64Ty());
}

Value* ValueEmitter::emit_index(Id i, unsigned lane, llvm::Type* type) {
  const IndexNode n = x_.index_at(i);
  auto constant = [&](int64_t number) { return llvm::ConstantInt::getSigned(type, number); };
  switch (n.kind) {
    case IndexKind::constant:
      return constant(n.number);
    case IndexKind::variable: {
      Value* first = b_.CreateSExtOrTrunc(variables_.at(i), type);
      return i == lanes_ && lane > 0 ? b_.CreateAdd(first, constant(lane)) : first;
    }
    case IndexKind::symbol:
      return b_.CreateTrunc(f_.numbers.at(static_cast<uint32_t>(n.number)), type);
    case IndexKind::value:
      return b_.CreateTrunc(value(static_cast<Id>(n.number), lane), type);
    default:
      break;
  }
  std::vector<Value*> operands;
  bool is_place = type == f_.index_type();
  for (Id o : n.operands) operands.push_back(is_place ? index(o, lane) : emit_index(o, lane, type));
  if (n.kind == IndexKind::sum || n.kind == IndexKind::product) {
    bool is_sum = n.kind == IndexKind::sum;
    Value* out = is_sum && n.number == 0 ? nullptr : constant(n.number);
    for (Value* o : operands) out = !out ? o : is_sum ? b_.CreateAdd(out, o) : b_.CreateMul(out, o);
    return out;
  }
  bool plain = x_.range(n.operands[0]).lower >= 0 && x_.range(n.operands[1]).lower > 0;
  return lanes::emit_index_op(b_, n.kind, operands[0], operands[1], plain);
}

}  // namespace inductor_cuda
