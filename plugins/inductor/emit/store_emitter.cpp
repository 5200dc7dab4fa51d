// Stores: scalars, whole blocks of lanes (past the caches where they are large), scatters.
#include "store_emitter.h"

#include "gaps.h"

#include <lanes/lane_ops.h>
#include <lanes/memory_form.h>

#include <algorithm>

namespace inductor {

using lanes::alignment;
using lanes::emit_primitive;
using lanes::from_memory;
using lanes::memory_type;
using lanes::to_memory;
using lanes::widened;
using llvm::Value;
using loopir::Statement;
using loopir::Store;

namespace {

/// Of buffers that a kernel writes past the caches: a whole line.
constexpr uint64_t streamed_alignment = 64;

}  // namespace

// What is stored where `before`, as memory holds it, was.
Value* StoreEmitter::updated(const Statement& s, Value* v, Value* before) {
  int32_t dtype = program_.buffers[s.buffer].dtype, computed = x_.dtype_of(s.value);
  uint16_t code = s.store == Store::add        ? TN_F_ADD
                  : s.store == Store::multiply ? TN_F_MUL
                  : s.store == Store::minimum  ? TN_F_MIN
                                               : TN_F_MAX;
  Value* old = from_memory(b_, before, dtype);
  return to_memory(b_, emit_primitive(b_, code, computed, computed, old, v, nullptr), dtype,
                   to_bf16(options_));
}

llvm::Type* StoreEmitter::type_in(Id buffer, unsigned width) const {
  return widened(memory_type(b_.getContext(), program_.buffers[buffer].dtype), width);
}

void StoreEmitter::store(const Statement& s, Value* v) {
  if (!v->getType()->isVectorTy()) return store_scalar(s, v);
  if (lanes_.are_rows && scopes_.is_scratch(s.buffer)) return store_lane_scratch(s, v);
  auto step = scopes_.lane_step(s.index);
  auto apart = step ? x_.number_of(*step) : std::nullopt;
  if (apart == 1) return store_block(s, v);
  bool has_gaps = apart && has_few_gaps(*apart) && s.store == Store::set;
  has_gaps ? store_with_gaps(s, v, *apart) : scatter(s, v);
}

void StoreEmitter::store_scalar(const Statement& s, Value* v) {
  int32_t dtype = program_.buffers[s.buffer].dtype;
  Value* at = values_.index(s.index);
  scopes_.go_to_innermost();
  Value* place = values_.address(s.buffer, at);
  if (s.store == Store::set)
    v = to_memory(b_, v, dtype, to_bf16(options_));
  else
    v = updated(s, v, b_.CreateAlignedLoad(type_in(s.buffer, 0), place, alignment(dtype)));
  b_.CreateAlignedStore(v, place, alignment(dtype));
}

// Where lanes are rows, an element of a row in scratch memory is one for each lane.
void StoreEmitter::store_lane_scratch(const Statement& s, Value* v) {
  int32_t dtype = program_.buffers[s.buffer].dtype;
  Value* at = values_.index(s.index);
  scopes_.go_to_innermost();
  at = b_.CreateMul(at, b_.getInt64(lanes_.full_width));
  Value* place = values_.address(s.buffer, at);
  b_.CreateAlignedStore(to_memory(b_, v, dtype, to_bf16(options_)), place, alignment(dtype));
}

void StoreEmitter::scatter(const Statement& s, Value* v) {
  int32_t dtype = program_.buffers[s.buffer].dtype;
  Value* at = values_.lane_index(s.index);
  scopes_.go_to_innermost();
  Value* mask = lanes_.mask;
  if (!mask) mask = llvm::Constant::getAllOnesValue(widened(b_.getInt1Ty(), lanes_.width));
  Value* places = values_.address(s.buffer, at);
  llvm::Type* wide = type_in(s.buffer, lanes_.width);
  if (s.store == Store::set)
    v = to_memory(b_, v, dtype, to_bf16(options_));
  else
    v = updated(s, v, b_.CreateMaskedGather(wide, places, alignment(dtype), mask));
  b_.CreateMaskedScatter(v, places, alignment(dtype), mask);
}

// Blocks under masks: what lies between the lanes stays.
void StoreEmitter::store_with_gaps(const Statement& s, Value* v, int64_t step) {
  int32_t dtype = program_.buffers[s.buffer].dtype;
  Value* at = values_.index(s.index);
  scopes_.go_to_innermost();
  v = to_memory(b_, v, dtype, to_bf16(options_));
  Value* mask = lanes_.mask;
  if (!mask) mask = llvm::Constant::getAllOnesValue(widened(b_.getInt1Ty(), lanes_.width));
  for (int64_t block = 0; block < step; ++block) {
    Value* first = b_.CreateAdd(at, b_.getInt64(static_cast<uint64_t>(block * lanes_.width)));
    b_.CreateMaskedStore(with_gaps(b_, v, step, block), values_.address(s.buffer, first),
                         alignment(dtype), with_gaps(b_, mask, step, block));
  }
}

void StoreEmitter::store_block(const Statement& s, Value* v) {
  int32_t dtype = program_.buffers[s.buffer].dtype;
  llvm::Align align = alignment(dtype);
  Value* at = values_.index(s.index);
  scopes_.go_to_innermost();
  Value* place = values_.address(s.buffer, at);
  llvm::Type* wide = type_in(s.buffer, lanes_.width);
  Value* nothing = llvm::Constant::getNullValue(wide);
  if (s.store == Store::set)
    v = to_memory(b_, v, dtype, to_bf16(options_));
  else if (lanes_.mask)
    v = updated(s, v, b_.CreateMaskedLoad(wide, place, align, lanes_.mask, nothing));
  else
    v = updated(s, v, b_.CreateAlignedLoad(wide, place, align));
  if (lanes_.mask) {
    b_.CreateMaskedStore(v, place, align, lanes_.mask);
    return;
  }
  if (!is_streamed(s.buffer)) {
    b_.CreateAlignedStore(v, place, align);
    return;
  }
  llvm::StoreInst* store = b_.CreateAlignedStore(v, place, llvm::Align(streamed_alignment));
  auto* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(b_.getContext(), one));
}

bool StoreEmitter::is_streamed(Id buffer) const {
  const Ids& list = interface_.streamed;
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

}  // namespace inductor
