// Running .pt2 models: versions of compiled code, effects, double precision, made-up inputs.
#include "debug/model_runner.h"

#include "compile.h"
#include "core/sym_eval.h"
#include "core/tensor_impl.h"
#include "graph/interpret.h"

#include <tenon/ops.h>

#include <algorithm>
#include <chrono>

namespace tenon {

using formats::BoundCall;
using formats::ImportedModel;
using formats::ModelInput;
using formats::ModelOutput;
using formats::ModelOutputKind;

namespace {

/// Models run without gradients here.
struct WithoutGradients {
  bool before = std::exchange(thread_modes.grad_enabled, false);
  ~WithoutGradients() { thread_modes.grad_enabled = before; }
};

// Conditions over symbols that only the run knows are the graph's own to assert.
bool holds(const Expr* condition, const Graph& graph, const BoundCall& call) {
  auto value = evaluate(condition, [&](const Expr* symbol) -> std::optional<SymValue> {
    for (size_t s = 0; s < graph.symbols.size(); ++s)
      if (graph.symbols[s].symbol == symbol &&
          graph.value(graph.symbols[s].value).source == ValueSource::input)
        return SymValue{symbol->kind, call.symbols[s]};
    return std::nullopt;
  });
  return !value || value->integer() != 0;
}

Tensor constant_output(const formats::Pt2Argument& value) {
  switch (value.kind) {
    case formats::Pt2Kind::integer:
      return scalar_tensor(value.integer, Dtype::i64);
    case formats::Pt2Kind::boolean:
      return scalar_tensor(value.boolean, Dtype::bool_);
    case formats::Pt2Kind::real:
      return scalar_tensor(value.real, Dtype::f64);
    default:
      return Tensor();
  }
}

// Copies what the functional form of a model returns into the inputs that it stands for.
std::vector<Tensor> apply_plan(const ImportedModel& model, const BoundCall& call,
                               const std::vector<Tensor>& results,
                               std::map<std::string, Tensor>& gradients) {
  std::vector<Tensor> outputs;
  for (const ModelOutput& plan : model.outputs) {
    switch (plan.kind) {
      case ModelOutputKind::result:
        outputs.push_back(results[plan.index]);
        break;
      case ModelOutputKind::constant:
        outputs.push_back(constant_output(plan.constant));
        break;
      case ModelOutputKind::gradient:
        gradients[plan.name] = results[plan.index];
        break;
      case ModelOutputKind::write_back: {
        detail::TensorHead* head = call.inputs[plan.input];
        head->references.fetch_add(1, std::memory_order_relaxed);
        copy_(Tensor::adopt(head), results[plan.index]);
        break;
      }
    }
  }
  return outputs;
}

}  // namespace

ModelRunner::ModelRunner(std::shared_ptr<const formats::Pt2Program> program, RunnerOptions options)
    : program_(std::move(program)),
      options_(std::move(options)),
      model_(import_pt2(*program_, {.hints = {}, .random_weights = options_.random_weights})) {}

void ModelRunner::reset_weights() {
  ImportedModel fresh =
      import_pt2(*program_, {.hints = {}, .random_weights = options_.random_weights});
  for (size_t i = 0; i < model_.inputs.size(); ++i)
    model_.inputs[i].tensor = std::move(fresh.inputs[i].tensor);
}

ModelRunner::Version ModelRunner::make_version(const BoundCall& call) {
  auto begin = std::chrono::steady_clock::now();
  Version version;
  // The first version keeps the archive's example sizes, if they make no difference.
  version.graph = versions_.empty()
                      ? model_.graph
                      : import_pt2(*program_, {.hints = call.values, .with_weights = false}).graph;
  CompileGraphOptions options;
  options.backend = options_.backend;
  options.mode = options_.mode;
  options.options_toml = options_.options_toml;
  options.compile_id = message("0/{}", versions_.size());
  options.dynamic = !version.graph->symbols.empty();
  version.artifact = compile_graph(version.graph, options);
  for (const RecordedGuard& guard : version.graph->shape_env->guard_conditions())
    version.conditions.push_back(guard.condition);
  for (const Expr* guard : version.artifact->guards) version.conditions.push_back(guard);
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  compile_ms_ += took.count();
  return version;
}

ModelRunner::Version& ModelRunner::version_for(const BoundCall& call) {
  auto fits = [&](const Version& v) {
    return std::all_of(v.conditions.begin(), v.conditions.end(),
                       [&](const Expr* c) { return holds(c, *v.graph, call); });
  };
  for (Version& version : versions_)
    if (fits(version)) return version;
  versions_.push_back(make_version(call));
  if (!fits(versions_.back())) versions_.push_back(make_version(call));
  return versions_.back();
}

void ModelRunner::compile(std::span<const Tensor> leaves) {
  WithoutGradients scope;
  version_for(bind_call(model_, leaves));
}

std::vector<Tensor> ModelRunner::run(std::span<const Tensor> leaves) {
  WithoutGradients scope;
  BoundCall call = bind_call(model_, leaves);
  Version& version = version_for(call);
  std::vector<Tensor> results(version.graph->outputs().size());
  version.artifact->call(call.inputs, call.symbols, results);
  gradients_.clear();
  return apply_plan(model_, call, results, gradients_);
}

Tensor ModelRunner::weight(const std::string& name) const {
  for (const ModelInput& input : model_.inputs)
    if (std::find(input.names.begin(), input.names.end(), name) != input.names.end())
      return input.tensor;
  return Tensor();
}

std::string ModelRunner::describe(int32_t what) const {
  return versions_.empty() ? "" : versions_.back().artifact->describe(what);
}

// ---- double precision

namespace {

bool is_narrow(Dtype dtype) { return is_floating(dtype) && dtype != Dtype::f64; }

Tensor widened(const Tensor& t) {
  if (!t.defined()) return t;
  return is_narrow(t.dtype()) ? t.to(Dtype::f64) : t.clone();
}

void widen_casts(Graph& graph) {
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    std::vector<Value> args(graph.node(n).args.begin(), graph.node(n).args.end());
    bool changed = false;
    for (Value& a : args) {
      if (a.tag != Tag::dtype || !is_narrow(static_cast<Dtype>(a.payload))) continue;
      a = Value::of(Dtype::f64);
      changed = true;
    }
    if (changed) graph.set_args(n, args);
  }
}

// Views of one storage stay views of one storage.
void widen_weights(ImportedModel& model) {
  std::map<uint64_t, Tensor> bases;
  for (ModelInput& input : model.inputs) {
    if (!input.tensor.defined()) continue;
    const Tensor& t = input.tensor;
    Storage* storage = impl_of(t)->storage_ref.get();
    Tensor& base = bases[storage->id];
    int64_t n = static_cast<int64_t>(storage->bytes) / itemsize(t.dtype());
    if (!base.defined()) base = widened(make_view(t, IntList{n}, IntList{1}, 0));
    input.tensor = make_view(base, t.sizes(), t.strides(), t.storage_offset());
  }
}

}  // namespace

