// Decomposition sets: which ops are taken apart before a backend sees the graph.
#include "aot/lower.h"
#include "core/error.h"
#include "ops/op_table.h"

#include <set>

namespace tenon {

std::function<bool(const OpEntry&)> decomposition_set(const std::string& set,
                                                      const std::vector<std::string>& ops) {
  if (set.empty() || set == "none") return nullptr;
  if (set == "list") {
    return [names = std::set<std::string>(ops.begin(), ops.end())](const OpEntry& op) {
      return op.def->decomp && names.contains(op.name);
    };
  }
  require(set == "core_aten" || set == "inductor",
          "there is no decomposition set '{}'; known are none, core_aten and inductor", set);
  // Every row that is not core and says how it is made of others.
  return [](const OpEntry& op) { return op.def->decomp && !op.def->core && !op.functional; };
}

}  // namespace tenon
