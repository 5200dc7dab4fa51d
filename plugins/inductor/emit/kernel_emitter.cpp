// A kernel's function: loops over rows, stages, blocks of lanes and their tail.
#include "codegen.h"
#include "fold_emitter.h"
#include "store_emitter.h"

#include <llvm/IR/Attributes.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace inductor {

using llvm::BasicBlock;
using llvm::Value;
using loopir::Fold;
using loopir::Stage;
using loopir::Statement;

namespace {

/// The function, empty but for what every kernel begins with. The builder stands behind that.
Frame make_frame(llvm::Module& module, llvm::IRBuilder<>& b, const KernelInterface& interface,
                 const CodeOptions& options) {
  llvm::Type *pointer = b.getPtrTy(), *number = b.getInt64Ty();
  auto* type =
      llvm::FunctionType::get(b.getInt32Ty(), {pointer, pointer, number, number, pointer}, false);
  auto* function =
      llvm::Function::Create(type, llvm::Function::ExternalLinkage, interface.symbol, module);
  function->addFnAttr("target-cpu", options.cpu);
  function->addFnAttr("target-features", options.features);
  function->addFnAttr("prefer-vector-width", std::to_string(options.vector_bits));
  function->setDoesNotThrow();
  b.SetInsertPoint(BasicBlock::Create(module.getContext(), "entry", function));
  Frame out{.function = function,
            .symbols = function->getArg(1),
            .begin = function->getArg(2),
            .end = function->getArg(3),
            .error = b.CreateAlloca(b.getInt32Ty())};
  b.CreateStore(b.getInt32(0), out.error);

  Value *buffers = function->getArg(0), *scratch = function->getArg(4);
  for (const auto& [buffer, offset] : interface.scratch_offsets)
    out.buffers[buffer] =
        b.CreateConstGEP1_64(b.getInt8Ty(), scratch, static_cast<uint64_t>(offset));
  for (size_t i = 0; i < interface.buffers.size(); ++i)
    out.buffers[interface.buffers[i]] =
        b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, buffers, i));
  return out;
}

using Body = std::function<void()>;

/// Which loop of a stage is cut so that chains of sums stay short, after how many steps, and what
/// is done behind those.
struct Blocks {
  Id loop = none;
  int64_t steps = 0;
  Body end;
};

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, loopir::Program& program, const loopir::Nest& nest,
                const KernelInterface& interface, const CodeOptions& options);
  void emit_rows();
  void return_error();

 private:
  void bind_rows(Value* row);
  void emit_stages();
  void emit_stage(size_t number);
  void emit_inner(const Ids& variables, size_t next, const Body& body, const Blocks& blocks);
  void emit_loop(Value* from, Value* to, const std::function<void(Value*)>& body);
  void emit_blocks(Value* from, Value* to, const Blocks& blocks,
                   const std::function<void(Value*)>& body);
  void emit_lane_blocks(Id variable, Value* first, Value* last, const Body& body,
                        const Blocks& blocks = {});
  Blocks blocks_of(const Stage& stage, const Ids& loops, Id lanes);
  bool may_end_wide(size_t stage) const;
  void emit_statement(const Statement& s);

  loopir::Expressions& x_;
  const loopir::Nest& nest_;
  const KernelInterface& interface_;
  const CodeOptions& options_;
  llvm::IRBuilder<> b_;
  Frame frame_;
  Scopes scopes_;
  ValueEmitter values_;
  FoldEmitter folds_;
  StoreEmitter stores_;
  Lanes& lanes_ = scopes_.lanes;
};

KernelEmitter::KernelEmitter(llvm::Module& module, loopir::Program& program,
                             const loopir::Nest& nest, const KernelInterface& interface,
                             const CodeOptions& options)
    : x_(program.expressions),
      nest_(nest),
      interface_(interface),
      options_(options),
      b_(module.getContext()),
      frame_(make_frame(module, b_, interface, options)),
      scopes_(program, b_),
      values_(b_, program, options, frame_, scopes_),
      folds_(b_, program, *frame_.function, scopes_, values_),
      stores_(b_, program, options, interface, scopes_, values_) {
  for (const Stage& stage : nest.kernel.stages)
    for (const Statement& s : stage.statements)
      if (s.buffer != none) frame_.written.insert(s.buffer);
  lanes_.are_rows = nest.lanes != none;
  lanes_.full_width = interface.width;
  scopes_.open(b_.GetInsertBlock());
  // Products and sums may be one instruction; nothing else is assumed.
  llvm::FastMathFlags contract;
  contract.setAllowContract(options.contracts);
  contract.setAllowReciprocal(options.multiplies_by_reciprocals);
  b_.setFastMathFlags(contract);
}

