// The state of emitting one kernel.
//
// Scopes are the loops that are open, from the function's entry inwards. Each value and index is
// emitted once, in the outermost scope in which all variables that it depends on are known: what
// does not depend on a loop's variable stands before the loop, and no pass has to find it there. A
// scope in which a loop is open goes on before the branch into that loop, afterwards behind it.
//
// Lanes: inside of the vectorised loop a value that depends on its variable (or, where lanes are
// rows of their own, on a fold) is a vector of `width`; all else stays scalar and is repeated where
// a vector needs it. The last, incomplete block runs under a mask.
#pragma once

#include "codegen.h"
#include "lane_ops.h"

#include <map>
#include <vector>

namespace inductor {

using loopir::Id;
using loopir::Ids;
using loopir::none;

class Emitter {
 public:
  Emitter(llvm::Module& module, loopir::Program& program, const loopir::Nest& nest,
          const KernelInterface& interface, const CodeOptions& options);
  void run();

 private:
  struct Scope {
    llvm::BasicBlock* block;
    std::map<Id, llvm::Value*> values, repeated, indices, reciprocals;
  };
  struct FoldState {
    llvm::Value *accumulator = nullptr, *position = nullptr;  // allocas
    llvm::Value* result = nullptr;
    const loopir::Statement* statement = nullptr;
  };
  using Body = std::function<void()>;

  // ---- emit_loops.cpp
  void make_function();
  void emit_rows();
  void bind_rows(llvm::Value* row);
  void emit_stages();
  void emit_stage(const loopir::Stage& stage, Id lanes);
  void emit_inner(const Ids& variables, size_t next, const Body& body);
  void emit_loop(llvm::Value* from, llvm::Value* to, const std::function<void(llvm::Value*)>& body);
  void emit_lane_blocks(Id variable, llvm::Value* first, llvm::Value* last, const Body& body);
  void emit_statement(const loopir::Statement& s);
  void emit_store(const loopir::Statement& s, llvm::Value* value);
  bool is_streamed(Id buffer) const;
  llvm::Value* stored(const loopir::Statement& s, llvm::Value* value, llvm::Value* before);
  void return_error();

  // ---- emit_folds.cpp
  void start_fold(const loopir::Statement& s);
  void step_fold(const loopir::Statement& s);
  void step_scan(const loopir::Statement& s);
  void finish_fold(FoldState& fold);
  llvm::Value* combined(loopir::Fold fold, int32_t dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* log_sum_exp(int32_t dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* neutral(loopir::Fold fold, llvm::Type* type, int32_t dtype);
  /// Whether (x, at) comes before (y, best_at) as the extreme.
  llvm::Value* is_better(loopir::Fold fold, int32_t dtype, llvm::Value* x, llvm::Value* at,
                         llvm::Value* y, llvm::Value* best_at);
  llvm::Value* variable_in_entry(llvm::Type* type);

  // ---- emit_values.cpp
  llvm::Value* value(Id v);       // scalar, or vector where it varies
  llvm::Value* lane_value(Id v);  // as a vector where lanes are open
  llvm::Value* index(Id i);       // scalar; the lane variable counts as the block's first
  llvm::Value* lane_index(Id i);  // a vector
  llvm::Value* emit_value(Id v);
  llvm::Value* emit_load(const loopir::ValueNode& n);
  bool is_division(const loopir::ValueNode& n) const;
  llvm::Value* reciprocal(Id v);
  llvm::Value* emit_lane_scratch(const loopir::ValueNode& n);
  bool is_scratch(Id buffer) const;
  llvm::Value* mapped_index(const loopir::ValueNode& n, size_t scope);
  llvm::Value* emit_gather(const loopir::ValueNode& n, llvm::Value* mask, size_t scope);
  llvm::Value* emit_checked(const loopir::ValueNode& n);
  llvm::Value* emit_index(Id i);
  llvm::Value* emit_lane_index(Id i);
  llvm::Value* sum_by_scope(const loopir::IndexNode& n);
  llvm::Value* address(Id buffer, llvm::Value* element);
  llvm::Value* from_memory(llvm::Value* loaded, int32_t dtype);
  llvm::Value* to_memory(llvm::Value* v, int32_t dtype);
  llvm::Value* rounded_to_bf16(llvm::Value* v);
  llvm::Value* full_mask(Id own);  // the tail's and a value's own, or null
  bool varies(Id v);
  bool index_varies(Id i);
  bool has_fold(Id v);
  bool index_has_fold(Id i);
  /// By how much the index grows from lane to lane; nothing where it is not a line.
  std::optional<Id> lane_step(Id i);
  size_t scope_of(Id v);
  size_t scope_of_index(Id i);
  size_t lane_scope_of(Id v);
  size_t scope_of_variables(const Ids& variables) const;
  void go_to(size_t scope);
  llvm::Value* repeat(llvm::Value* v) { return b.CreateVectorSplat(width_, v); }

  llvm::Module& module_;
  loopir::Program& program_;
  loopir::Expressions& x;
  const loopir::Nest& nest_;
  const CodeOptions& options_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b;
  llvm::Function* function_ = nullptr;
  llvm::Value *arguments_[5] = {}, *error_ = nullptr;
  const KernelInterface& interface_;

  std::vector<Scope> scopes_;
  std::map<Id, size_t> variable_scope_;
  std::map<Id, llvm::Value*> variables_, buffers_;
  std::map<Id, FoldState> folds_;
  std::map<Id, bool> has_fold_;
  Id lane_variable_ = none;
  llvm::Value* mask_ = nullptr;
  unsigned width_ = 0;  // lanes where a lane loop is open
  unsigned full_width_ = 0;
  size_t row_scope_ = 0;   // where folds are complete
  size_t lane_scope_ = 0;  // of the blocks of lanes
  bool lanes_are_rows_ = false;
};

}  // namespace inductor
