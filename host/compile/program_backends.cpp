// Backends that are callables of the program.
#include "backend/backend.h"
#include "backend/compile/contract.h"
#include "backend/device_graphs.h"
#include "config/config.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/layout_questions.h"
#include "core/tensor/stand_in.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/compiler.h>
#include <tenon/config.h>

#include <algorithm>
#include <atomic>

namespace tenon::compiler {

namespace {

// The innermost call of a program's code that the thread is in: the values of its symbols are no
// part of what the code is given. While the code is made, the examples that it is made with.
struct Call {
  const tenon::Graph* graph;
  std::span<const int64_t> syms;
  std::span<const Tensor> examples = {};
  std::span<const Tensor> inputs = {};
  const Tensor* outputs = nullptr;
};
thread_local Call current_call = {};

class CallScope {
 public:
  explicit CallScope(const Call& call) : before_(std::exchange(current_call, call)) {}
  ~CallScope() { current_call = before_; }
  CallScope(const CallScope&) = delete;

 private:
  Call before_;
};

std::string dims_text(std::span<const int64_t> dims) {
  return to_text(IntList(std::vector<int64_t>(dims.begin(), dims.end())));
}

// Whether elements are where they should be: a step over one element leads nowhere.
bool steps_alike(const detail::TensorHead& found, std::span<const int64_t> strides) {
  bool is_empty = std::any_of(found.sizes, found.sizes + found.ndim, [](auto n) { return n == 0; });
  for (size_t d = 0; d < strides.size() && !is_empty; ++d)
    if (found.sizes[d] != 1 && found.strides[d] != strides[d]) return false;
  return true;
}

constexpr std::string_view next = "; give what Graph::run() gives";

// Later graphs and the program rely on what was recorded of an output.
void check_result(const std::string& name, const tenon::Graph& graph, size_t i,
                  std::span<const int64_t> syms, const Tensor& found) {
  const GraphValue& said = graph.value(graph.outputs()[i]);
  if (said.kind != ValueKind::tensor) return;
  const TensorMeta& meta = said.meta;
  require(found.defined(), "backend '{}': output {} of its code is undefined{}", name, i, next);
  auto rank = static_cast<int64_t>(meta.sizes.size());
  require(found.dtype() == meta.dtype && found.dim() == rank,
          "backend '{}': output {} of its code is {}; expected {} with {} dimensions{}", name, i,
          found, meta.dtype, rank, next);
  const detail::TensorHead& head = *found.head();
  std::span sizes(head.sizes, meta.sizes.size()), strides(head.strides, meta.sizes.size());
  std::vector<int64_t> wanted = as_the_graph_says(graph, meta.sizes, syms, sizes);
  require(std::ranges::equal(wanted, sizes),
          "backend '{}': output {} of its code has sizes {}, the graph says {}{}", name, i,
          dims_text(sizes), dims_text(wanted), next);
  wanted = as_the_graph_says(graph, meta.strides, syms, strides);
  require(steps_alike(head, wanted),
          "backend '{}': output {} of its code has strides {}, the graph says {}{}, or a copy with "
          "these strides",
          name, i, dims_text(strides), dims_text(wanted), next);
}

/// Code of the program behind the table that all compiled code has.
class ProgramArtifact : public Artifact {
 public:
  ProgramArtifact(std::string name, const CompileRequest& request, CompiledCode code)
      : name_(std::move(name)), graph_(request.graph), contract_(request), code_(std::move(code)) {}
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    std::vector<Tensor> given;
    given.reserve(inputs.size());
    for (detail::TensorHead*& head : inputs)
      given.push_back(!head   ? Tensor()
                      : steal ? Tensor::adopt(std::exchange(head, nullptr))
                              : share(head));
    CallScope scope({graph_.get(), syms, {}, given, outputs.data()});
    std::vector<Tensor> results = code_(given);
    require(
        results.size() == outputs.size(),
        "backend '{}': the tensors that its code gave are {}, the outputs of the graph {}; give "
        "what Graph::run() gives",
        name_, results.size(), outputs.size());
    for (size_t i = 0; i < results.size(); ++i) check_result(name_, *graph_, i, syms, results[i]);
    check_histories(given, results);
    std::ranges::move(results, outputs.begin());
  }
  std::string describe(int32_t) const override { return ""; }

 private:
  // What is not on the tape would lose the gradients that go through it, and nobody would be told.
  void check_histories(std::span<const Tensor> inputs, std::span<Tensor> results) const {
    std::vector<detail::TensorHead*> given;
    std::vector<tn_tensor*> found;
    for (const Tensor& t : inputs) given.push_back(t.head());
    for (const Tensor& t : results) found.push_back(t.head());
    std::string problem = contract_.problem(found, given);
    require(problem.empty(), "backend '{}': {}{}", name_, problem, next);
    drop_new_histories(results, given);
  }

