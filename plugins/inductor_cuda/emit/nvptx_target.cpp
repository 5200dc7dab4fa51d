// Threads as NVIDIA's GPUs have them: intrinsics of LLVM's NVPTX target.
#include "inductor_cuda/image.h"
#include "thread_target.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <tenon/plugin.h>

namespace inductor_cuda {

using llvm::IRBuilderBase;
using llvm::Value;

namespace {

enum AddressSpace : unsigned { global_space = 1, shared_space = 3 };

void annotate(llvm::Module& module, llvm::Function& f, const char* what, unsigned value) {
  llvm::LLVMContext& c = module.getContext();
  auto* number = llvm::ConstantInt::get(llvm::Type::getInt32Ty(c), value);
  module.getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(
          llvm::MDNode::get(c, {llvm::ValueAsMetadata::get(&f), llvm::MDString::get(c, what),
                                llvm::ConstantAsMetadata::get(number)}));
}

class Nvptx : public ThreadTarget {
 public:
  Nvptx(bool converts_to_bf16, bool waits) : converts_to_bf16_(converts_to_bf16), waits_(waits) {}

  BegunKernel begin(llvm::Module& module, IRBuilderBase& b, const KernelShape& shape) override {
    llvm::LLVMContext& c = module.getContext();
    module.setTargetTriple("nvptx64-nvidia-cuda");  // what functions are made of depends on it
    std::vector<llvm::Type*> types;
    for (KernelShape::Parameter p : shape.parameters)
      types.push_back(p == KernelShape::Parameter::number
                          ? static_cast<llvm::Type*>(b.getInt64Ty())
                          : llvm::PointerType::get(c, global_space));
    BegunKernel out;
    out.function = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                          llvm::Function::ExternalLinkage, shape.name, module);
    out.function->setDoesNotThrow();
    annotate(module, *out.function, "kernel", 1);
    annotate(module, *out.function, "maxntidx", shape.threads);
    if (shape.least_blocks) annotate(module, *out.function, "minctasm", shape.least_blocks);
    for (unsigned i = 0; i < types.size(); ++i) {
      if (shape.parameters[i] == KernelShape::Parameter::own_pointer)
        out.function->addParamAttr(i, llvm::Attribute::NoAlias);
      out.parameters.push_back(out.function->getArg(i));
    }
    b.SetInsertPoint(llvm::BasicBlock::Create(c, "entry", out.function));
    if (waits_)
      b.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(b.getVoidTy(), false),
                                        "griddepcontrol.wait;", "~{memory}", true));
    if (shape.shared_bytes) out.shared = shared_memory(module, b, shape);
    return out;
  }

  Value* thread(IRBuilderBase& b) override {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  }
  Value* block(IRBuilderBase& b) override {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
  }
  void barrier(IRBuilderBase& b) override {
    b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
  }
  Value* shuffled(IRBuilderBase& b, Value* value, unsigned mask) override {
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                             {b.getInt32(~0u), value, b.getInt32(mask), b.getInt32(warp - 1)});
  }
  Value* global(IRBuilderBase&, Value* address, unsigned, MemoryUse) override { return address; }
  Value* shared(IRBuilderBase&, Value* address, unsigned, MemoryUse) override { return address; }
  void add(IRBuilderBase& b, Value* address, std::span<Value* const> values) override {
    std::vector<Value*> operands{address};
    std::vector<llvm::Type*> types{address->getType()};
    std::string places, constraints = "l";
    for (size_t i = 0; i < values.size(); ++i) {
      operands.push_back(values[i]);
      types.push_back(values[i]->getType());
      places += (i ? ", $" : "$") + std::to_string(i + 1);
      constraints += ",f";
    }
    std::string code = "red.relaxed.gpu.global.add.v" + std::to_string(values.size()) +
                       ".f32 [$0], {" + places + "};";
    auto* type = llvm::FunctionType::get(b.getVoidTy(), types, false);
    b.CreateCall(type, llvm::InlineAsm::get(type, code, constraints + ",~{memory}", true),
                 operands);
  }
  Value* rounded_pair(IRBuilderBase& b, int32_t dtype, Value* low, Value* high) override {
    if (!converts_to_bf16_) return nullptr;
    auto which =
        dtype == TN_BF16 ? llvm::Intrinsic::nvvm_ff2bf16x2_rn : llvm::Intrinsic::nvvm_ff2f16x2_rn;
    return b.CreateBitCast(b.CreateIntrinsic(which, {}, {high, low}), b.getInt32Ty());
  }
  bool converts_to_bf16() const override { return converts_to_bf16_; }

 private:
  static Value* shared_memory(llvm::Module& module, IRBuilderBase& b, const KernelShape& shape) {
    auto* type = llvm::ArrayType::get(b.getInt8Ty(), shape.shared_bytes);
    auto* memory = new llvm::GlobalVariable(
        module, type, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type),
        shape.name + "_shared", nullptr, llvm::GlobalValue::NotThreadLocal, shared_space);
    memory->setAlignment(llvm::Align(16));
    return memory;
  }

  bool converts_to_bf16_, waits_;
};

}  // namespace

std::unique_ptr<ThreadTarget> nvptx_target(std::string_view arch) {
  bool is_turing = arch == "sm_75";  // the oldest; the next ones have the instruction
  return std::make_unique<Nvptx>(!is_turing, begins_with_wait(arch));
}

bool begins_with_wait(std::string_view arch) {
  return !is_simt(arch) && processor_of(arch) == "sm_90";
}

}  // namespace inductor_cuda
