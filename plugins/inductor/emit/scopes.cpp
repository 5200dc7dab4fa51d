// Where values and indices are known, and whether they differ from lane to lane.
#include "scopes.h"

#include <algorithm>

namespace inductor {

using loopir::IndexKind;
using loopir::IndexNode;
using loopir::ValueNode;

void Scopes::go_to(size_t scope) {
  llvm::BasicBlock* block = scopes_[scope].block;
  if (llvm::Instruction* end = block->getTerminator())
    b_.SetInsertPoint(end);
  else
    b_.SetInsertPoint(block);
}

void Scopes::repeat_before_loop(size_t scope, uint64_t turns,
                                const std::function<void(llvm::Value*)>& body) {
  go_to(scope);
  if (turns == 1) return body(b_.getInt64(0));
  llvm::BasicBlock* before = scopes_[scope].block;
  llvm::BasicBlock* after = before->splitBasicBlock(before->getTerminator(), "turned");
  auto* inside = llvm::BasicBlock::Create(b_.getContext(), "squares", before->getParent(), after);
  before->getTerminator()->setSuccessor(0, inside);
  b_.SetInsertPoint(inside);
  llvm::PHINode* turn = b_.CreatePHI(b_.getInt64Ty(), 2);
  turn->addIncoming(b_.getInt64(0), before);
  body(turn);
  llvm::Value* next = b_.CreateAdd(turn, b_.getInt64(1), "", true, true);
  turn->addIncoming(next, inside);
  b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(turns)), inside, after);
  scopes_[scope].block = after;
}

void Scopes::bind(Id variable, llvm::Value* value) {
  scope_of_variable_[variable] = innermost();
  variables_[variable] = value;
}

bool Scopes::varies(Id v) {
  if (!lanes.width) return false;
  if (lanes.are_rows && after_folds_.has_value(v)) return true;
  const Ids& all = x_.variables_of(v);
  return std::binary_search(all.begin(), all.end(), lanes.variable);
}

bool Scopes::index_varies(Id i) {
  if (!lanes.width) return false;
  return (lanes.are_rows && after_folds_.has_index(i)) || x_.depends_on(i, lanes.variable);
}

std::optional<Id> Scopes::lane_step(Id i) {
  if (lanes.are_rows && after_folds_.has_index(i)) return std::nullopt;  // each lane has its own
  return x_.coefficient(i, lanes.variable);
}

size_t Scopes::of_variables(const Ids& variables) const {
  size_t out = 0;
  for (Id v : variables)
    if (auto at = scope_of_variable_.find(v); at != scope_of_variable_.end())
      out = std::max(out, at->second);
  return out;
}

size_t Scopes::of_value(Id v) {
  size_t out = of_variables(x_.variables_of(v));
  return after_folds_.has_value(v) ? std::max(out, row) : out;
}

size_t Scopes::of_index(Id i) {
  size_t out = of_variables(x_.variables_of_index(i));
  return after_folds_.has_index(i) ? std::max(out, row) : out;
}

}  // namespace inductor
