// Calls of scalar functions, lane by lane; runtime_symbols.cpp has the functions. They are declared
// as pure.
#include "vector_math_calls.h"

#include <llvm/IR/Module.h>

namespace lanes {

namespace {

llvm::FunctionCallee declared(const char* name, Lanes x, bool binary) {
  llvm::Type* type = x.type()->getScalarType();
  llvm::SmallVector<llvm::Type*, 2> operands(binary ? 2 : 1, type);
  llvm::Module* module = x.b->GetInsertBlock()->getModule();
  llvm::FunctionCallee callee =
      module->getOrInsertFunction(name, llvm::FunctionType::get(type, operands, false));
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  function->setWillReturn();
  function->setDoesNotAccessMemory();
  return callee;
}

}  // namespace

Lanes call_lanes(const char* name, Lanes x, const Lanes* y) {
  llvm::FunctionCallee callee = declared(name, x, y != nullptr);
  auto call = [&](auto lane_of) {
    llvm::SmallVector<llvm::Value*, 2> operands{lane_of(x.v)};
    if (y != nullptr) operands.push_back(lane_of(y->v));
    return x.b->CreateCall(callee, operands);
  };
  if (!x.type()->isVectorTy()) return x.with(call([](llvm::Value* v) { return v; }));
  llvm::Value* result = llvm::PoisonValue::get(x.type());
  for (uint64_t i = 0; i < x.count(); ++i) {
    auto lane = [&](llvm::Value* v) { return x.b->CreateExtractElement(v, i); };
    result = x.b->CreateInsertElement(result, call(lane), i);
  }
  return x.with(result);
}

}  // namespace lanes
