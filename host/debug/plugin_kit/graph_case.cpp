// Golden graphs with sizes, layouts and numbers, and the comparison of results.
#include "debug/plugin_kit/graph_case.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_eval.h"
#include "core/tensor/tensor_impl.h"
#include "debug/double_run.h"
#include "debug/op_compare.h"
#include "debug/plugin_kit/guarded_memory.h"
#include "debug/random_inputs.h"
#include "graph/interpret.h"
#include "graph/record.h"
#include "graph/text/parse.h"
#include "ops/kernel_loops.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <tenon/ops/copy.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon::kit {

// ---- graphs

std::string_view name_of(InputStyle style) {
  constexpr std::string_view names[] = {"contiguous",     "transposed", "sliced",   "of size 0",
                                        "of one element", "not finite", "with NaN", "denormal"};
  return names[static_cast<size_t>(style)];
}

GoldenGraph golden_graph(const EmbeddedFile& file) {
  GoldenGraph golden;
  golden.name = file.path.substr(0, file.path.rfind('.'));
  golden.graph = parse_graph(file.text);
  golden.only_finite = file.text.find("# only: finite\n") != std::string_view::npos;
  golden.no_infinity = file.text.find("# only: no infinity\n") != std::string_view::npos;
  for (const Node& node : golden.graph->nodes()) {
    const OpEntry& op = entry_of(node.op);
    golden.is_random = golden.is_random || (op.tags & TN_TAG_RANDOM);
    golden.writes = golden.writes || written_args(node);
  }
  for (const SymbolBinding& b : golden.graph->symbols)
    if (golden.graph->value(b.value).source == ValueSource::node) golden.is_unbacked = true;
  return golden;
}

GoldenGraph golden_graph(std::string_view name) {
  for (const EmbeddedFile& file : golden_graphs())
    if (file.path.substr(0, file.path.rfind('.')) == name) return golden_graph(file);
  fail_internal(message("there is no golden graph {}", name));
}

// ---- sizes

namespace {

std::optional<SymValue> symbol_value(const Graph& graph, std::span<const int64_t> symbols,
                                     const Expr* symbol) {
  for (size_t i = 0; i < graph.symbols.size(); ++i)
    if (graph.symbols[i].symbol == symbol) return SymValue{symbol->kind, symbols[i]};
  return std::nullopt;
}

int64_t value_of(const Graph& graph, SymInt size, std::span<const int64_t> symbols) {
  if (!size.is_symbolic()) return size.word();
  auto value = evaluate(as_expr(size),
                        [&](const Expr* symbol) { return symbol_value(graph, symbols, symbol); });
  ensure(value.has_value(), "a size of a golden graph has no value");
  return value->word;
}

std::vector<int64_t> values_of(const Graph& graph, const Dims& dims,
                               std::span<const int64_t> symbols) {
  std::vector<int64_t> out;
  for (SymInt size : dims) out.push_back(value_of(graph, size, symbols));
  return out;
}

}  // namespace

std::vector<int64_t> symbol_hints(const Graph& graph) {
  std::vector<int64_t> hints;
  for (const SymbolBinding& b : graph.symbols) {
    auto hint = graph.shape_env->hint(b.symbol);
    hints.push_back(hint ? hint->word : 0);
  }
  return hints;
}

std::vector<int64_t> with_sizes(const Graph& graph, int64_t size) {
  std::vector<int64_t> symbols = symbol_hints(graph);
  for (size_t i = 0; i < symbols.size(); ++i)
    if (graph.symbols[i].symbol->kind == ExprKind::integer) symbols[i] = size;
  return symbols;
}

bool admits(const Graph& graph, std::span<const int64_t> symbols) {
  if (!graph.shape_env) return true;
  for (size_t i = 0; i < symbols.size(); ++i)
    if (graph.symbols[i].symbol->kind == ExprKind::integer &&
        !graph.shape_env->range(graph.symbols[i].symbol).contains(symbols[i]))
      return false;
  for (const RecordedGuard& guard : graph.shape_env->guard_conditions()) {
    auto holds =
        evaluate(guard.condition, [&](const Expr* s) { return symbol_value(graph, symbols, s); });
    if (holds && !holds->word) return false;
  }
  return true;
}

