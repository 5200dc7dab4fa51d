// Fewer inputs, and fewer given values.
#include "debug/minify/shrink.h"

#include "core/arguments.h"

namespace tenon {

namespace {

bool are_alike(const GraphValue& a, const GraphValue& b) {
  auto same = [](const Dims& x, const Dims& y) {
    return std::ranges::equal(x, y, [](SymInt p, SymInt q) { return p.word() == q.word(); });
  };
  return a.kind == ValueKind::tensor && b.kind == ValueKind::tensor &&
         a.meta.dtype == b.meta.dtype && same(a.meta.sizes, b.meta.sizes) &&
         same(a.meta.strides, b.meta.strides);
}

// Who reads `gone` reads `kept`.
std::shared_ptr<Graph> with_one_for_both(const Graph& graph, ValueId kept, ValueId gone) {
  std::shared_ptr<Graph> out = clone(graph);
  for (NodeId n = 0; n < out->nodes().size(); ++n) {
    std::vector<Value> args(out->node(n).args.begin(), out->node(n).args.end());
    ArgumentLists lists;
    map_arguments(
        args, lists, [&](ValueId v) { return v == gone ? kept : v; }, keep_numbers);
    out->set_args(n, args);
  }
  for (SymbolBinding& b : out->symbols)
    if (b.value == gone) b.value = kept;  // of equal sizes
  return out;
}

bool merge_any(Search& search) {
  Candidate now = search.best();
  std::span<const ValueId> inputs = now.graph->inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t j = i + 1; j < inputs.size(); ++j) {
      if (!are_alike(now.graph->value(inputs[i]), now.graph->value(inputs[j]))) continue;
      std::shared_ptr<Graph> one = with_one_for_both(*now.graph, inputs[i], inputs[j]);
      if (search.take(tidied({one, now.inputs}))) return true;
    }
  return false;
}

}  // namespace

void shrink_inputs(Search& search) {
  Candidate given = search.best();
  std::vector<size_t> places;
  for (size_t i = 0; i < given.inputs.size(); ++i)
    if (given.inputs[i].defined()) places.push_back(i);
  auto fails = [&](const std::vector<size_t>& part) {
    Candidate fewer{given.graph, std::vector<Tensor>(given.inputs.size())};
    for (size_t p : part) fewer.inputs[places[p]] = given.inputs[places[p]];
    return search.take(std::move(fewer));
  };
  smallest_part(places.size(), fails, 0);
  while (merge_any(search)) {
  }
}

}  // namespace tenon
