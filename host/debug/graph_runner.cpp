// Running saved graphs.
#include "debug/graph_runner.h"

#include "compile/compile_graph.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "debug/random_inputs.h"
#include "graph/passes/aliasing.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "model/input_layout.h"

#include <tenon/ops/create.h>
#include <tenon/ops/reduce.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

namespace tenon {

namespace {

// What an op refuses of inputs that fit the graph, the graph asks of it.
template <class F>
void as_fault_of_graph(const F& body) {
  try {
    body();
  } catch (const UserError& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw UserError(ErrorCode::bad_file, message("the graph cannot run: {}", error.what()));
  }
}

/// Inputs that need gradients where the graph says so: code counts on it.
class WithGradients {
 public:
  WithGradients(const Graph& graph, std::span<const Tensor> inputs,
                const std::vector<bool>& is_written)
      : given_(inputs.begin(), inputs.end()), inputs_(inputs) {
    for (size_t i = 0; i < given_.size(); ++i) {
      const GraphValue& value = graph.value(graph.inputs()[i]);
      bool needs = value.kind == ValueKind::tensor && value.flags.requires_grad;
      if (!needs || !is_differentiable(given_[i].dtype()) || given_[i].requires_grad()) continue;
      given_[i] = given_[i].detach().requires_grad_();
      if (!is_written[i]) continue;
      given_[i] = given_[i].clone();  // a leaf may not be written
      copied_.push_back(i);
    }
  }
  const Tensor& operator[](size_t i) const { return given_[i]; }
  void write_back() const {
    for (size_t i : copied_)
      if (symbolic_text(inputs_[i].sizes()) == symbolic_text(given_[i].sizes()))
        inputs_[i].detach().copy_(given_[i].detach());
  }

 private:
  std::vector<Tensor> given_;
  std::span<const Tensor> inputs_;
  std::vector<size_t> copied_;
};

}  // namespace

GraphRunner::GraphRunner(std::shared_ptr<Graph> graph, RunnerOptions options)
    : graph_(std::move(graph)),
      options_(std::move(options)),
      memory_written_(*graph_, std::vector<bool>(graph_->inputs().size())),
      unit_(report::find_unit(report::UnitKind::model,
                              graph_->name.empty() ? "a graph" : graph_->name)) {
  AliasClasses classes(*graph_);
  for (ValueId id : graph_->inputs()) is_written_.push_back(classes.is_written(id));
  if (graph_->symbols.empty()) return;
  for (const RecordedGuard& guard : graph_->shape_env->guard_conditions())
    assumed_.push_back(guard.condition);
  constexpr PrintOptions whole{.inline_elements = std::numeric_limits<size_t>::max()};
  text_ = to_text(*graph_, whole);
}

std::shared_ptr<Graph> with_examples(const Graph& graph, const std::string& text,
                                     std::span<const int64_t> symbols) {
  ParseOptions options;
  options.shape_env = ShapeEnv::make();
  for (const SymbolInfo& info : graph.shape_env->symbols()) {
    std::optional<SymValue> hint = value_in_call(info.expr, graph, symbols);
    const Expr* made = options.shape_env->declare_symbol(
        info.name, info.kind, hint ? hint : info.hint, info.checked, info.source, info.source_text);
    if (info.size_like) options.shape_env->mark_size_like(as_sym_int(made));
  }
  return parse_graph(text, options);
}

GraphRunner::Version GraphRunner::make_version(std::shared_ptr<Graph> graph) {
  report::TimeScope time(unit_, report::Work::compile);
  auto begin = std::chrono::steady_clock::now();
  CompileGraphOptions options;
  options.backend = options_.backend;
  options.mode = options_.mode;
  options.dynamic = !graph->symbols.empty();
  Version version{graph, nullptr, {}};
  as_fault_of_graph([&] { version.artifact = compile_graph(graph, options); });
  if (graph->shape_env)
    for (const RecordedGuard& guard : graph->shape_env->guard_conditions())
      version.conditions.push_back(guard.condition);
  for (const Expr* guard : version.artifact->guards) version.conditions.push_back(guard);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  compile_ms_ += took.count();
  if (unit_) unit_->add({.compiles = 1});
  return version;
}

void GraphRunner::compile() {
  if (versions_.empty()) versions_.push_back(make_version(graph_));
}

// Compiled code holds for the sizes that compiling asked about; others are compiled anew.
const GraphRunner::Version& GraphRunner::version_for(std::span<const int64_t> symbols) {
  auto fits = [&](const Version& v) {
    return std::ranges::all_of(v.conditions,
                               [&](const Expr* c) { return holds(c, *v.graph, symbols); });
  };
  compile();
  auto found = std::ranges::find_if(versions_, fits);
  if (found != versions_.end()) return *found;
  versions_.push_back(make_version(with_examples(*graph_, text_, symbols)));
  require(fits(versions_.back()), "the graph cannot be compiled for the sizes of these inputs");
  return versions_.back();
}

void GraphRunner::check_sizes(std::span<const Tensor> inputs,
                              std::span<const int64_t> symbols) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& value = graph_->value(graph_->inputs()[i]);
    for (size_t d = 0; value.kind == ValueKind::tensor && d < value.meta.sizes.size(); ++d) {
      SymInt size = value.meta.sizes[d];
      if (!size.is_symbolic()) continue;
      std::optional<SymValue> wanted = value_in_call(size.expr(), *graph_, symbols);
      int64_t found = inputs[i].size(static_cast<int64_t>(d)).word();
      require(!wanted || wanted->integer() == found,
              "input {}: dimension {} must be {} = {}, found {}",
              display_name(*graph_, graph_->inputs()[i]), d, symbolic_text(size), wanted->integer(),
              found);
    }
  }
  for (const Expr* condition : assumed_)
    require(holds(condition, *graph_, symbols), "the graph takes only sizes with {}",
            graph_->shape_env->text(condition));
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

