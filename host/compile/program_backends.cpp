// Backends that are callables of the program.
#include "backend/backend.h"
#include "backend/device_graphs.h"
#include "config/config.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/layout_questions.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/text/print.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/compiler.h>
#include <tenon/config.h>

#include <atomic>
#include <optional>

namespace tenon::compiler {

namespace {

// The innermost call of a program's code that the thread is in: the values of its symbols are no
// part of what the code is given.
struct Call {
  const tenon::Graph* graph;
  std::span<const int64_t> syms;
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

std::vector<Tensor> call_checked(const tenon::Graph& graph, const CompiledCode& code,
                                 const std::vector<Tensor>& inputs) {
  std::vector<Tensor> results = code(inputs);
  require(results.size() == graph.outputs().size(),
          "the code of a backend of the program gave {} tensors for a graph with {} outputs",
          results.size(), graph.outputs().size());
  for (size_t i = 0; i < results.size(); ++i) {
    const GraphValue& wanted = graph.value(graph.outputs()[i]);
    if (wanted.kind != ValueKind::tensor) continue;
    require(results[i].defined(), "output {} of a backend of the program is undefined", i);
    auto rank = static_cast<int64_t>(wanted.meta.sizes.size());
    require(results[i].dtype() == wanted.meta.dtype && results[i].dim() == rank,
            "output {} of a backend of the program is {}; expected {} with {} dimensions", i,
            results[i], wanted.meta.dtype, rank);
  }
  return results;
}

/// Code of the program behind the table that all compiled code has.
class ProgramArtifact : public Artifact {
 public:
  ProgramArtifact(std::shared_ptr<const tenon::Graph> graph, CompiledCode code)
      : graph_(std::move(graph)), code_(std::move(code)) {}
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    std::vector<Tensor> given;
    given.reserve(inputs.size());
    for (detail::TensorHead*& head : inputs)
      given.push_back(!head   ? Tensor()
                      : steal ? Tensor::adopt(std::exchange(head, nullptr))
                              : share(head));
    CallScope scope({graph_.get(), syms});
    std::vector<Tensor> results = call_checked(*graph_, code_, given);
    for (size_t i = 0; i < results.size(); ++i) outputs[i] = std::move(results[i]);
  }
  std::string describe(int32_t) const override { return ""; }

 private:
  std::shared_ptr<const tenon::Graph> graph_;
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

std::shared_ptr<Artifact> compile_with(const std::string& name, const BackendFunction& backend,
                                       const CompileRequest& request) {
  try {
    // What the backend asks about sizes becomes a condition of its code.
    std::optional<ShapeEnvScope> sizes;
    if (request.graph->shape_env) sizes.emplace(*request.graph->shape_env);
    SymbolicTexts texts;
    CompiledCode code = backend(Graph(request.graph), examples_of(*request.graph));
    require(code != nullptr, "it returned no code");
    return std::make_shared<ProgramArtifact>(request.graph, std::move(code));
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
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  std::vector<Tensor> outputs(n_outputs());
  bool in_call = current_call.graph == runnable_->graph.get();
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
