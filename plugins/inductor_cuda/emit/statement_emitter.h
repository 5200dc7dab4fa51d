// The statements of a kernel for the element, or the neighbours, that are bound.
#pragma once

#include "team.h"

#include <functional>

namespace inductor_cuda {

class StatementEmitter {
 public:
  StatementEmitter(Frame& frame, ValueEmitter& values)
      : f_(frame), b_(frame.b), x_(frame.program.expressions), values_(values) {}

  /// Before the points of a stage.
  void start(const loopir::Stage& stage);
  /// At a point; folds and stores are done only where `guard` holds (null: everywhere). All threads
  /// of a block that takes a row run scans at the same time.
  void run(const loopir::Statement& s, llvm::Value* guard);
  /// Emits what `run` will read there.
  void prepare(const loopir::Statement& s) { values_of(s); }
  /// All of them at a point. What they store is computed before the first one stores, so that loads
  /// do not wait for each other; as far as nobody reads what another stores.
  void run_all(std::span<const loopir::Statement> all, llvm::Value* guard);
  /// Behind them: the fold's result, made one by `over` of the parts of all who share the points;
  /// stored where `stores` holds.
  using Over = std::function<Part(Frame&, const loopir::Statement&, const Part&)>;
  void finish(const loopir::Stage& stage, const Over& over, llvm::Value* stores);

  /// Stores of rows in scratch are kept in registers.
  void keep_rows() { keeps_rows_ = true; }

 private:
  struct State {
    llvm::Value *value = nullptr, *position = nullptr;  // variables
    llvm::Type* type = nullptr;
  };
  void fold(const loopir::Statement& s, llvm::Value* guard);
  void scan(const loopir::Statement& s);
  void scan_together(const loopir::Statement& s, llvm::Value* guard);
  void store_lanes(const loopir::Statement& s, std::span<llvm::Value* const> all,
                   llvm::Value* guard);
  std::vector<llvm::Value*> values_of(const loopir::Statement& s);
  void store_one(const loopir::Statement& s, llvm::Value* element, llvm::Value* value);
  Part part_of(const loopir::Statement& s);

  Frame& f_;
  llvm::IRBuilder<>& b_;
  loopir::Expressions& x_;
  ValueEmitter& values_;
  std::map<Id, State> states_;  // by fold
  bool keeps_rows_ = false;
};

/// Runs `body` where `condition` holds (null: always), with a scope of its own.
template <class F>
void emit_where(Frame& f, ValueEmitter& values, llvm::Value* condition, F&& body) {
  if (!condition) return body();
  emit_if(f, condition, [&] {
    values.open();
    body();
    values.close();
  });
}

}  // namespace inductor_cuda