void GraphRunner::check_input(size_t i, const Tensor& input) const {
  const GraphValue& value = graph_->value(graph_->inputs()[i]);
  std::string name = display_name(*graph_, graph_->inputs()[i]);
  require(input.defined(), "input {} is missing", name);
  if (value.kind != ValueKind::tensor) return;
  bool fits = input.dtype() == value.meta.dtype && input.device() == value.meta.device &&
              static_cast<size_t>(input.dim()) == value.meta.sizes.size();
  require(fits, "input {}: expected {}, found {}", name, to_text(value), symbolic_text(input));
  for (size_t d = 0; d < value.meta.sizes.size(); ++d)
    require(value.meta.sizes[d].is_symbolic() ||
                value.meta.sizes[d].word() == input.size(static_cast<int64_t>(d)).word(),
            "input {}: dimension {} must be {}, found {}", name, d,
            symbolic_text(value.meta.sizes[d]), symbolic_text(input));
}

std::vector<Tensor> GraphRunner::placed(std::vector<Tensor> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& value = graph_->value(graph_->inputs()[i]);
    bool is_elsewhere = value.kind == ValueKind::tensor && inputs[i].defined() &&
                        inputs[i].device() != value.meta.device;
    if (is_elsewhere) inputs[i] = inputs[i].to(value.meta.device, inputs[i].dtype());
  }
  return inputs;
}

std::vector<Tensor> GraphRunner::run(std::span<const Tensor> inputs) {
  report::TimeScope time(unit_, report::Work::call);
  require(inputs.size() == graph_->inputs().size(), "the graph takes {} inputs, found {}",
          graph_->inputs().size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) check_input(i, inputs[i]);
  WithGradients given(*graph_, inputs, is_written_);
  std::vector<detail::TensorHead*> heads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool is_tensor = graph_->value(graph_->inputs()[i]).kind == ValueKind::tensor;
    heads.push_back(is_tensor ? given[i].head() : nullptr);
  }
  std::vector<Tensor> outputs(graph_->outputs().size());
  std::vector<int64_t> symbols = symbols_of(inputs);
  check_sizes(inputs, symbols);
  const Version& version = version_for(symbols);
  // Tools give each input memory of its own, so no code is made for others that share it than the
  // graph tells.
  std::vector<Overlap> overlaps = memory_written_.overlaps(heads);
  std::erase_if(overlaps, [&](const Overlap& o) {
    uint32_t group = graph_->value(graph_->inputs()[o.first]).alias_group;
    return group && group == graph_->value(graph_->inputs()[o.second]).alias_group;
  });
  auto artifact = overlaps.empty() ? version.artifact : interpreter_artifact(version.graph);
  LaidOutInputs laid_out(*version.graph, heads, symbols, overlaps);
  as_fault_of_graph([&] { artifact->call(laid_out.heads(), symbols, outputs); });
  laid_out.write_back();
  laid_out.show_given(outputs);
  given.write_back();
  return outputs;
}

namespace {

/// What a size is in an input that is made up.
using SizeValue = std::function<int64_t(SymInt)>;

Tensor made_up_input(const GraphValue& value, const SizeValue& value_of, uint64_t seed) {
  if (value.kind != ValueKind::tensor) {
    bool whole = value.scalar.is_integer();
    return scalar_tensor(whole ? value_of(value.scalar.sym_int()) : 1,
                         whole ? Dtype::i64 : Dtype::f64);
  }
  std::vector<int64_t> sizes, strides;
  for (SymInt size : value.meta.sizes) sizes.push_back(value_of(size));
  for (SymInt stride : value.meta.strides) strides.push_back(value_of(stride));
  return random_tensor(IntList(sizes), IntList(strides), value.meta.dtype, seed);
}

std::vector<Tensor> made_up_inputs(const Graph& graph, const SizeValue& value_of, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs())
    inputs.push_back(made_up_input(graph.value(id), value_of, seed + inputs.size()));
  return inputs;
}

}  // namespace

// Data-dependent sizes have no example.
std::vector<Tensor> GraphRunner::random_inputs(uint64_t seed) const {
  auto example = [&](SymInt size) {
    if (!size.is_symbolic()) return size.word();
    std::optional<int64_t> hint = graph_->shape_env->int_hint(size);
    require(hint.has_value(), "an input of the graph has a size without an example; pass --input");
    return *hint;
  };
  return made_up_inputs(*graph_, example, seed);
}

std::vector<Tensor> GraphRunner::random_inputs(std::span<const int64_t> symbols,
                                               uint64_t seed) const {
  auto in_call = [&](SymInt size) { return dims_with(*graph_, {size}, symbols)[0]; };
  return made_up_inputs(*graph_, in_call, seed);
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
