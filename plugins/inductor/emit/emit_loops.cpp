// Loops of a kernel: rows, stages, blocks of lanes and their tail.
#include "emitter.h"

#include <llvm/IR/Attributes.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>

namespace inductor {

using llvm::BasicBlock;
using llvm::Value;
using loopir::Fold;
using loopir::Stage;
using loopir::Statement;

namespace {

/// Of buffers that a kernel writes past the caches: a whole line.
constexpr uint64_t streamed_alignment = 64;

}  // namespace

Emitter::Emitter(llvm::Module& module, loopir::Program& program, const loopir::Nest& nest,
                 const KernelInterface& interface, const CodeOptions& options)
    : module_(module),
      program_(program),
      x(program.expressions),
      nest_(nest),
      options_(options),
      context_(module.getContext()),
      b(context_),
      interface_(interface) {
  lanes_are_rows_ = nest.lanes != none;
  full_width_ = interface.width;
  make_function();
  llvm::FastMathFlags
      contract;  // products and sums may be one instruction; nothing else is assumed
  contract.setAllowContract(options.contracts);
  contract.setAllowReciprocal(options.multiplies_by_reciprocals);
  b.setFastMathFlags(contract);
}

void Emitter::make_function() {
  llvm::Type *pointer = b.getPtrTy(), *number = b.getInt64Ty();
  auto* type =
      llvm::FunctionType::get(b.getInt32Ty(), {pointer, pointer, number, number, pointer}, false);
  function_ =
      llvm::Function::Create(type, llvm::Function::ExternalLinkage, interface_.symbol, module_);
  function_->addFnAttr("target-cpu", options_.cpu);
  function_->addFnAttr("target-features", options_.features);
  function_->addFnAttr("prefer-vector-width", std::to_string(options_.vector_bits));
  function_->setDoesNotThrow();
  for (int i = 0; i < 5; ++i) arguments_[i] = function_->getArg(static_cast<unsigned>(i));
  scopes_.push_back({BasicBlock::Create(context_, "entry", function_), {}, {}, {}, {}});
  b.SetInsertPoint(scopes_[0].block);
  error_ = b.CreateAlloca(b.getInt32Ty());
  b.CreateStore(b.getInt32(0), error_);

  for (const auto& [buffer, offset] : interface_.scratch_offsets)
    buffers_[buffer] =
        b.CreateConstGEP1_64(b.getInt8Ty(), arguments_[4], static_cast<uint64_t>(offset));
  for (size_t i = 0; i < interface_.buffers.size(); ++i)
    buffers_[interface_.buffers[i]] =
        b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, arguments_[0], i));
}

// ---- loops

void Emitter::emit_loop(Value* from, Value* to, const std::function<void(Value*)>& body) {
  Scope& outer = scopes_.back();
  b.SetInsertPoint(outer.block);
  BasicBlock* before = outer.block;
  BasicBlock* inside = BasicBlock::Create(context_, "loop", function_);
  BasicBlock* after = BasicBlock::Create(context_, "end", function_);
  b.CreateCondBr(b.CreateICmpSLT(from, to), inside, after);
  b.SetInsertPoint(inside);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(from, before);
  scopes_.push_back({inside, {}, {}, {}, {}});
  body(i);
  b.SetInsertPoint(scopes_.back().block);
  Value* next = b.CreateAdd(i, b.getInt64(1), "", true, true);
  i->addIncoming(next, scopes_.back().block);
  b.CreateCondBr(b.CreateICmpSLT(next, to), inside, after);
  scopes_.pop_back();
  scopes_.back().block = after;
  b.SetInsertPoint(after);
}

