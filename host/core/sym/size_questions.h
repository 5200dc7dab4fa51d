// What is asked about symbolic sizes on a thread, also where it is known already.
#pragma once

#include "core/sym/sym_expr.h"

#include <vector>

namespace tenon {

/// While one lives, comparisons of this thread and sizes that it fixes are noted as conditions, as
/// they were written: nothing that is known has been used to simplify them. The innermost notes.
class SizeQuestions {
 public:
  SizeQuestions();
  ~SizeQuestions();
  SizeQuestions(const SizeQuestions&) = delete;

  const std::vector<const Expr*>& asked() const { return asked_; }
  /// Cheap where nobody listens.
  static void note(SymOp op, const Expr* a, const Expr* b) {
    if (innermost_) innermost_->add(op, a, b);
  }
  static bool listens() { return innermost_ != nullptr; }

 private:
  void add(SymOp op, const Expr* a, const Expr* b);

  static constinit thread_local SizeQuestions* innermost_;
  SizeQuestions* outer_;
  std::vector<const Expr*> asked_;
};

}  // namespace tenon
