// Bodies: the runner of a thread, copies of shared results, and recording within a recording.
#include "graph/body.h"

#include "core/dispatch.h"
#include "core/sym/sym_int.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"
#include "graph/passes/passes.h"
#include "graph/symbol_use.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <tenon/autograd.h>

#include <algorithm>
#include <map>

namespace tenon {

// ---- running

static thread_local constinit const BodyRunner* runner_of_thread = nullptr;

BodyRunnerScope::BodyRunnerScope(const BodyRunner& runner)
    : before_(std::exchange(runner_of_thread, &runner)) {}
BodyRunnerScope::~BodyRunnerScope() { runner_of_thread = before_; }

std::vector<Tensor> run_body(const Graph& body, std::span<const Tensor> inputs) {
  require(inputs.size() == body.inputs().size(), "a body takes {} inputs, but gets {} operands",
          body.inputs().size(), inputs.size());
  std::vector<Tensor> outputs(body.outputs().size());
  if (runner_of_thread && runner_of_thread->run(body, inputs, outputs)) return outputs;
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(t.head());
  std::shared_ptr<const Graph> borrowed(std::shared_ptr<const void>(), &body);
  Interpreter(borrowed).run(heads, {}, outputs);
  return outputs;
}

// ---- making

namespace {

Value clone_argument(const OpEntry& op, size_t arg, ValueId id) {
  if (arg == 0) return Value::ref(id);
  if (op.schema.args[arg].name == "memory_format") return Value::of(MemoryFormat::contiguous);
  return default_of(op, arg);
}

ValueId add_clone(Graph& body, ValueId id) {
  static const OpEntry& op = entry_of(OpId::aten_clone_default);
  std::vector<Value> args;
  for (size_t i = 0; i < op.n_args; ++i) args.push_back(clone_argument(op, i, id));
  GraphValue copy;
  const TensorMeta& meta = body.value(id).meta;
  copy.meta = contiguous_meta(list_of(meta.sizes), meta.dtype, meta.device);
  std::vector<GraphValue> results;
  results.push_back(std::move(copy));
  return body.node(body.add_node(op.id, args, std::move(results))).first_result;
}

}  // namespace

void isolate_outputs(Graph& body) {
  AliasClasses classes(body);
  std::map<uint32_t, int> n_outputs;
  for (ValueId v : body.outputs())
    if (v != no_value) ++n_outputs[classes.of(v)];
  std::vector<ValueId> outputs(body.outputs().begin(), body.outputs().end());
  for (ValueId& v : outputs) {
    bool is_tensor = v != no_value && body.value(v).kind == ValueKind::tensor;
    if (is_tensor && (classes.is_external(v) || n_outputs[classes.of(v)] > 1))
      v = add_clone(body, v);
  }
  body.set_outputs(std::move(outputs));
}

void bind_shown_symbols(Graph& body) {
  auto bind = [&](const SymbolBinding& shown) {
    auto known = std::ranges::find(body.symbols, shown.symbol, &SymbolBinding::symbol);
    if (known == body.symbols.end())
      body.symbols.push_back(shown);
    else if (body.value(known->value).source == ValueSource::node)
      *known = shown;  // the code has to know it before it runs
  };
  for (ValueId v : body.inputs()) {
    const GraphValue& value = body.value(v);
    for (bool stride : {false, true}) {
      const Dims& dims = stride ? value.meta.strides : value.meta.sizes;
      for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d].is_symbolic() && dims[d].expr()->is_symbol())
          bind({dims[d].expr(), v, static_cast<int32_t>(d), stride});
    }
  }
}

namespace {

/// One walk over a body: its values as fakes of the recording, or as numbers.
class Replay {
 public:
  explicit Replay(const Graph& body)
      : body_(body), tensors_(body.values().size()), numbers_(body.values().size()) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) tensors_[body_.inputs()[i]] = inputs[i];
    for (ValueId c : body_.constants()) tensors_[c] = body_.constant(c);
    for (const SymbolBinding& b : body_.symbols)
      require(body_.value(b.value).source != ValueSource::node, ErrorCode::unsupported,
              "a body of control flow has sizes that only the run knows, and is not differentiated "
              "ahead");
    for (const Node& node : body_.nodes()) call(node);
    std::vector<Tensor> outputs;
    for (ValueId v : body_.outputs()) outputs.push_back(tensors_[v]);
    return outputs;
  }

 private:
  Value argument(ValueId id) const {
    ValueKind kind = body_.value(id).kind;
    return kind == ValueKind::tensor ? Value::of(tensors_[id])
           : kind == ValueKind::none ? Value{}
                                     : Value::of(numbers_[id]);
  }

  void call(const Node& node) {
    const OpEntry& op = entry_of(node.op);
    ArgumentLists lists;
    std::vector<Value> args(node.args.begin(), node.args.end());
    map_arguments(
        args, lists, [this](ValueId id) { return argument(id); }, keep_numbers);
    std::optional<EnableGradGuard> mode;
    if (auto fact = node.facts.find("grad"); fact != node.facts.end())
      mode.emplace(fact->second == "on");
    Value results[8];
    bool list = op.schema.returns_list();
    uint32_t n_results = list ? 1 : node.n_results;
    ensure(n_results <= 8, "an op has at most eight results");
    dispatch(op, args.data(), static_cast<uint32_t>(args.size()), results, n_results);
    if (list) {
      std::vector<Tensor> parts = take<std::vector<Tensor>>(results[0]);
      require(parts.size() == node.n_results, "{}: the graph expects {} parts, the op gave {}",
              op.name, node.n_results, parts.size());
      std::ranges::move(parts, tensors_.begin() + node.first_result);
      return;
    }
    for (uint32_t r = 0; r < n_results; ++r) {
      ValueId id = node.first_result + r;
      if (results[r].is_number())
        numbers_[id] = results[r].number();
      else
        tensors_[id] = take<Tensor>(results[r]);
    }
  }

  const Graph& body_;
  std::vector<Tensor> tensors_;
  std::vector<Number> numbers_;
};

}  // namespace

std::vector<Tensor> replay_body(const Graph& body, std::span<const Tensor> inputs) {
  return Replay(body).run(inputs);
}

std::shared_ptr<Graph> record_body(std::span<const TensorMeta> inputs, const BodyFn& fn,
                                   bool on_tape, const std::vector<bool>& needs_grad) {
  GraphRecorder& outer = recorder_of_thread();
  EnableGradGuard mode(on_tape || thread_modes.grad_enabled);
  GraphRecorder recorder(outer.shape_env());
  recorder.opens = outer.opens;
  recorder.on_tape = on_tape;
  RecordScope scope(recorder);
  std::vector<Tensor> fakes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    GraphValue value;
    value.flags.requires_grad = on_tape && i < needs_grad.size() && needs_grad[i];
    fakes.push_back(recorder.add_input(inputs[i], 0, std::move(value)));
  }
  std::vector<Tensor> outputs = fn(fakes);
  std::shared_ptr<Graph> body = recorder.finish(outputs);
  for (ValueId v : body->inputs()) body->value(v).flags.requires_grad = false;
  for (NodeId n = 0; n < body->nodes().size(); ++n) body->node(n).is_backward = false;
  isolate_outputs(*body);
  bind_shown_symbols(*body);
  remove_dead_code(*body, {.keep_random = true});
  return body;
}

Value keep_body(Graph& graph, std::shared_ptr<Graph> body) {
  const Graph* kept = graph.subgraphs.emplace_back(std::move(body)).get();
  return Value::pointer(Tag::graph, kept);
}

}  // namespace tenon
