// What a graph says of its outputs.
#include "backend/compile/made_outputs.h"

#include "graph/passes/aliasing.h"

#include <algorithm>
#include <set>

namespace tenon {

namespace {

// Each is memory of its own, on the CPU, and has no history.
bool are_apart(const CompileRequest& request) {
  const Graph& graph = *request.graph;
  bool has_histories = request.stage == Stage::captured && request.grad_enabled;
  auto is_alias = [](uint32_t input) { return input != no_value; };
  if (has_histories || std::ranges::any_of(request.aliased_outputs, is_alias)) return false;
  AliasClasses classes(graph);
  std::set<uint32_t> seen;
  return std::ranges::all_of(graph.outputs(), [&](ValueId v) {
    return v != no_value && graph.value(v).kind == ValueKind::tensor &&
           graph.value(v).meta.device == kCPU && !classes.is_external(v) &&
           seen.insert(classes.of(v)).second;
  });
}

bool is_same(const SymInt& a, const SymInt& b) { return a.word() == b.word(); }

// The symbol that a call gives its value; those that the code computes it does not.
std::optional<uint32_t> symbol_of_call(const Graph& graph, const SymInt& size) {
  for (uint32_t i = 0; i < graph.symbols.size(); ++i) {
    const SymbolBinding& bound = graph.symbols[i];
    bool is_given = graph.value(bound.value).source != ValueSource::node;
    if (is_given && bound.symbol == size.expr()) return i;
  }
  return std::nullopt;
}

}  // namespace

MadeOutputs::MadeOutputs(const CompileRequest& request) {
  if (!are_apart(request)) return;
  auto is_added = [&](ValueId v) { return add(*request.graph, v); };
  if (!std::ranges::all_of(request.graph->outputs(), is_added)) outputs_.clear();
}

bool MadeOutputs::add(const Graph& graph, ValueId v) {
  const GraphValue& value = graph.value(v);
  if (!is_same(value.offset, 0)) return false;
  Output output{value.meta, {}};
  const Dims &sizes = output.meta.sizes, &strides = output.meta.strides;
  if (list_of(sizes).is_symbolic() || list_of(strides).is_symbolic()) {
    if (!std::ranges::equal(strides, contiguous_strides(list_of(sizes)), is_same)) return false;
    for (const SymInt& size : sizes) {
      std::optional<uint32_t> symbol = plain;
      if (size.is_symbolic()) symbol = symbol_of_call(graph, size);
      if (!symbol) return false;
      output.symbols.push_back(*symbol);
    }
  }
  outputs_.push_back(std::move(output));
  return true;
}

Tensor MadeOutputs::make_sized(const Output& o, std::span<const int64_t> syms) {
  Dims sizes = o.meta.sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (o.symbols[d] != plain) sizes[d] = syms[o.symbols[d]];
  return make_tensor(list_of(sizes), list_of(contiguous_strides(list_of(sizes))), o.meta.dtype);
}

}  // namespace tenon
