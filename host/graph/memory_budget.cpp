// The budget of the thread, and that of a graph.
#include "graph/memory_budget.h"

#include "core/error.h"

#include <tenon/memory_budget.h>

#include <charconv>
#include <utility>

namespace tenon {

constinit thread_local std::optional<double> current_memory_budget;

namespace autograd {

MemoryBudget::MemoryBudget(double share) : before_(current_memory_budget) {
  require(share >= 0 && share <= 1, "MemoryBudget: expected a share of 0 to 1, found {}", share);
  current_memory_budget = share;
}

MemoryBudget::~MemoryBudget() { current_memory_budget = before_; }

}  // namespace autograd

void note_memory_budget(Node& node) {
  if (!current_memory_budget) return;
  char text[32];
  auto [end, error] = std::to_chars(std::begin(text), std::end(text), *current_memory_budget);
  node.facts["memory_budget"] = std::string(text, end);
}

static double budget_of(const std::string& text) {
  double share = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  require(error == std::errc() && end == text.data() + text.size() && share >= 0 && share <= 1,
          "the fact memory_budget of a node: expected a share of 0 to 1, found '{}'", text);
  return share;
}

std::optional<double> memory_budget_of(const Graph& graph) {
  std::optional<double> budget;
  size_t n_without = 0;
  for (const Node& node : graph.nodes()) {
    auto fact = node.facts.find("memory_budget");
    if (fact == node.facts.end()) {
      ++n_without;
      continue;
    }
    double share = budget_of(fact->second);
    require(!budget || *budget == share,
            "MemoryBudget: expected one budget in a graph, found {} and {}; move the parts into "
            "functions that are compiled by themselves",
            budget.value_or(0), share);
    budget = share;
  }
  require(!budget || n_without == 0,
          "MemoryBudget: expected all {} operations of the graph under a budget, found {} without; "
          "let the MemoryBudget live for the whole function",
          graph.nodes().size(), n_without);
  return budget;
}

}  // namespace tenon
