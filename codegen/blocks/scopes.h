// The loops of a kernel that are open while its code is made.
//
// Scopes are those loops, from the kernel's entry inwards. Each value and number is computed once,
// in the outermost scope in which all variables that it depends on are known. A loop's step stands
// in the body around it only when the loop is closed, so what is added to that body meanwhile comes
// before the loop.
//
// Inside the loop over lanes a value that depends on its variable (or, where lanes are rows of
// their own, on a fold) is a block; all else is one element.
#pragma once

#include "code.h"

#include <loopir/after_folds.h>

#include <map>
#include <optional>

namespace blocks {

struct Scope {
  uint32_t body;
  std::map<Id, Id> values, filled, numbers, places;  // registers of what is known here
};

struct OpenLanes {
  loopir::Ids variables;  // the slowest first; none where the loop is not open
  size_t scope = 0;

  bool are_open() const { return !variables.empty(); }
  bool are_rows = false;  // else elements of one row
  Id elements = none;     // where lanes are short rows behind one another: the variable within one
};

/// What a register holds.
struct Register {
  size_t bytes;  // of one element
  bool is_block;
};

class Scopes {
 public:
  Scopes(loopir::Program& program, Code& code)
      : program_(program), after_folds_(program), code_(code) {
    open();
  }

  void open();
  /// The body of the loop that was open.
  uint32_t close();
  Scope& operator[](size_t scope) { return scopes_[scope]; }
  size_t innermost() const { return scopes_.size() - 1; }
  void emit(size_t scope, Step step) { steps_of(scope).push_back(std::move(step)); }
  std::vector<Step>& steps_of(size_t scope) { return code_.bodies[scopes_[scope].body].steps; }

  Id new_number() { return code_.n_numbers++; }
  Id new_value(Type type, bool is_block) { return new_value(size_of(type), is_block); }
  Id new_value(size_t bytes, bool is_block);
  const std::vector<Register>& registers() const { return registers_; }

  /// From here on, and until it is released, the variable is known in the innermost scope.
  void bind(Id variable, Id number);
  void release(Id variable) { scope_of_variable_.erase(variable); }
  Id variable(Id id) const { return variables_.at(id); }

  /// Whether it differs from lane to lane.
  bool varies(Id value);
  bool index_varies(Id index);
  /// Whether it differs from row to row, but not within one, where lanes are segments.
  bool is_of_rows(Id value);
  /// By how much the index grows with each variable of the lanes; nothing where it is not a line.
  std::optional<loopir::Ids> lane_steps(Id index);

  // Where it is computed.
  size_t of_value(Id value);
  size_t of_index(Id index);

  bool is_scratch(Id buffer) const {
    return program_.buffers[buffer].place == loopir::Buffer::Place::scratch;
  }

  OpenLanes lanes;
  size_t row = 0;  // the scope where folds are complete

 private:
  size_t of_variables(const loopir::Ids& variables) const;

  loopir::Program& program_;
  loopir::AfterFolds after_folds_;
  Code& code_;
  std::vector<Scope> scopes_;
  std::vector<Register> registers_;
  std::map<Id, size_t> scope_of_variable_;
  std::map<Id, Id> variables_;
};

/// Takes steps that give the same in each block of a loop over blocks out of it.
void hoist(Code& code);

/// Gives every register its place, by when it is used: those of blocks that are not needed at the
/// same time share one.
void place_registers(Code& code, const std::vector<Register>& registers);

}  // namespace blocks