// ---- inputs

namespace {

double smallest_scale(Dtype dtype) {
  return dtype == Dtype::f64 ? 1e-310 : dtype == Dtype::f16 ? 1e-6 : 1e-40;
}

Tensor numbers_for(const std::vector<int64_t>& sizes, Dtype dtype, InputStyle style,
                   uint64_t seed) {
  bool special = style == InputStyle::not_finite || style == InputStyle::some_nan ||
                 style == InputStyle::denormal;
  if (!special || !is_floating(dtype)) return random_tensor(IntList(sizes), dtype, seed);
  Tensor wide = random_tensor(IntList(sizes), Dtype::f64, seed);
  auto* x = wide.data_ptr<double>();
  constexpr double odd[] = {NAN, INFINITY, -INFINITY, -0.0};
  for (int64_t i = 0; i < numel_of(wide); ++i) {
    if (style == InputStyle::denormal)
      x[i] *= smallest_scale(dtype);
    else if (style == InputStyle::some_nan)
      x[i] = i % 37 == 5 ? NAN : x[i];
    else if (i % 2 == 1)
      x[i] = odd[i / 2 % 4];
  }
  return wide.to(dtype);
}

std::vector<int64_t> transposed_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  std::vector<size_t> order(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    stride *= std::max<int64_t>(sizes[order[k]], 1);
  }
  return strides;
}

Tensor filled(Tensor room, const Tensor& numbers) {
  room.copy_(numbers);
  return room;
}

Tensor transposed(const Tensor& numbers, const std::vector<int64_t>& sizes) {
  if (sizes.size() < 2) return between_guards(numbers, nullptr);
  std::vector<int64_t> strides = transposed_strides(sizes);
  Tensor room =
      make_tensor(SymIntList(IntList(sizes)), SymIntList(IntList(strides)), numbers.dtype());
  return between_guards(filled(room, numbers), nullptr);
}

Tensor sliced(const Tensor& numbers, const std::vector<int64_t>& sizes, uint64_t seed) {
  constexpr int64_t offset = 5, tail = 3;
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 2;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d] + 1;
  }
  Tensor room = random_tensor(IntList{offset + stride + tail}, numbers.dtype(), seed);
  Tensor base = between_guards(room, nullptr);
  Tensor part = make_view(base, SymIntList(IntList(sizes)), SymIntList(IntList(strides)), offset);
  return filled(part, numbers);
}

Tensor laid_out(const Tensor& numbers, const std::vector<int64_t>& sizes, InputStyle style,
                uint64_t seed) {
  if (style == InputStyle::transposed) return transposed(numbers, sizes);
  if (style == InputStyle::sliced) return sliced(numbers, sizes, seed + 1);
  return between_guards(numbers, nullptr);
}

std::vector<Tensor> inputs_for(const Graph& graph, std::span<const int64_t> symbols,
                               InputStyle style, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) {
    const GraphValue& value = graph.value(id);
    seed += 0x1000;
    if (value.kind != ValueKind::tensor) {
      inputs.emplace_back();
      continue;
    }
    std::vector<int64_t> sizes = values_of(graph, value.meta.sizes, symbols);
    Tensor numbers = numbers_for(sizes, value.meta.dtype, style, seed);
    inputs.push_back(laid_out(numbers, sizes, style, seed));
  }
  return inputs;
}

// The graph of the same calls on inputs of these sizes and strides.
std::shared_ptr<Graph> recorded(const GoldenGraph& golden, std::span<const Tensor> inputs,
                                std::span<const int64_t> symbols) {
  GraphRecorder recorder(ShapeEnv::make());
  std::vector<Tensor> fakes;
  std::vector<detail::TensorHead*> heads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& old = golden.graph->value(golden.graph->inputs()[i]);
    fakes.emplace_back();
    if (inputs[i].defined()) {
      GraphValue value;
      value.name = old.name;
      value.flags = old.flags;
      fakes.back() = recorder.add_input(meta_of(inputs[i]), inputs[i].storage_offset(), value);
    }
    heads.push_back(inputs[i].defined() ? fakes.back().head() : nullptr);
  }
  std::vector<Tensor> outputs(golden.graph->outputs().size());
  {
    RecordScope scope(recorder);
    Interpreter(golden.graph).run(heads, symbols, outputs);
  }
  std::shared_ptr<Graph> graph = recorder.finish(outputs);
  graph->name = golden.name;
  return graph;
}

