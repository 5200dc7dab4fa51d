// The loops of a kernel that are open while its code is emitted.
//
// Scopes are those loops, from the function's entry inwards. Each value and index is emitted once,
// in the outermost scope in which all variables that it depends on are known: what does not depend
// on a loop's variable stands before the loop, and no pass has to hoist it. A scope in which a loop
// is open goes on before the branch into that loop, afterwards behind it.
//
// Lanes: inside the vectorised loop a value that depends on its variable (or, where lanes are rows
// of their own, on a fold) is a vector of `width`; all else stays scalar and is repeated where a
// vector needs it. The last, incomplete block runs under a mask.
#pragma once

#include <loopir/after_folds.h>
#include <loopir/program.h>

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace inductor {

using loopir::Id;
using loopir::Ids;
using loopir::none;

struct Scope {
  llvm::BasicBlock* block;
  std::map<Id, llvm::Value*> values, repeated, indices, reciprocals;  // what is known here
  std::map<std::pair<Id, Id>, llvm::Value*> tiles;  // turned loads, by buffer and index
};

/// The vectorised loop.
struct Lanes {
  Id variable = none;
  llvm::Value* mask = nullptr;  // of the incomplete block
  unsigned width = 0;           // 0 where the loop is not open
  unsigned full_width = 0;
  size_t scope = 0;       // of its blocks
  bool are_rows = false;  // else elements of one row
};

class Scopes {
 public:
  Scopes(loopir::Program& program, llvm::IRBuilder<>& builder)
      : program_(program), x_(program.expressions), after_folds_(program), b_(builder) {}

  void open(llvm::BasicBlock* block) { scopes_.push_back({block, {}, {}, {}, {}, {}}); }
  void close() { scopes_.pop_back(); }
  Scope& operator[](size_t scope) { return scopes_[scope]; }
  size_t innermost() const { return scopes_.size() - 1; }
  /// What is emitted next belongs to this scope.
  void go_to(size_t scope);
  void go_to_innermost() { go_to(innermost()); }
  /// Whether code may branch there: no loop stands behind it yet.
  bool is_innermost_and_open(size_t scope) const {
    return scope == innermost() && !scopes_[scope].block->getTerminator();
  }

  /// Emits a loop of `turns` before the loop that is open in this scope; `body` gets the turn and makes
  /// no blocks.
  void repeat_before_loop(size_t scope, uint64_t turns,
                          const std::function<void(llvm::Value*)>& body);

  /// From here on, and until it is released, the variable is known in the innermost scope.
  void bind(Id variable, llvm::Value* value);
  void release(Id variable) { scope_of_variable_.erase(variable); }
  llvm::Value* variable(Id id) const { return variables_.at(id); }

  /// Whether it differs from lane to lane.
  bool varies(Id value);
  bool index_varies(Id index);
  /// By how much the index grows from lane to lane; nothing where it is not a line.
  std::optional<Id> lane_step(Id index);

  // Where it is emitted.
  size_t of_value(Id value);
  size_t of_index(Id index);
  size_t of_lanes(Id value) { return std::max(lanes.scope, of_value(value)); }

  bool is_scratch(Id buffer) const {
    return program_.buffers[buffer].place == loopir::Buffer::Place::scratch;
  }

  Lanes lanes;
  size_t row = 0;  // the scope where folds are complete

 private:
  size_t of_variables(const Ids& variables) const;

  loopir::Program& program_;
  loopir::Expressions& x_;
  loopir::AfterFolds after_folds_;
  llvm::IRBuilder<>& b_;
  std::vector<Scope> scopes_;
  std::map<Id, size_t> scope_of_variable_;
  std::map<Id, llvm::Value*> variables_;
};

}  // namespace inductor
