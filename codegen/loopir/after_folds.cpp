#include "after_folds.h"

#include <algorithm>

namespace loopir {

bool AfterFolds::has_value(Id v) {
  if (auto known = known_.find(v); known != known_.end()) return known->second;
  const ValueNode n = x_.value_at(v);
  bool out = n.code == value_folded || (n.code == value_load && is_scratch(n.a));
  Operands read = operands_of(n);
  for (Id o : read.values)
    if (o != none) out |= has_value(o);
  if (read.index != none) out |= has_index(read.index);
  return known_[v] = out;
}

bool AfterFolds::has_index(Id i) {
  if (!x_.reads_data(i)) return false;
  const IndexNode& n = x_.index_at(i);
  if (n.kind == IndexKind::value) return has_value(static_cast<Id>(n.number));
  return std::any_of(n.operands.begin(), n.operands.end(), [&](Id o) { return has_index(o); });
}

}  // namespace loopir
