// Facts about symbols that nodes bind, and the sizes of what nodes give.
#include "backend/compile/late_sizes.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_eval.h"
#include "core/tensor/tensor_impl.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon {

namespace {

bool is_bound_by_node(const Graph& graph, const Expr* symbol) {
  return std::ranges::any_of(graph.symbols, [&](const SymbolBinding& b) {
    return b.symbol == symbol && graph.value(b.value).source == ValueSource::node;
  });
}

}  // namespace

LateSizes::LateSizes(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {
  depends_on_data_ = std::ranges::any_of(graph_->nodes(), [](const Node& node) {
    return entry_of(node.op).tags & TN_TAG_DATA_DEPENDENT;
  });
  if (!depends_on_data_ || !graph_->shape_env) return;
  for (const SymbolBinding& b : graph_->symbols)
    if (graph_->value(b.value).source == ValueSource::node && b.symbol->kind == ExprKind::integer)
      facts_.push_back({b.symbol, graph_->shape_env->range(b.symbol)});
  for (const Expr* condition : graph_->shape_env->assumptions()) {
    std::vector<const Expr*> symbols = free_symbols(condition);
    if (std::ranges::any_of(symbols, [&](const Expr* s) { return is_bound_by_node(*graph_, s); }))
      facts_.push_back({condition, Range::only(1)});
  }
}

bool LateSizes::is_known(const Expr* expr, const std::vector<bool>& known) const {
  return std::ranges::all_of(free_symbols(expr), [&](const Expr* symbol) {
    for (size_t s = 0; s < graph_->symbols.size(); ++s)
      if (graph_->symbols[s].symbol == symbol && known[s]) return true;
    return false;
  });
}

std::vector<LateSizes::Fact> LateSizes::take_facts(const std::vector<bool>& known) {
  auto rest = std::ranges::stable_partition(
      facts_, [&](const Fact& fact) { return !is_known(fact.expr, known); });
  std::vector<Fact> out(rest.begin(), rest.end());
  facts_.erase(rest.begin(), rest.end());
  return out;
}

int64_t LateSizes::value_of(const Expr* expr, std::span<const int64_t> symbols) const {
  auto value = evaluate(expr, [&](const Expr* symbol) -> std::optional<SymValue> {
    for (size_t s = 0; s < graph_->symbols.size(); ++s)
      if (graph_->symbols[s].symbol == symbol) return SymValue{symbol->kind, symbols[s]};
    return std::nullopt;
  });
  require(value.has_value(), "{} cannot be computed for the sizes of this call",
          graph_->shape_env->text(expr));
  return value->integer();
}

void LateSizes::check(std::span<const Fact> facts, std::span<const int64_t> symbols) const {
  for (const Fact& fact : facts) {
    int64_t value = value_of(fact.expr, symbols);
    if (fact.range.contains(value)) continue;
    std::string text = graph_->shape_env->text(fact.expr);
    require(fact.expr->kind != ExprKind::boolean,
            "{} does not hold in this call, the graph takes it for granted", text);
    std::string range = fact.range.lo == fact.range.hi
                            ? std::to_string(fact.range.lo)
                            : message("{} to {}", fact.range.lo, fact.range.hi);
    fail("{} is {} in this call, the graph takes {} for granted", text, value, range);
  }
}

void LateSizes::check(ValueId value, const Tensor& found, std::span<const int64_t> symbols) const {
  const GraphValue& said = graph_->value(value);
  bool fits = static_cast<size_t>(found.dim()) == said.meta.sizes.size();
  std::vector<int64_t> sizes;
  for (SymInt size : said.meta.sizes)
    sizes.push_back(size.is_symbolic() ? value_of(size.expr(), symbols) : size.word());
  for (size_t d = 0; fits && d < sizes.size(); ++d)
    fits = found.size(static_cast<int64_t>(d)).guard_int() == sizes[d];
  require(fits, "%{} has shape {} in this call, the graph says {}", display_name(*graph_, value),
          found.sizes(), IntList(sizes));
}

}  // namespace tenon