// Blocks [first, last) of the lanes' variable; the block behind the last full one has a mask.
void Emitter::emit_lane_blocks(Id variable, Value* first, Value* last, const Body& body) {
  Id extent = x.extent_of(variable);
  Value* n = index(extent);
  go_to(scopes_.size() - 1);
  Value* step = b.getInt64(full_width_);
  Value* full = b.CreateUDiv(n, step);
  Value* end = last ? b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, full) : full;
  if (!first) first = b.getInt64(0);
  auto run_block = [&](Value* block, bool has_mask) {
    lane_variable_ = variable;
    width_ = full_width_;
    variable_scope_[variable] = lane_scope_ = scopes_.size() - 1;
    b.SetInsertPoint(scopes_.back().block);
    Value* start = b.CreateMul(block, step);
    variables_[variable] = start;
    if (has_mask) {
      std::vector<llvm::Constant*> lanes;
      for (unsigned l = 0; l < width_; ++l) lanes.push_back(b.getInt64(l));
      mask_ = b.CreateICmpULT(llvm::ConstantVector::get(lanes), repeat(b.CreateSub(n, start)));
    }
    body();
    mask_ = nullptr;
    width_ = 0;
    lane_variable_ = none;
    variable_scope_.erase(variable);
  };
  auto known = x.number_of(extent);
  if (!known || *known >= full_width_)
    emit_loop(first, end, [&](Value* block) { run_block(block, false); });
  if (known && *known % full_width_ == 0) return;
  // The masked block, if there is one and it belongs to this range.
  b.SetInsertPoint(scopes_.back().block);
  Value* all = b.CreateUDiv(b.CreateAdd(n, b.getInt64(full_width_ - 1)), step);
  Value* stop = last ? b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, all) : all;
  Value* start = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, first, full);
  emit_loop(start, stop, [&](Value* block) { run_block(block, true); });
}

void Emitter::bind_rows(Value* row) {
  const Ids& outer = nest_.kernel.outer;
  Ids own;
  for (Id v : outer)
    if (v != nest_.lanes) own.push_back(v);
  for (size_t i = own.size(); i-- > 0;) {
    variable_scope_[own[i]] = scopes_.size() - 1;
    if (i == 0) {
      variables_[own[i]] = row;
      break;
    }
    Value* extent = index(x.extent_of(own[i]));
    b.SetInsertPoint(scopes_.back().block);
    variables_[own[i]] = b.CreateURem(row, extent);
    row = b.CreateUDiv(row, extent);
  }
}

// Units are rows, or blocks of lanes where those are all there is.
void Emitter::emit_rows() {
  Value *begin = arguments_[2], *end = arguments_[3];
  bool only_lanes = lanes_are_rows_ && nest_.kernel.outer.size() == 1;
  auto stages = [&] {
    row_scope_ = scopes_.size() - 1;
    for (auto& [id, fold] : folds_) fold.result = nullptr;
    emit_stages();
  };
  if (only_lanes) {
    emit_lane_blocks(nest_.lanes, begin, end, stages);
    return;
  }
  emit_loop(begin, end, [&](Value* row) {
    bind_rows(row);
    if (lanes_are_rows_)
      emit_lane_blocks(nest_.lanes, nullptr, nullptr, stages);
    else
      stages();
  });
}

void Emitter::emit_stages() {
  for (size_t s = 0; s < nest_.kernel.stages.size(); ++s)
    emit_stage(nest_.kernel.stages[s], nest_.lanes_of_stage[s]);
}

void Emitter::emit_inner(const Ids& variables, size_t next, const Body& body) {
  if (next == variables.size()) return body();
  Id v = variables[next];
  Value* n = index(x.extent_of(v));
  emit_loop(b.getInt64(0), n, [&](Value* i) {
    variables_[v] = i;
    variable_scope_[v] = scopes_.size() - 1;
    emit_inner(variables, next + 1, body);
    variable_scope_.erase(v);
  });
}

void Emitter::emit_stage(const Stage& stage, Id lanes) {
  b.SetInsertPoint(scopes_.back().block);
  for (const Statement& s : stage.statements)
    if (s.fold != Fold::none) start_fold(s);
  auto statements = [&] {
    for (const Statement& s : stage.statements) emit_statement(s);
  };
  Ids loops = stage.inner;
  if (lanes != none) {
    std::erase(loops, lanes);
    emit_inner(loops, 0, [&] { emit_lane_blocks(lanes, nullptr, nullptr, statements); });
  } else {
    emit_inner(loops, 0, statements);
  }
  b.SetInsertPoint(scopes_.back().block);
  for (const Statement& s : stage.statements) {
    if (s.fold == Fold::none) continue;
    FoldState& fold = folds_.at(s.folded);
    finish_fold(fold);
    if (s.buffer != none && !s.is_scan) emit_store(s, fold.result);
  }
}