GraphCase recorded_case(const GoldenGraph& golden, std::span<const int64_t> symbols,
                        InputStyle style, uint64_t seed) {
  std::vector<Tensor> inputs = inputs_for(*golden.graph, symbols, style, seed);
  GraphCase out;
  out.graph = recorded(golden, inputs, symbols);
  for (Tensor& t : inputs)
    if (t.defined()) out.inputs.push_back(std::move(t));
  out.symbols.resize(out.graph->symbols.size());
  return out;
}

// What each symbol is for a style; nothing where the graph does not admit it.
std::optional<std::vector<int64_t>> symbols_for(const GoldenGraph& golden, InputStyle style) {
  const Graph& graph = *golden.graph;
  std::vector<int64_t> symbols = symbol_hints(graph);
  if (style != InputStyle::zero_size && style != InputStyle::one_element) return symbols;
  if (symbols.empty()) return std::nullopt;
  symbols = with_sizes(graph, style == InputStyle::one_element);
  if (!admits(graph, symbols)) return std::nullopt;
  return symbols;
}

bool suits(const GoldenGraph& golden, InputStyle style) {
  bool odd_numbers = style == InputStyle::not_finite || style == InputStyle::denormal;
  bool has_matrix = false, has_floats = false;
  for (ValueId id : golden.graph->inputs()) {
    const GraphValue& v = golden.graph->value(id);
    if (v.kind != ValueKind::tensor) continue;
    has_matrix = has_matrix || v.meta.sizes.size() >= 2;
    has_floats = has_floats || is_floating(v.meta.dtype);
  }
  if (style == InputStyle::some_nan) return has_floats && golden.no_infinity;
  if (odd_numbers) return has_floats && !golden.only_finite && !golden.no_infinity;
  return style != InputStyle::transposed || has_matrix;
}

}  // namespace

std::vector<detail::TensorHead*> GraphCase::heads() const {
  std::vector<detail::TensorHead*> out;
  for (const Tensor& t : inputs) out.push_back(t.defined() ? t.head() : nullptr);
  return out;
}

std::vector<Tensor> GraphCase::copy_of_inputs() const {
  std::vector<Tensor> out;
  for (const Tensor& t : inputs) {
    out.emplace_back();
    if (!t.defined()) continue;
    int64_t n = static_cast<int64_t>(t.head()->storage_bytes) / itemsize(t.dtype());
    Tensor whole = between_guards(make_view(t, IntList{n}, IntList{1}, 0), nullptr);
    out.back() = make_view(whole, t.sizes(), t.strides(), t.storage_offset());
  }
  return out;
}

std::optional<GraphCase> make_static_case(const GoldenGraph& golden, InputStyle style,
                                          uint64_t seed) {
  std::optional<std::vector<int64_t>> symbols = symbols_for(golden, style);
  if (!symbols || !suits(golden, style)) return std::nullopt;
  return recorded_case(golden, *symbols, style, seed);
}

GraphCase with_gradients_wanted(const GraphCase& c) {
  GraphCase out{clone(*c.graph), c.inputs, c.symbols};
  for (ValueId id : out.graph->inputs()) {
    GraphValue& value = out.graph->value(id);
    value.flags.requires_grad = value.kind == ValueKind::tensor && is_floating(value.meta.dtype);
  }
  return out;
}

GraphCase with_other_numbers(const GraphCase& c, uint64_t seed) {
  GraphCase out{c.graph, c.copy_of_inputs(), c.symbols};
  for (const Tensor& t : out.inputs) {
    seed += 0x1000;
    if (!t.defined()) continue;
    std::vector<int64_t> sizes;
    for (SymInt size : t.sizes()) sizes.push_back(size.word());
    filled(t, random_tensor(IntList(sizes), t.dtype(), seed));
  }
  return out;
}

