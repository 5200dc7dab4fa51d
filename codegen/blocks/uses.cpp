#include "uses.h"

#include <set>

namespace blocks {

using loopir::IndexKind;
using loopir::IndexNode;

namespace {

class UseCounter {
 public:
  UseCounter(const loopir::Expressions& x, Uses& uses) : x_(x), uses_(uses) {}

  void see_value(Id v) {
    if (v == none || ++uses_[v] > 1) return;
    loopir::Operands read = loopir::operands_of(x_.value_at(v));
    for (Id o : read.values) see_value(o);
    see_index(read.index);
  }
  void see_index(Id i) {
    if (i == none || !x_.reads_data(i) || !seen_.insert(i).second) return;
    const IndexNode& n = x_.index_at(i);
    if (n.kind == IndexKind::value) return see_value(static_cast<Id>(n.number));
    for (Id o : n.operands) see_index(o);
  }

 private:
  const loopir::Expressions& x_;
  Uses& uses_;
  std::set<Id> seen_;
};

}  // namespace

Uses uses_in(const loopir::Program& program, const loopir::Kernel& kernel) {
  Uses out;
  UseCounter counter(program.expressions, out);
  for (const loopir::Stage& stage : kernel.stages)
    for (const loopir::Statement& s : stage.statements) {
      counter.see_value(s.value);
      counter.see_index(s.index);
      counter.see_index(s.position);
    }
  return out;
}

}  // namespace blocks