  std::string name_;
  std::shared_ptr<const tenon::Graph> graph_;
  CallContract contract_;
  CompiledCode code_;
};

std::vector<Tensor> examples_of(const tenon::Graph& graph) {
  QuietLayouts no_guards;
  std::vector<Tensor> examples;
  for (ValueId id : graph.inputs()) {
    const GraphValue& v = graph.value(id);
    examples.push_back(v.kind == ValueKind::tensor ? make_fake(v.meta) : Tensor());
  }
  return examples;
}

Tensor example_of_result(const GraphValue& v) {
  if (v.kind == ValueKind::tensor) return v.meta.defined ? make_fake(v.meta) : Tensor();
  if (v.kind == ValueKind::none) return {};
  const Number& n = v.scalar;
  if (!n.is_symbolic()) return number_tensor(n);
  Dtype dtype = n.is_floating() ? Dtype::f64 : n.is_boolean() ? Dtype::bool_ : Dtype::i64;
  return make_fake(contiguous_meta({}, dtype));
}

std::vector<Tensor> example_results_of(const tenon::Graph& graph) {
  QuietLayouts no_guards;
  std::vector<Tensor> results;
  for (ValueId id : graph.outputs())
    results.push_back(id == no_value ? Tensor() : example_of_result(graph.value(id)));
  return results;
}

// The nodes would be given the examples' sizes as numbers, for which the code alone would hold.
bool are_its_examples(const tenon::Graph& graph, const std::vector<Tensor>& inputs) {
  return current_call.graph == &graph && !inputs.empty() &&
         std::ranges::equal(inputs, current_call.examples, same_head);
}

std::shared_ptr<Artifact> compile_with(const std::string& name, const BackendFunction& backend,
                                       const CompileRequest& request) {
  try {
    SymbolicTexts texts;
    std::vector<Tensor> examples = examples_of(*request.graph);
    CallScope scope({request.graph.get(), {}, examples});
    CompiledCode code = backend(Graph(request.graph), examples);
    require(code != nullptr, "it returned no code");
    return std::make_shared<ProgramArtifact>(name, request, std::move(code));
  } catch (const std::exception& error) {
    throw BackendError(ErrorCode::backend_compiler_failed, TN_INTERNAL,
                       message("backend '{}' of the program failed: {}", name, error.what()));
  }
}

}  // namespace

struct Graph::Runnable {
  explicit Runnable(const std::shared_ptr<const tenon::Graph>& g) : graph(g), interpreter(g) {}
  std::shared_ptr<const tenon::Graph> graph;
  Interpreter interpreter;
};

Graph::Graph(std::shared_ptr<const tenon::Graph> graph)
    : runnable_(std::make_shared<Runnable>(graph)) {}

std::string Graph::text() const { return to_text(*runnable_->graph); }

std::vector<std::string> Graph::ops() const {
  std::vector<std::string> names;
  for (const Node& node : runnable_->graph->nodes()) names.push_back(name_of(node.op));
  return names;
}

size_t Graph::n_inputs() const { return runnable_->graph->inputs().size(); }
size_t Graph::n_outputs() const { return runnable_->graph->outputs().size(); }

std::vector<Tensor> Graph::run(const std::vector<Tensor>& inputs) const {
  require(inputs.size() == n_inputs(), "Graph::run: expected {} inputs, found {}", n_inputs(),
          inputs.size());
  if (are_its_examples(*runnable_->graph, inputs)) return example_results_of(*runnable_->graph);
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  std::vector<Tensor> outputs(n_outputs());
  bool in_call = current_call.graph == runnable_->graph.get();
  bool is_the_call = in_call && std::ranges::equal(inputs, current_call.inputs, same_head);
  KnownWhenFailed known(outputs, is_the_call ? current_call.outputs : nullptr);
  runnable_->interpreter.run(heads, in_call ? current_call.syms : std::span<const int64_t>(),
                             outputs);
  return outputs;
}

void register_backend(const std::string& name, BackendFunction backend,
                      std::vector<std::string> tags) {
  require(!name.empty(),
          "register_backend: the name is empty; expected one that Options::backend names");
  for (const BackendInfo& b : all_backends())
    require(b.name != name,
            "register_backend: there is a backend '{}' already, of {}; choose another name", name,
            b.plugin);
  require(backend != nullptr,
          "register_backend: the function of backend '{}' is empty; give one that can be called",
          name);
  auto compile = [name, backend = std::move(backend)](const CompileRequest& request) {
    return compile_with(name, backend, request);
  };
  tenon::register_backend(name, compile, std::move(tags));
}

void set_default_backend(const std::string& name) {
  if (!name.empty()) static_cast<void>(backend_info(name));
  if (name.empty())
    config::unset("compiler.default_backend");
  else
    config::set("compiler.default_backend", name);
}
std::string get_default_backend() { return default_backend(); }

static std::atomic<int64_t> step{0};

void cudagraph_mark_step_begin() {
  require(!thread_modes.tracer, ErrorCode::unsupported,
          "cudagraph_mark_step_begin: called inside of a compiled callable; call it between calls");
  step.fetch_add(1, std::memory_order_relaxed);
  begin_graph_generation();
  report::counter("cudagraphs.steps").add();
}
int64_t cudagraph_step() { return step.load(std::memory_order_relaxed); }

}  // namespace tenon::compiler
