// Values and indices of a kernel as LLVM IR.
//
// Model: a value is emitted where it is first asked for and known from there to the end of the
// scope that is open; passes of LLVM take it out of loops. Where a thread has several neighbours
// over `lanes`, a value that differs between them is one for each.
#pragma once

#include "frame.h"

#include <vector>

namespace inductor_cuda {

class ValueEmitter {
 public:
  explicit ValueEmitter(Frame& frame) : f_(frame), b_(frame.b), x_(frame.program.expressions) {
    open();
  }

  /// Of the neighbour `lane`.
  llvm::Value* value(Id v, unsigned lane = 0);
  llvm::Value* index(Id i, unsigned lane = 0);

  /// What is emitted between these is forgotten.
  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }
  /// The number of a variable, until it is bound again.
  void bind(Id variable, llvm::Value* number) { variables_[variable] = number; }
  /// `count` neighbours from the variable's number on; none, 1: no more neighbours.
  void set_lanes(Id variable, unsigned count) { lanes_ = variable, count_ = count; }
  unsigned lanes() const { return count_; }
  /// How many of the lanes an access takes at once.
  unsigned width_of(Id buffer, Id index) const;
  /// Threads for which it does not hold have nothing to do here: what they load is 0, and they find
  /// nothing wrong. Null: there are none.
  void set_guard(llvm::Value* guard) { guard_ = guard; }
  llvm::Value* guard() const { return guard_; }

  /// What a value is until the scope that is open is closed.
  void set(Id v, llvm::Value* to) { scopes_.back().values[{v, 0}] = to; }
  /// A fold that is complete.
  void set_folded(Id fold, llvm::Value* v) { folded_[fold] = v; }

  // ---- rows in registers: what is known of the element that is bound, in all stages
  struct Known {
    std::map<std::pair<Id, unsigned>, llvm::Value*> values, indices;
    std::map<std::pair<Id, unsigned>, llvm::Value*> kept;  // of rows in scratch, by buffer
  };
  void open(Known known) { scopes_.push_back(std::move(known)); }
  Known take() {
    Known out = std::move(scopes_.back());
    close();
    return out;
  }
  void keep(Id buffer, unsigned lane, llvm::Value* v) { scopes_.back().kept[{buffer, lane}] = v; }

 private:
  llvm::Value* emit(Id v, unsigned lane);
  llvm::Value* emit_load(Id v, const loopir::ValueNode& n, unsigned lane);
  llvm::Value* emit_checked(const loopir::ValueNode& n, unsigned lane);
  llvm::Value* emit_divisor(const loopir::ValueNode& n, unsigned lane);
  llvm::Value* emit_drawn(Id v, const loopir::ValueNode& n, unsigned lane);
  llvm::Value* emit_exact(const loopir::ValueNode& n, unsigned lane);
  bool keeps_doubles() const;
  llvm::Value* emit_narrowed(const loopir::ValueNode& n, unsigned lane);
  static bool is_exponential(const loopir::ValueNode& n);
  bool all_is_narrow() const;
  llvm::Value* emit_primitive_of(const loopir::ValueNode& n, unsigned lane);
  void report(llvm::Value* bad, llvm::Value* check, llvm::Value* value);
  llvm::Value* emit_number(Id i, unsigned lane);
  llvm::Value* emit_index(Id i, unsigned lane, llvm::Type* type);
  bool differs(const Ids& variables) const;

  Frame& f_;
  llvm::IRBuilder<>& b_;
  loopir::Expressions& x_;
  std::vector<Known> scopes_;
  std::map<Id, llvm::Value*> variables_, folded_;
  Id lanes_ = none;
  unsigned count_ = 1;
  llvm::Value* guard_ = nullptr;
};

}  // namespace inductor_cuda