void Emitter::emit_statement(const Statement& s) {
  if (s.is_scan) return step_scan(s);
  if (s.fold != Fold::none) return step_fold(s);
  emit_store(s, lane_value(s.value));
}

// What is stored where `before`, as memory holds it, was.
Value* Emitter::stored(const Statement& s, Value* v, Value* before) {
  int32_t dtype = program_.buffers[s.buffer].dtype, computed = x.dtype_of(s.value);
  uint16_t code = s.store == loopir::Store::add        ? TN_F_ADD
                  : s.store == loopir::Store::multiply ? TN_F_MUL
                  : s.store == loopir::Store::minimum  ? TN_F_MIN
                                                       : TN_F_MAX;
  return to_memory(
      emit_primitive(b, code, computed, computed, from_memory(before, dtype), v, nullptr), dtype);
}

void Emitter::emit_store(const Statement& s, Value* v) {
  int32_t dtype = program_.buffers[s.buffer].dtype;
  llvm::Align align(static_cast<uint64_t>(loopir::item_size(dtype)));
  bool reads = s.store != loopir::Store::set;
  if (!v->getType()->isVectorTy()) {
    Value* at = index(s.index);
    go_to(scopes_.size() - 1);
    Value* place = address(s.buffer, at);
    llvm::Type* type = memory_type(context_, dtype);
    v = reads ? stored(s, v, b.CreateAlignedLoad(type, place, align)) : to_memory(v, dtype);
    b.CreateAlignedStore(v, place, align);
    return;
  }
  if (lanes_are_rows_ && is_scratch(s.buffer)) {
    Value* at = index(s.index);
    go_to(scopes_.size() - 1);
    at = b.CreateMul(at, b.getInt64(full_width_));
    b.CreateAlignedStore(to_memory(v, dtype), address(s.buffer, at), align);
    return;
  }
  auto step = x.coefficient(s.index, lane_variable_);
  if (!step || !x.is(*step, 1)) {
    Value* at = lane_index(s.index);
    go_to(scopes_.size() - 1);
    Value* mask = mask_ ? mask_ : llvm::Constant::getAllOnesValue(widened(b.getInt1Ty(), width_));
    Value* places = address(s.buffer, at);
    llvm::Type* wide = widened(memory_type(context_, dtype), width_);
    v = reads ? stored(s, v, b.CreateMaskedGather(wide, places, align, mask)) : to_memory(v, dtype);
    b.CreateMaskedScatter(v, places, align, mask);
    return;
  }
  Value* at = index(s.index);
  go_to(scopes_.size() - 1);
  Value* place = address(s.buffer, at);
  llvm::Type* wide = widened(memory_type(context_, dtype), width_);
  if (!reads)
    v = to_memory(v, dtype);
  else if (mask_)
    v = stored(s, v,
               b.CreateMaskedLoad(wide, place, align, mask_, llvm::Constant::getNullValue(wide)));
  else
    v = stored(s, v, b.CreateAlignedLoad(wide, place, align));
  if (mask_) {
    b.CreateMaskedStore(v, place, align, mask_);
    return;
  }
  bool streams = is_streamed(s.buffer);
  llvm::StoreInst* store =
      b.CreateAlignedStore(v, place, streams ? llvm::Align(streamed_alignment) : align);
  if (!streams) return;
  auto* one = llvm::ConstantAsMetadata::get(b.getInt32(1));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, one));
}

bool Emitter::is_streamed(Id buffer) const {
  const Ids& list = interface_.streamed;
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

void Emitter::return_error() {
  b.SetInsertPoint(scopes_.back().block);
  // Stores past the caches are ordered by nothing else: other threads read them after this.
  if (!interface_.streamed.empty())
    b.CreateIntrinsic(b.getVoidTy(), llvm::Intrinsic::x86_sse_sfence, {});
  b.CreateRet(b.CreateLoad(b.getInt32Ty(), error_));
}

void Emitter::run() {
  for (Id v : nest_.kernel.outer) variable_scope_[v] = 1;
  emit_rows();
  return_error();
}

void emit_kernel(llvm::Module& module, loopir::Program& program, const loopir::Nest& nest,
                 const KernelInterface& interface, const CodeOptions& options) {
  Emitter(module, program, nest, interface, options).run();
}

}  // namespace inductor
