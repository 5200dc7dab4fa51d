// Decomposition sets: which ops are taken apart before a backend sees the graph.
#include "ops/decompose.h"
#include "aot/lower.h"
#include "core/error.h"

#include <set>

namespace tenon {

std::function<bool(const OpEntry&)> decomposition_set(const std::string& set,
                                                      const std::vector<std::string>& ops,
                                                      const std::vector<std::string>& kept) {
  if (!kept.empty()) {
    auto all = decomposition_set(set, ops);
    if (!all) return nullptr;
    return [all, whole = std::set<std::string>(kept.begin(), kept.end())](const OpEntry& op) {
      return !whole.contains(op.name) && all(op);
    };
  }
  if (set.empty() || set == "none") return nullptr;
  if (set == "list") {
    return [names = std::set<std::string>(ops.begin(), ops.end())](const OpEntry& op) {
      return can_decompose(op) && names.contains(op.name);
    };
  }
  require(set == "core_aten" || set == "inductor",
          "there is no decomposition set '{}'; known are none, core_aten and inductor", set);
  // Every row that is not core and says how it is made of others; who compiles formulas keeps them
  // whole.
  bool formulas = set == "core_aten";
  return [formulas](const OpEntry& op) {
    return !op.def->core && can_decompose(op) && (formulas || !decomposes_by_formula(op));
  };
}

}  // namespace tenon