GraphCase make_sized_case(const GoldenGraph& golden, std::span<const int64_t> symbols,
                          uint64_t seed) {
  return recorded_case(golden, symbols, InputStyle::contiguous, seed);
}

GraphCase make_symbolic_case(const GoldenGraph& golden, std::span<const int64_t> symbols,
                             uint64_t seed) {
  GraphCase out;
  out.graph = golden.graph;
  out.symbols.assign(symbols.begin(), symbols.end());
  out.inputs = inputs_for(*golden.graph, symbols, InputStyle::contiguous, seed);
  return out;
}

// ---- results

std::vector<Tensor> run_reference(const GraphCase& c, std::vector<Tensor>* inputs_after) {
  GraphCase copy{c.graph, c.copy_of_inputs(), c.symbols};
  std::vector<Tensor> outputs(c.graph->outputs().size());
  std::vector<detail::TensorHead*> heads = copy.heads();
  Interpreter(c.graph).run(heads, c.symbols, outputs);
  if (inputs_after) *inputs_after = std::move(copy.inputs);
  return outputs;
}

namespace {

// The op by whose tolerance the whole graph is judged: one that sums where there is one.
const OpEntry& judging_op(const Graph& graph) {
  const OpEntry* judge = &entry_of(OpId::aten_relu_default);
  for (const Node& node : graph.nodes()) {
    const OpEntry& op = entry_of(node.op);
    if (op.tags & (TN_TAG_REDUCTION | TN_TAG_MATMUL | TN_TAG_CONV)) return op;
    judge = &op;
  }
  return *judge;
}

}  // namespace

std::string difference(const GraphCase& c, std::span<const Tensor> found,
                       std::span<const Tensor> expected) {
  const OpEntry& judge = judging_op(*c.graph);
  std::vector<Tensor> exact;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined() && !found[i].defined()) continue;
    if (!expected[i].defined() || !found[i].defined())
      return message("out.{} is {}, expected {}", i, found[i].defined() ? "there" : "missing",
                     expected[i].defined() ? "a tensor" : "none");
    std::string what = compare_tensor(found[i], expected[i], judge, true).values;
    if (what.empty()) continue;
    bool same_shape = compare_tensor(found[i], expected[i], judge, false).values.empty();
    if (same_shape && exact.empty())
      exact = run_graph_in_double(*c.graph, c.inputs, c.symbols).outputs;
    if (same_shape && rounding_of(found[i], expected[i], exact[i]).explains()) continue;
    return message("out.{}: {}", i, what);
  }
  return "";
}

std::string meta_difference(const GraphCase& c, std::span<const Tensor> found) {
  for (size_t i = 0; i < found.size(); ++i) {
    ValueId id = c.graph->outputs()[i];
    if (id == no_value || !found[i].defined()) continue;
    const GraphValue& value = c.graph->value(id);
    if (value.kind != ValueKind::tensor) continue;
    if (found[i].dtype() != value.meta.dtype)
      return message("out.{} has dtype {}, the graph says {}", i, found[i].dtype(),
                     value.meta.dtype);
    Tensor promised = make_fake(
        {value.meta.dtype, kCPU,
         dims_of(SymIntList(IntList(values_of(*c.graph, value.meta.sizes, c.symbols)))),
         dims_of(SymIntList(IntList(values_of(*c.graph, value.meta.strides, c.symbols))))});
    OpDifference meta = compare_tensor(found[i], promised, judging_op(*c.graph), false);
    if (!meta.values.empty()) return message("out.{}: {}", i, meta.values);
    if (!meta.strides.empty()) return message("out.{}: {}", i, meta.strides);
  }
  return "";
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.dtype() != b.dtype() || a.dim() != b.dim()) return false;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d).word() != b.size(d).word()) return false;
  Tensor x = contiguous_of(a), y = contiguous_of(b);
  auto bytes = static_cast<size_t>(numel_of(x) * itemsize(x.dtype()));
  return bytes == 0 || std::memcmp(x.head()->data, y.head()->data, bytes) == 0;
}

}  // namespace tenon::kit
