// Running saved graphs.
#include "debug/graph_runner.h"

#include "compile/compile_graph.h"
#include "core/error.h"
#include "debug/random_inputs.h"
#include "model/input_layout.h"

#include <tenon/ops.h>

#include <chrono>

namespace tenon {

namespace {

// The example value of a size; data-dependent ones have none.
int64_t example(const Graph& graph, SymInt size) {
  if (!size.is_symbolic()) return size.word();
  std::optional<int64_t> hint;
  if (graph.shape_env) hint = graph.shape_env->int_hint(size);
  require(hint.has_value(), "an input of the graph has a size without an example; pass --input");
  return *hint;
}

std::vector<int64_t> examples(const Graph& graph, const Dims& dims) {
  std::vector<int64_t> out;
  for (SymInt dim : dims) out.push_back(example(graph, dim));
  return out;
}

}  // namespace

GraphRunner::GraphRunner(std::shared_ptr<Graph> graph, RunnerOptions options)
    : graph_(std::move(graph)), options_(std::move(options)) {}

void GraphRunner::compile() {
  if (artifact_) return;
  auto begin = std::chrono::steady_clock::now();
  CompileGraphOptions options;
  options.backend = options_.backend;
  options.mode = options_.mode;
  options.dynamic = !graph_->symbols.empty();
  artifact_ = compile_graph(graph_, options);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  compile_ms_ = took.count();
}

std::vector<int64_t> GraphRunner::symbols_of(std::span<const Tensor> inputs) const {
  std::vector<int64_t> words;
  for (const SymbolBinding& b : graph_->symbols) {
    const GraphValue& value = graph_->value(b.value);
    words.push_back(0);
    if (value.source != ValueSource::input) continue;
    const Tensor& given = inputs[value.source_index];
    if (b.dim >= 0)
      words.back() = (b.stride ? given.stride(b.dim) : given.size(b.dim)).guard_int();
    else if (b.symbol->kind == ExprKind::real)
      words.back() = std::bit_cast<int64_t>(given.to(Dtype::f64).to_vector<double>()[0]);
    else
      words.back() = given.to(Dtype::i64).to_vector<int64_t>()[0];
  }
  return words;
}

std::vector<Tensor> GraphRunner::run(std::span<const Tensor> inputs) {
  compile();
  require(inputs.size() == graph_->inputs().size(), "the graph takes {} inputs, found {}",
          graph_->inputs().size(), inputs.size());
  std::vector<detail::TensorHead*> heads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& value = graph_->value(graph_->inputs()[i]);
    std::string name = display_name(*graph_, graph_->inputs()[i]);
    require(inputs[i].defined(), "input {} is missing", name);
    bool is_tensor = value.kind == ValueKind::tensor;
    bool fits = !is_tensor || (inputs[i].dtype() == value.meta.dtype &&
                               static_cast<size_t>(inputs[i].dim()) == value.meta.sizes.size());
    require(fits, "input {}: expected {}, found {}", name, to_text(value), to_text(inputs[i]));
    for (size_t d = 0; is_tensor && d < value.meta.sizes.size(); ++d)
      require(value.meta.sizes[d].is_symbolic() ||
                  value.meta.sizes[d].word() == inputs[i].size(static_cast<int64_t>(d)).word(),
              "input {}: dimension {} must be {}, found {}", name, d, to_text(value.meta.sizes[d]),
              to_text(inputs[i]));
    heads.push_back(is_tensor ? inputs[i].head() : nullptr);
  }
  std::vector<Tensor> outputs(graph_->outputs().size());
  std::vector<int64_t> symbols = symbols_of(inputs);
  LaidOutInputs laid_out(*graph_, heads, symbols);
  artifact_->call(laid_out.heads(), symbols, outputs);
  laid_out.write_back();
  return outputs;
}

std::vector<Tensor> GraphRunner::random_inputs(uint64_t seed) const {
  std::vector<Tensor> inputs;
  for (ValueId id : graph_->inputs()) {
    const GraphValue& value = graph_->value(id);
    if (value.kind != ValueKind::tensor) {
      bool whole = value.scalar.is_integer();
      int64_t number = whole ? example(*graph_, value.scalar.sym_int()) : 1;
      inputs.push_back(scalar_tensor(number, whole ? Dtype::i64 : Dtype::f64));
      continue;
    }
    inputs.push_back(random_tensor(examples(*graph_, value.meta.sizes),
                                   examples(*graph_, value.meta.strides), value.meta.dtype,
                                   seed + inputs.size()));
  }
  return inputs;
}

size_t GraphRunner::find(const std::string& name) const {
  std::string known;
  for (size_t i = 0; i < graph_->inputs().size(); ++i) {
    std::string shown = display_name(*graph_, graph_->inputs()[i]);
    if (name == shown || "%" + name == shown || name == "%" + shown || name == message("in.{}", i))
      return i;
    known += (known.empty() ? "" : ", ") + shown;
  }
  fail("the graph has no input {}; it takes {}", name, known);
}

}  // namespace tenon
