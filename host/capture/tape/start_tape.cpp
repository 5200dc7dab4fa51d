// Going over to the tape in the middle of a body.
//
// Problem: that a body calls backward() shows when it does, and by then its operations are recorded
// without a tape. To run it once more would repeat whatever else it does: counters, logs, the next
// batch of a loader. Model: what is recorded goes through the tape now, operation by operation, from
// the inputs that there are. The fakes that the body holds become those of the new graph, so that
// it goes on as if the tape had been there from the start. Gradients of leaves that the body has
// touched by then are set aside as they were before. Where an operation cannot be called again
// (control flow, numbers read from data, checkpoints) the body is run once more after all.
// Cost: that of recording the operations so far.
#include "capture/trace.h"
#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"

#include <tenon/autograd.h>

#include <algorithm>

namespace tenon {

namespace {

bool may_be_called_again(const Graph& graph, const Node& node) {
  bool has_object = std::ranges::any_of(
      node.args, [](const Value& a) { return a.tag == Tag::graph || a.tag == Tag::opaque; });
  if (has_object || node.facts.contains("recompute")) return false;
  for (ValueId v = node.first_result; v < node.first_result + node.n_results; ++v)
    if (ValueKind kind = graph.value(v).kind; kind != ValueKind::tensor && kind != ValueKind::none)
      return false;
  return true;
}

bool may_be_called_again(const Graph& graph) {
  return graph.constants().empty() && std::ranges::all_of(graph.nodes(), [&](const Node& node) {
           return may_be_called_again(graph, node);
         });
}

/// The tensor objects of a graph: which one a value belongs to, and who stands for it.
class Objects {
 public:
  Objects(GraphRecorder& recorder, const TraceInputs& inputs)
      : before_(recorder.values_before()), own_(recorder.graph().values().size()), held_(own_) {
    before_.resize(own_.size(), no_value);
    const Graph& graph = recorder.graph();
    for (uint32_t i = 0; i < graph.inputs().size(); ++i)
      own_[graph.inputs()[i]] = as_named(recorder.input_fake(i), inputs);
    for (const Tensor& fake : recorder.live_fakes()) {
      ValueId object = object_of(impl_of(fake)->extra->trace_value);
      if (!own_[object].defined()) held_[object] = fake;
    }
  }

  ValueId object_of(ValueId value) const {
    while (before_[value] != no_value) value = before_[value];
    return value;
  }
  Tensor& own(ValueId value) { return own_[object_of(value)]; }
  /// The body's, of what operations have made.
  const Tensor& held(ValueId value) const { return held_[object_of(value)]; }

 private:
  // The tape knows captured tensors as the body names them.
  static Tensor as_named(const Tensor& fake, const TraceInputs& inputs) {
    const ValueOrigin* origin = fake.defined() ? inputs.known_origin(fake) : nullptr;
    bool is_captured = origin && origin->kind == ValueOrigin::Kind::implicit;
    return is_captured ? inputs.stand_ins.real_of(fake) : fake;
  }

  std::vector<ValueId> before_;
  std::vector<Tensor> own_, held_;  // by object, its first value
};

/// The operations of a graph, once more.
class Again {
 public:
  Again(Trace& trace, const Graph& graph, Objects objects, const autograd::TapeRequests& requests)
      : trace_(trace), graph_(graph), objects_(std::move(objects)), requests_(requests) {}

  void run() {
    GraphRecorder& recorder = recorder_of_thread();
    SourceLocation where = std::exchange(recorder.where, {});
    std::string module_path = std::exchange(recorder.module_path, {});
    autograd::RequestsOfCall brings(requests_);
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      recorder.where = graph_.node(n).where;
      recorder.module_path = graph_.node(n).module_path;
      call(n);
    }
    recorder.where = std::move(where);
    recorder.module_path = std::move(module_path);
  }

 private:
  void call(NodeId n) {
    const Node& node = graph_.node(n);
    const OpEntry& op = entry_of(node.op);
    ArgumentLists lists;
    std::vector<Value> args(node.args.begin(), node.args.end());
    map_arguments(
        args, lists, [&](ValueId v) { return Value::of(objects_.own(v)); }, keep_numbers);
    std::vector<Value> results(std::max<uint32_t>(op.n_returns, 1));
    CallArgs made{&op, args.data(), results.data(), static_cast<uint32_t>(args.size()),
                  op.n_returns};
    auto grad = node.facts.find("grad");
    bool default_grad = recorder_of_thread().grad_enabled();
    EnableGradGuard mode(grad == node.facts.end() ? default_grad : grad->second == "on");
    if (is_assertion(node))
      recorder_of_thread().record(made);
    else
      dispatch(op, made.args, made.n_args, made.results, made.n_results);
    each_result(made, [&](const Tensor& t, uint32_t r) {
      if (t.defined()) take(t, node.first_result + r);
    });
    for (Value& v : results) drop(v);
    attach_function(n);
  }

  // Nothing but the result's handle names `t` yet, so the body's fake can take its place.
  void take(const Tensor& t, ValueId value) {
    if (Tensor& own = objects_.own(value); !own.defined()) {
      own = objects_.held(value);
      if (own.defined())
        hand_over(t, own);
      else
        own = t;
    }
    for (const autograd::HookOnValue& on : requests_.hooks)
      if (on.value == value) on.hook->attach(objects_.own(value));
  }

  void hand_over(const Tensor& t, const Tensor& held) {
    trace_.take_place(t, held);
    TensorImpl *to = impl_of(held), *from = impl_of(t);
    to->grad = std::move(from->grad);
    to->base = from->base;
    to->base_version = from->base_version;
  }

  void attach_function(NodeId last) {
    auto place = autograd::FunctionPlace::of(graph_.node(last));
    if (!place) return;
    autograd::RequestsOfCall::attach_function(
        last, *place, [&](ValueId v) { return objects_.own(v); },
        [](auto backward) { return backward; });
  }

  Trace& trace_;
  const Graph& graph_;
  Objects objects_;
  const autograd::TapeRequests& requests_;
};

}  // namespace

void start_tape(Trace& trace) {
  GraphRecorder& recorder = trace.recorder_;
  const GivenNumbers& given = trace.numbers_.given;
  bool is_plain = !trace.leaves_body_out && !trace.so_far().has_graph_breaks() &&
                  given.places.empty() && given.shared_sizes.empty() &&
                  trace.records(recorder_of_thread());
  if (!is_plain || !may_be_called_again(recorder.graph())) throw WantsTape();
  Objects objects(recorder, trace.inputs_);
  std::shared_ptr<const Graph> so_far = recorder.restart(true);
  recorder.on_tape = true;
  thread_modes.exclude &= ~bit(Key::autograd);  // until the scope of the recording ends
  trace.recording_.grads_on.clear();
  trace.n_steps_ = 0;
  trace.mutates_ = trace.has_mutated_ = false;
  trace.inputs_.written.clear();
  trace.units_.take();
  trace.gradients_ = std::move(trace.early_gradients_);
  trace.gradients_.start_tape();
  autograd::TapeRequests requests = std::exchange(trace.requests_, {});
  Again(trace, *so_far, std::move(objects), requests).run();
}

}  // namespace tenon
