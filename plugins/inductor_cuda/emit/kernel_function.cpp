// Parameters and bodies.
#include "kernel_function.h"

#include "kernel_emitter.h"

#include <algorithm>

namespace inductor_cuda {

using llvm::Value;

namespace {

using Parameter = KernelShape::Parameter;

KernelShape shape_of(const KernelPlan& plan, bool may_alias) {
  KernelShape out;
  out.name = plan.symbol;
  out.threads = plan.form.threads;
  out.least_blocks = plan.form.least_blocks;
  out.cooperates = plan.form.kind != Form::Kind::points;
  out.shared_bytes =
      static_cast<uint64_t>(plan.fold_bytes + (plan.scratch_is_shared ? plan.scratch_bytes : 0));
  out.parameters.assign(plan.buffers.size(),
                        may_alias ? Parameter::pointer : Parameter::own_pointer);
  if (plan.has_global_scratch()) out.parameters.push_back(Parameter::own_pointer);
  out.parameters.insert(out.parameters.end(), plan.host_numbers.size() + plan.numbers.size(),
                        Parameter::number);
  if (plan.is_open) out.parameters.push_back(Parameter::number);
  if (plan.has_checks)
    out.parameters.insert(out.parameters.end(),
                          {Parameter::pointer, Parameter::number, Parameter::number});
  return out;
}

void bind_parameters(Frame& f, const BegunKernel& begun, std::span<Value* const> parameters) {
  f.function = begun.function;
  f.folds = begun.shared;
  auto next = parameters.begin();
  for (Id b : f.plan.buffers) f.buffers[b] = *next++;
  if (f.plan.has_global_scratch()) f.scratch = *next++;
  for (Id b : f.plan.host_numbers) f.host_numbers[b] = *next++;
  for (uint32_t place : f.plan.numbers) f.numbers[place] = *next++;
  if (f.plan.is_open) f.n_units = *next++;
  if (!f.plan.has_checks) return;
  f.flag = *next++;
  f.position_check = *next++;
  f.divisor_check = *next++;
}

// Rows of the kernel's own: behind the folds in shared memory. In registers they have no place.
void bind_scratch(Frame& f) {
  for (const auto& [buffer, offset] : f.plan.scratch) {
    if (!f.plan.scratch_is_shared || !f.plan.scratch_bytes) continue;
    f.buffers[buffer] = f.b.CreateConstGEP1_64(f.b.getInt8Ty(), f.folds,
                                               static_cast<uint64_t>(f.plan.fold_bytes + offset));
  }
}

// Products and sums may be one instruction; nothing else is assumed.
void set_flags(llvm::IRBuilder<>& b, Numerics numerics) {
  llvm::FastMathFlags contract;
  contract.setAllowContract(numerics.contracts);
  b.setFastMathFlags(contract);
}

}  // namespace

void emit_kernel(llvm::Module& module, loopir::Program& program, const KernelPlan& plan,
                 ThreadTarget& target, Numerics numerics, bool may_alias) {
  llvm::IRBuilder<> b(module.getContext());
  Frame frame{.b = b, .target = target, .program = program, .plan = plan, .numerics = numerics};
  BegunKernel begun = target.begin(module, b, shape_of(plan, may_alias));
  bind_parameters(frame, begun, begun.parameters);
  bind_scratch(frame);
  set_flags(b, numerics);
  emit_body(frame);
  b.CreateRetVoid();
}

namespace {

class GroupEmitter {
 public:
  GroupEmitter(llvm::Module& module, loopir::Program& program,
               std::span<const KernelPlan* const> plans, ThreadTarget& target, Numerics numerics)
      : b_(module.getContext()),
        program_(program),
        plans_(plans),
        target_(target),
        numerics_(numerics) {}

  void run(llvm::Module& module, const std::string& name) {
    begun_ = target_.begin(module, b_, shape(name));
    set_flags(b_, numerics_);
    for (size_t i = plans_.size(); i-- > 0;)
      firsts_.insert(firsts_.begin(), b_.CreateTrunc(*(begun_.parameters.end() -
                                                       static_cast<ptrdiff_t>(plans_.size() - i)),
                                                     b_.getInt32Ty()));
    block_ = target_.block(b_);
    for (size_t i = 0; i < plans_.size();) {
      size_t end = i;
      while (end < plans_.size() && plans_[end]->symbol == plans_[i]->symbol) ++end;
      bodies(i, end);
      i = end;
    }
    b_.CreateRetVoid();
  }

