// The listeners of a thread, innermost first.
#include "core/sym/size_questions.h"

#include "core/sym/sym_simplify.h"

#include <utility>

namespace tenon {

constinit thread_local SizeQuestions* SizeQuestions::innermost_ = nullptr;

SizeQuestions::SizeQuestions() : outer_(std::exchange(innermost_, this)) {}
SizeQuestions::~SizeQuestions() { innermost_ = outer_; }

void SizeQuestions::add(SymOp op, const Expr* a, const Expr* b) {
  const Expr* condition = make_expr(op, {a, b});
  if (!condition->is_constant()) asked_.push_back(condition);
}

}  // namespace tenon