DoubleRun run_in_double(const formats::Pt2Program& program, std::span<const Tensor> leaves) {
  WithoutGradients scope;
  ImportedModel model = import_pt2(program);
  widen_casts(*model.graph);
  widen_weights(model);
  DoubleRun out;
  for (const Tensor& leaf : leaves) out.leaves.push_back(widened(leaf));
  BoundCall call = bind_call_any_precision(model, out.leaves);
  std::vector<Tensor> results(model.graph->outputs().size());
  Interpreter(model.graph).run(call.inputs, call.symbols, results);
  out.outputs = apply_plan(model, call, results, out.gradients);
  for (const ModelInput& input : model.inputs)
    for (const std::string& name : input.names) out.weights[name] = input.tensor;
  return out;
}

// ---- inputs

namespace {

/// A small generator of our own: the same inputs in every build.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 0x9E3779B97F4A7C15u) {}
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal() {  // the sum of twelve uniform numbers has variance 1
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

double draw(Numbers& numbers, Dtype dtype) {
  if (is_floating(dtype)) return numbers.normal();
  return static_cast<double>(
      static_cast<int>(numbers.uniform() * (dtype == Dtype::bool_ ? 2 : 10)));
}

}  // namespace

Tensor random_tensor(IntList sizes, Dtype dtype, uint64_t seed) {
  Numbers numbers(seed);
  Tensor t = make_tensor(sizes, Dtype::f64);
  int64_t n = t.numel().guard_int();
  for (int64_t i = 0; i < n; ++i) t.data_ptr<double>()[i] = draw(numbers, dtype);
  return dtype == Dtype::f64 ? t : t.to(dtype);
}

std::vector<Tensor> random_leaves(const ImportedModel& model, const formats::Pt2Program& program,
                                  uint64_t seed) {
  formats::Pt2SymbolValues values = symbol_hints(program, model.symbols);
  std::vector<Tensor> leaves;
  for (const formats::ModelLeaf& leaf : model.leaves) {
    switch (leaf.kind) {
      case formats::LeafKind::tensor:
        leaves.push_back(random_tensor(IntList(formats::sizes_of(leaf, values)), leaf.dtype,
                                       seed + leaves.size()));
        break;
      case formats::LeafKind::constant:
        leaves.emplace_back();
        break;
      case formats::LeafKind::number: {
        formats::SymNumber value = leaf.number.expr
                                       ? formats::evaluate_with(*leaf.number.expr, values)
                                       : leaf.number.value;
        int64_t n = std::holds_alternative<int64_t>(value) ? std::get<int64_t>(value) : 1;
        leaves.push_back(scalar_tensor(n, Dtype::i64));
        break;
      }
    }
  }
  return leaves;
}

}  // namespace tenon
