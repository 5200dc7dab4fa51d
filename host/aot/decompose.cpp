// Decomposition sets: which ops are taken apart before a backend sees the graph.
#include "ops/decompose.h"
#include "aot/lower.h"
#include "core/error.h"

#include <tenon/functorch.h>

#include <algorithm>
#include <array>
#include <set>

namespace tenon {

namespace {

// Mirrors PyTorch's default_decompositions (torch/_functorch/compilers.py), without forms that
// write (they become functional before), and without ops that have no row or no parts here.
constexpr std::array<std::string_view, 15> small_ops = {"aten.elu_backward.default",
                                                        "aten.gelu_backward.default",
                                                        "aten.hardsigmoid.default",
                                                        "aten.hardsigmoid_backward.default",
                                                        "aten.hardswish.default",
                                                        "aten.hardswish_backward.default",
                                                        "aten.hardtanh.default",
                                                        "aten.hardtanh_backward.default",
                                                        "aten.leaky_relu_backward.default",
                                                        "aten.masked_fill.Scalar",
                                                        "aten.masked_fill.Tensor",
                                                        "aten.sigmoid_backward.default",
                                                        "aten.silu_backward.default",
                                                        "aten.tanh_backward.default",
                                                        "aten.threshold_backward.default"};

// "a+b": what any of them takes apart.
std::vector<std::string> parts_of(const std::string& sets) {
  std::vector<std::string> names{""};
  for (char c : sets) {
    if (c == '+')
      names.emplace_back();
    else
      names.back() += c;
  }
  return names;
}

}  // namespace

std::vector<std::string> default_decompositions() { return {small_ops.begin(), small_ops.end()}; }

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
  if (set.find('+') != std::string::npos) {
    std::vector<std::function<bool(const OpEntry&)>> parts;
    for (const std::string& one : parts_of(set))
      if (auto part = decomposition_set(one, ops)) parts.push_back(std::move(part));
    return [parts](const OpEntry& op) {
      return std::ranges::any_of(parts, [&](const auto& part) { return part(op); });
    };
  }
  if (set == "default_decompositions") return decomposition_set("list", default_decompositions());
  if (set == "random")  // ops that draw and are only made of others
    return [](const OpEntry& op) {
      return (op.def->tags & OpTags::random) && !op.def->core && can_decompose(op);
    };
  require(set == "core_aten" || set == "inductor",
          "there is no decomposition set '{}'; known are none, core_aten, inductor, random and "
          "default_decompositions",
          set);
  // Every row that is not core and says how it is made of others; who compiles formulas keeps them
  // whole.
  bool formulas = set == "core_aten";
  return [formulas](const OpEntry& op) {
    return !op.def->core && can_decompose(op) && (formulas || !decomposes_by_formula(op));
  };
}

}  // namespace tenon