 private:
  KernelShape shape(const std::string& name) {
    KernelShape out;
    out.name = name;
    out.threads = plans_[0]->form.threads;
    for (const KernelPlan* plan : plans_) {
      KernelShape own = shape_of(*plan, true);
      starts_.push_back(out.parameters.size());
      counts_.push_back(own.parameters.size());
      out.parameters.insert(out.parameters.end(), own.parameters.begin(), own.parameters.end());
      out.shared_bytes = std::max(out.shared_bytes, own.shared_bytes);
      out.cooperates = out.cooperates || own.cooperates;
    }
    out.parameters.insert(out.parameters.end(), plans_.size(), Parameter::number);
    return out;
  }

  /// What the plan of this block, of those from `first` to `end`, has: its parameters, and its first
  /// block. By branches, which all threads of a block take the same way: to choose among many by
  /// conditional moves took as long as an optimiser's arithmetic.
  std::vector<Value*> chosen(Frame& f, size_t first, size_t end) {
    llvm::BasicBlock* after = f.block("chosen");
    std::vector<llvm::PHINode*> out;
    llvm::IRBuilder<> behind(after);
    for (Value* v : values_of(first))
      out.push_back(behind.CreatePHI(v->getType(), static_cast<unsigned>(end - first)));
    choose(f, first, end, out, after);
    b_.SetInsertPoint(after);
    return {out.begin(), out.end()};
  }
  void choose(Frame& f, size_t first, size_t end, std::span<llvm::PHINode* const> out,
              llvm::BasicBlock* after) {
    if (end - first == 1) {
      std::vector<Value*> values = values_of(first);
      for (size_t k = 0; k < out.size(); ++k) out[k]->addIncoming(values[k], b_.GetInsertBlock());
      b_.CreateBr(after);
      return;
    }
    size_t middle = first + (end - first) / 2;
    llvm::BasicBlock *lower = f.block("lower"), *upper = f.block("upper");
    b_.CreateCondBr(b_.CreateICmpULT(block_, firsts_[middle]), lower, upper);
    b_.SetInsertPoint(lower);
    choose(f, first, middle, out, after);
    b_.SetInsertPoint(upper);
    choose(f, middle, end, out, after);
  }
  std::vector<Value*> values_of(size_t i) const {
    auto begin = begun_.parameters.begin() + static_cast<ptrdiff_t>(starts_[i]);
    std::vector<Value*> out(begin, begin + static_cast<ptrdiff_t>(counts_[i]));
    out.push_back(firsts_[i]);
    return out;
  }

  void bodies(size_t first, size_t end) {
    Frame f{.b = b_,
            .target = target_,
            .program = program_,
            .plan = *plans_[first],
            .numerics = numerics_,
            .function = begun_.function};
    Value* is_here = b_.CreateICmpUGE(block_, firsts_[first]);
    if (end < plans_.size())
      is_here = b_.CreateAnd(is_here, b_.CreateICmpULT(block_, firsts_[end]));
    emit_if(f, is_here, [&] {
      std::vector<Value*> parameters = chosen(f, first, end);
      f.first_block = parameters.back();
      parameters.pop_back();
      bind_parameters(f, begun_, parameters);
      bind_scratch(f);
      emit_body(f);
    });
  }

  llvm::IRBuilder<> b_;
  loopir::Program& program_;
  std::span<const KernelPlan* const> plans_;
  ThreadTarget& target_;
  Numerics numerics_;
  BegunKernel begun_;
  std::vector<size_t> starts_, counts_;  // of each plan's parameters
  std::vector<Value*> firsts_;           // blocks
  Value* block_ = nullptr;
};

}  // namespace

void emit_group(llvm::Module& module, loopir::Program& program,
                std::span<const KernelPlan* const> plans, const std::string& name,
                ThreadTarget& target, Numerics numerics) {
  GroupEmitter(module, program, plans, target, numerics).run(module, name);
}

}  // namespace inductor_cuda
