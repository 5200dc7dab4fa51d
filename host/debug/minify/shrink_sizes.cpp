// Smaller sizes: smaller examples of symbols, and smaller numbers.
//
// A number n among the sizes of inputs becomes m wherever it stands: in inputs, and in what nodes
// take as sizes, there also as a factor (a view of [2, 3, n] as [6*n]). Then the meta functions say
// what the results look like; where one refuses, n was not one size but several things.
#include "debug/minify/shrink.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "debug/graph_runner.h"
#include "graph/inline.h"
#include "graph/record.h"

#include <algorithm>
#include <numeric>

namespace tenon {

namespace {

constexpr int64_t smaller_sizes[] = {1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 1024};

// Given values for smaller sizes: the beginning of each dimension; undefined where that is too short.
Tensor beginning_of(const Tensor& t, std::span<const int64_t> sizes) {
  if (!t.defined() || static_cast<size_t>(t.dim()) != sizes.size()) return Tensor();
  for (size_t d = 0; d < sizes.size(); ++d)
    if (t.size(static_cast<int64_t>(d)).guard_int() < sizes[d]) return Tensor();
  return make_view(t, SymIntList(IntList(sizes.data(), sizes.size())), t.strides(),
                   t.storage_offset())
      .clone();
}

Candidate with_beginnings(std::shared_ptr<Graph> graph, const std::vector<Tensor>& inputs) {
  Candidate out{graph, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& value = graph->value(graph->inputs()[i]);
    std::vector<int64_t> sizes;
    for (SymInt size : value.meta.sizes)
      sizes.push_back(size.is_symbolic() ? graph->shape_env->int_hint(size).value_or(-1)
                                         : size.word());
    bool is_tensor = value.kind == ValueKind::tensor;
    out.inputs.push_back(is_tensor ? beginning_of(inputs[i], sizes) : Tensor());
  }
  return out;
}

// ---- symbols

std::vector<int64_t> examples_of(const Graph& graph) {
  std::vector<int64_t> out;
  for (const SymbolBinding& b : graph.symbols) {
    std::optional<SymValue> hint = graph.shape_env->hint(b.symbol);
    out.push_back(hint && b.symbol->kind == ExprKind::integer ? hint->integer() : 0);
  }
  return out;
}

bool are_allowed(const Graph& graph, const std::vector<int64_t>& symbols) {
  return std::ranges::all_of(graph.shape_env->guard_conditions(), [&](const RecordedGuard& g) {
    return holds(g.condition, graph, symbols);
  });
}

void shrink_symbol(Search& search, size_t which) {
  Candidate now = search.best();
  std::vector<int64_t> symbols = examples_of(*now.graph);
  int64_t before = symbols[which];
  for (int64_t size : smaller_sizes) {
    if (size >= before) return;
    symbols[which] = size;
    if (!are_allowed(*now.graph, symbols)) continue;
    std::shared_ptr<Graph> graph = with_examples(*now.graph, whole_text(*now.graph), symbols);
    if (search.take(with_beginnings(graph, now.inputs))) return;
  }
}

// ---- numbers

/// A size that becomes another.
struct SizeChange {
  int64_t from, to;
  bool as_factor;  ///< also in multiples of it

  int64_t operator()(int64_t n) const {
    if (n == from) return to;
    return as_factor && n > from && n % from == 0 ? n / from * to : n;
  }
  SymInt operator()(SymInt n) const { return n.is_symbolic() ? n : SymInt((*this)(n.word())); }
};

void change_arguments(Graph& graph, const SizeChange& change) {
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    std::vector<Value> args(graph.node(n).args.begin(), graph.node(n).args.end());
    std::vector<std::vector<SymInt>> lists(args.size());
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].tag == Tag::integer && !args[i].is_symbolic() &&
          args[i].number().sym_int().word() == change.from)
        args[i] = Value::of(change.to);
      if (args[i].tag != Tag::ints) continue;
      for (uint32_t k = 0; k < args[i].count; ++k)
        lists[i].push_back(change(args[i].as<SymInt>()[k]));
      args[i] = Value::of(SymIntList(List<SymInt>(lists[i])));
    }
    graph.set_args(n, args);
  }
}

// Dense, in the order in which the strides were.
void lay_out(TensorMeta& meta, const ShapeEnv& env) {
  std::vector<size_t> order(meta.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<int64_t> before;
  for (SymInt stride : meta.strides) before.push_back(env.int_hint(stride).value_or(1));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return before[a] > before[b]; });
  SymInt stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (before[order[i]] == 0) continue;  // one element for all
    meta.strides[order[i]] = stride;
    stride = stride * meta.sizes[order[i]];
  }
}

Tensor add_resized(GraphRecorder& recorder, const GraphValue& value, const SizeChange& change) {
  if (value.kind != ValueKind::tensor) {
    recorder.graph().add_input(value);
    return Tensor();
  }
  TensorMeta meta = value.meta;
  bool is_other = false;
  for (SymInt& size : meta.sizes) {
    SymInt made = change(size);
    is_other = is_other || made.word() != size.word();
    size = made;
  }
  if (is_other) lay_out(meta, *recorder.shape_env());
  return recorder.add_input(meta, is_other ? SymInt(0) : value.offset, value);
}

// Null where an op does not take it.
std::shared_ptr<Graph> resized(const Graph& graph, const SizeChange& change) try {
  if (!can_record(graph)) return nullptr;
  std::shared_ptr<Graph> changed = independent_copy(graph);
  change_arguments(*changed, change);
  GraphRecorder recorder(changed->shape_env);
  RecordScope scope(recorder);
  std::vector<Tensor> inputs;
  for (ValueId v : changed->inputs())
    inputs.push_back(add_resized(recorder, changed->value(v), change));
  std::vector<SymInt> symbols;
  for (const SymbolBinding& b : changed->symbols) {
    const GraphValue& binder = changed->value(b.value);
    symbols.push_back(as_sym_int(b.symbol));
    recorder.graph().symbols.push_back(
        {b.symbol, recorder.graph().inputs()[binder.source_index], b.dim, b.stride});
  }
  std::shared_ptr<Graph> out = recorder.finish(record_graph(*changed, inputs, symbols));
  out->name = graph.name;
  return out;
} catch (const Error&) {
  return nullptr;
}

std::vector<int64_t> sizes_of_inputs(const Graph& graph) {
  std::vector<int64_t> out;
  for (ValueId v : graph.inputs())
    for (SymInt size : graph.value(v).meta.sizes)
      if (!size.is_symbolic() && size.word() > 1) out.push_back(size.word());
  std::ranges::sort(out, std::greater<>());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void shrink_number(Search& search, int64_t size) {
  Candidate now = search.best();
  for (int64_t smaller : smaller_sizes) {
    if (smaller >= size) return;
    for (bool as_factor : {false, true}) {
      std::shared_ptr<Graph> graph = resized(*now.graph, {size, smaller, as_factor});
      if (graph && search.take(with_beginnings(graph, now.inputs))) return;
    }
  }
}

}  // namespace

void shrink_sizes(Search& search) {
  for (size_t s = 0; s < search.graph().symbols.size(); ++s) shrink_symbol(search, s);
  for (int64_t size : sizes_of_inputs(search.graph())) shrink_number(search, size);
}

}  // namespace tenon
