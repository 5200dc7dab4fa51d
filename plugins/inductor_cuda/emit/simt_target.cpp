// Threads as a shim has them (simt.h): calls through the table that each thread is given.
#include "inductor_cuda/simt.h"
#include "thread_target.h"

#include <cstddef>

namespace inductor_cuda {

using llvm::IRBuilderBase;
using llvm::Value;

namespace {

class Simt : public ThreadTarget {
 public:
  BegunKernel begin(llvm::Module& module, IRBuilderBase& b, const KernelShape& shape) override {
    llvm::Type* pointer = b.getPtrTy();
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer}, false);
    BegunKernel out;
    out.function =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, shape.name, module);
    self_ = out.function->getArg(0);
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", out.function));
    for (unsigned i = 0; i < shape.parameters.size(); ++i) {
      bool is_number = shape.parameters[i] == KernelShape::Parameter::number;
      Value* place =
          b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, out.function->getArg(1), i));
      out.parameters.push_back(
          b.CreateLoad(is_number ? static_cast<llvm::Type*>(b.getInt64Ty()) : pointer, place));
    }
    if (shape.shared_bytes) out.shared = field(b, offsetof(SimtThread, shared), pointer);
    tell_facts(module, b, shape);
    return out;
  }

  Value* thread(IRBuilderBase& b) override {
    return field(b, offsetof(SimtThread, thread), b.getInt32Ty());
  }
  Value* block(IRBuilderBase& b) override {
    return field(b, offsetof(SimtThread, block), b.getInt32Ty());
  }
  void barrier(IRBuilderBase& b) override {
    call(b, offsetof(SimtThread, barrier), b.getVoidTy(), {});
  }
  Value* shuffled(IRBuilderBase& b, Value* value, unsigned mask) override {
    return call(b, offsetof(SimtThread, shuffle), b.getInt32Ty(), {value, b.getInt32(mask)});
  }
  Value* global(IRBuilderBase& b, Value* address, unsigned bytes, MemoryUse use) override {
    return used(b, offsetof(SimtThread, global), address, bytes, use);
  }
  Value* shared(IRBuilderBase& b, Value* address, unsigned bytes, MemoryUse use) override {
    return used(b, offsetof(SimtThread, local), address, bytes, use);
  }
  void add(IRBuilderBase& b, Value* address, std::span<Value* const> values) override {
    for (size_t i = 0; i < values.size(); ++i)
      b.CreateAtomicRMW(llvm::AtomicRMWInst::FAdd,
                        b.CreateConstGEP1_64(values[i]->getType(), address, i), values[i],
                        llvm::MaybeAlign(sizeof(float)), llvm::AtomicOrdering::Monotonic);
  }
  Value* rounded_pair(IRBuilderBase&, int32_t, Value*, Value*) override { return nullptr; }
  bool converts_to_bf16() const override { return false; }

 private:
  Value* field(IRBuilderBase& b, size_t offset, llvm::Type* type) {
    return b.CreateLoad(type, b.CreateConstGEP1_64(b.getInt8Ty(), self_, offset));
  }
  Value* call(IRBuilderBase& b, size_t offset, llvm::Type* result, std::vector<Value*> operands) {
    Value* function = field(b, offset, b.getPtrTy());
    operands.insert(operands.begin(), self_);
    std::vector<llvm::Type*> types;
    for (Value* o : operands) types.push_back(o->getType());
    return b.CreateCall(llvm::FunctionType::get(result, types, false), function, operands);
  }
  Value* used(IRBuilderBase& b, size_t field, Value* address, unsigned bytes, MemoryUse use) {
    return call(b, field, b.getPtrTy(),
                {address, b.getInt64(bytes), b.getInt32(static_cast<uint32_t>(use))});
  }
  static void tell_facts(llvm::Module& module, IRBuilderBase& b, const KernelShape& shape) {
    auto* facts = llvm::ConstantStruct::getAnon(
        {b.getInt32(static_cast<uint32_t>(shape.parameters.size())), b.getInt32(shape.threads),
         b.getInt64(shape.shared_bytes), b.getInt64(shape.cooperates)});
    new llvm::GlobalVariable(module, facts->getType(), true, llvm::GlobalValue::ExternalLinkage,
                             facts, shape.name + "_facts");
  }

  Value* self_ = nullptr;
};

}  // namespace

std::unique_ptr<ThreadTarget> simt_target() { return std::make_unique<Simt>(); }

}  // namespace inductor_cuda