void KernelEmitter::emit_loop(Value* from, Value* to, const std::function<void(Value*)>& body) {
  scopes_.go_to_innermost();
  BasicBlock* before = scopes_[scopes_.innermost()].block;
  BasicBlock* inside = BasicBlock::Create(b_.getContext(), "loop", frame_.function);
  BasicBlock* after = BasicBlock::Create(b_.getContext(), "end", frame_.function);
  b_.CreateCondBr(b_.CreateICmpSLT(from, to), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(from, before);
  scopes_.open(inside);
  body(i);
  scopes_.go_to_innermost();
  Value* next = b_.CreateAdd(i, b_.getInt64(1), "", true, true);
  i->addIncoming(next, scopes_[scopes_.innermost()].block);
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), inside, after);
  scopes_.close();
  scopes_[scopes_.innermost()].block = after;
  scopes_.go_to_innermost();
}

// The same loop, cut.
void KernelEmitter::emit_blocks(Value* from, Value* to, const Blocks& blocks,
                                const std::function<void(Value*)>& body) {
  scopes_.go_to_innermost();
  Value* steps = b_.getInt64(static_cast<uint64_t>(blocks.steps));
  Value* last = b_.getInt64(static_cast<uint64_t>(blocks.steps) - 1);
  Value* count = b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(to, from), last), steps);
  emit_loop(b_.getInt64(0), count, [&](Value* block) {
    scopes_.go_to_innermost();
    Value* begin = b_.CreateAdd(from, b_.CreateMul(block, steps));
    Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(begin, steps), to);
    emit_loop(begin, end, body);
    scopes_.go_to_innermost();
    blocks.end();
  });
}

// Blocks [first, last) of the lanes' variable; the block behind the last full one has a mask.
void KernelEmitter::emit_lane_blocks(Id variable, Value* first, Value* last, const Body& body,
                                     const Blocks& blocks) {
  Id extent = x_.extent_of(variable);
  Value* n = values_.index(extent);
  scopes_.go_to_innermost();
  Value* step = b_.getInt64(lanes_.full_width);
  Value* full = b_.CreateUDiv(n, step);
  Value* end = last ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, full) : full;
  if (!first) first = b_.getInt64(0);
  auto run_block = [&](Value* block, bool has_mask) {
    lanes_.variable = variable;
    lanes_.width = lanes_.full_width;
    lanes_.scope = scopes_.innermost();
    scopes_.go_to_innermost();
    Value* start = b_.CreateMul(block, step);
    scopes_.bind(variable, start);
    if (has_mask) {
      std::vector<llvm::Constant*> lanes;
      for (unsigned l = 0; l < lanes_.width; ++l) lanes.push_back(b_.getInt64(l));
      lanes_.mask = b_.CreateICmpULT(llvm::ConstantVector::get(lanes),
                                     values_.repeat(b_.CreateSub(n, start)));
    }
    body();
    lanes_.mask = nullptr;
    lanes_.width = 0;
    lanes_.variable = none;
    scopes_.release(variable);
  };
  auto known = x_.number_of(extent);
  auto run_full = [&](Value* block) { run_block(block, false); };
  if (blocks.loop == variable)
    emit_blocks(first, end, blocks, run_full);
  else if (!known || *known >= lanes_.full_width)
    emit_loop(first, end, run_full);
  if (known && *known % lanes_.full_width == 0) return;
  // The masked block, if there is one and it belongs to this range.
  scopes_.go_to_innermost();
  Value* all = b_.CreateUDiv(b_.CreateAdd(n, b_.getInt64(lanes_.full_width - 1)), step);
  Value* stop = last ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, all) : all;
  Value* start = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, first, full);
  emit_loop(start, stop, [&](Value* block) { run_block(block, true); });
}

void KernelEmitter::bind_rows(Value* row) {
  const Ids& outer = nest_.kernel.outer;
  Ids own;
  for (Id v : outer)
    if (v != nest_.lanes) own.push_back(v);
  for (size_t i = own.size(); i-- > 0;) {
    if (i == 0) {
      scopes_.bind(own[i], row);
      break;
    }
    Value* extent = values_.index(x_.extent_of(own[i]));
    scopes_.go_to_innermost();
    scopes_.bind(own[i], b_.CreateURem(row, extent));
    row = b_.CreateUDiv(row, extent);
  }
}

// Units are rows, or blocks of lanes where those are all there is.
void KernelEmitter::emit_rows() {
  Value *begin = frame_.begin, *end = frame_.end;
  bool only_lanes = lanes_.are_rows && nest_.kernel.outer.size() == 1;
  auto stages = [&] {
    scopes_.row = scopes_.innermost();
    emit_stages();
  };
  if (only_lanes) {
    emit_lane_blocks(nest_.lanes, begin, end, stages);
    return;
  }
  emit_loop(begin, end, [&](Value* row) {
    bind_rows(row);
    if (lanes_.are_rows)
      emit_lane_blocks(nest_.lanes, nullptr, nullptr, stages);
    else
      stages();
  });
}

void KernelEmitter::emit_stages() {
  for (size_t s = 0; s < nest_.kernel.stages.size(); ++s) emit_stage(s);
}

