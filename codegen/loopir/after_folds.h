// Which values of a kernel are known only once its folds are complete.
#pragma once

#include "program.h"

#include <map>

namespace loopir {

/// Answers for the values and indices of one program, while neither is changed. One thread at a time.
class AfterFolds {
 public:
  explicit AfterFolds(Program& program) : program_(program), x_(program.expressions) {}
  /// Whether the value reads what a fold gives, or a row in scratch memory, which is there once an
  /// earlier stage is complete.
  bool has_value(Id value);
  bool has_index(Id index);

 private:
  bool is_scratch(Id buffer) const {
    return program_.buffers[buffer].place == Buffer::Place::scratch;
  }

  Program& program_;
  Expressions& x_;
  std::map<Id, bool> known_;
};

}  // namespace loopir