void KernelEmitter::emit_inner(const Ids& variables, size_t next, const Body& body,
                               const Blocks& blocks) {
  if (next == variables.size()) return body();
  Id v = variables[next];
  Value* n = values_.index(x_.extent_of(v));
  auto run = [&](Value* i) {
    scopes_.bind(v, i);
    emit_inner(variables, next + 1, body, blocks);
    scopes_.release(v);
  };
  if (blocks.loop == v)
    emit_blocks(b_.getInt64(0), n, blocks, run);
  else
    emit_loop(b_.getInt64(0), n, run);
}

// From the innermost loop outwards, the first one that makes chains too long. Loops of few
// operations are as wide as four vectors (choose_width in interface.cpp) and wait for memory, so
// that their chains may be shorter at no cost.
Blocks KernelEmitter::blocks_of(const Stage& stage, const Ids& loops, Id lanes) {
  Blocks out;
  auto is_rounded = [&](const Statement& s) { return folds_.is_rounded(s); };
  if (std::none_of(stage.statements.begin(), stage.statements.end(), is_rounded)) return out;
  constexpr int64_t few_steps = 32;  // one chain is exact enough
  constexpr int64_t light_vectors = 4, bits_of_f32 = 32;
  bool is_light = interface_.width * bits_of_f32 >= light_vectors * options_.vector_bits;
  int64_t most = is_light ? 8 : 16, steps = 1;
  auto see = [&](Id v, int64_t width) {
    auto extent = x_.number_of(x_.extent_of(v));
    int64_t own = extent ? std::max<int64_t>((*extent + width - 1) / width, 1) : few_steps + 1;
    if (out.loop == none && own * steps > most)
      out.loop = v, out.steps = std::max<int64_t>(most / steps, 1);
    steps = std::min(own * steps, few_steps + 1);
  };
  if (lanes != none) see(lanes, lanes_.full_width);
  for (size_t k = loops.size(); k-- > 0;) see(loops[k], 1);
  if (steps <= few_steps) out.loop = none;
  out.end = [this, &stage] {
    for (const Statement& s : stage.statements)
      if (folds_.is_rounded(s)) folds_.end_block(s);
  };
  return out;
}

// Whether its rows of lanes take so many steps that their ends are a small part of them, and no
// loop waits for an end.
bool KernelEmitter::may_end_wide(size_t stage) const {
  constexpr int64_t many = 8;
  Id lanes = nest_.lanes_of_stage[stage];
  if (lanes == none) return false;
  for (size_t later = stage + 1; later < nest_.lanes_of_stage.size(); ++later)
    if (nest_.lanes_of_stage[later] != none) return false;
  auto extent = x_.number_of(x_.extent_of(lanes));
  return extent && *extent >= many * lanes_.full_width;
}

void KernelEmitter::emit_stage(size_t number) {
  const Stage& stage = nest_.kernel.stages[number];
  Id lanes = nest_.lanes_of_stage[number];
  scopes_.go_to_innermost();
  Ids loops = stage.inner;
  std::erase(loops, lanes);
  Blocks blocks = blocks_of(stage, loops, lanes);
  for (const Statement& s : stage.statements)
    if (s.fold != Fold::none)
      folds_.start(s, blocks.loop != none && folds_.is_rounded(s), may_end_wide(number));
  Body statements = [&] {
    for (const Statement& s : stage.statements) emit_statement(s);
  };
  Body inner = statements;
  if (lanes != none) inner = [&] { emit_lane_blocks(lanes, nullptr, nullptr, statements, blocks); };
  emit_inner(loops, 0, inner, blocks);
  scopes_.go_to_innermost();
  for (const Statement& s : stage.statements) {
    if (s.fold == Fold::none) continue;
    Value* result = folds_.finish(s);
    if (s.buffer != none && !s.is_scan) stores_.store(s, result);
  }
}

void KernelEmitter::emit_statement(const Statement& s) {
  if (s.is_scan) {
    Value* sum = folds_.step_scan(s);
    if (s.buffer != none) stores_.store(s, sum);
  } else if (s.fold != Fold::none) {
    folds_.step(s);
  } else {
    stores_.store(s, values_.lane_value(s.value));
  }
}

void KernelEmitter::return_error() {
  scopes_.go_to_innermost();
  // Stores past the caches are ordered by nothing else: other threads read them after this.
  if (!interface_.streamed.empty())
    b_.CreateIntrinsic(b_.getVoidTy(), llvm::Intrinsic::x86_sse_sfence, {});
  b_.CreateRet(b_.CreateLoad(b_.getInt32Ty(), frame_.error));
}

}  // namespace

void emit_kernel(llvm::Module& module, loopir::Program& program, const loopir::Nest& nest,
                 const KernelInterface& interface, const CodeOptions& options) {
  KernelEmitter emitter(module, program, nest, interface, options);
  emitter.emit_rows();
  emitter.return_error();
}

}  // namespace inductor
